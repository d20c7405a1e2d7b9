//! Every variant of every shader is valid, and can be written for Vulkan, Metal and DX12.
#![cfg(feature = "wgpu")]

use naga::{
    back::{hlsl, msl, spv},
    valid::{Capabilities, ValidationFlags, Validator},
};

#[test]
fn every_variant_is_valid_and_can_be_written_for_each_interface() {
    let shaders = hopwise::backend::wgpu::all_shaders();
    assert!(!shaders.is_empty());
    for (name, wgsl) in shaders {
        let module =
            naga::front::wgsl::parse_str(&wgsl).unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&wgsl)));
        // No capability beyond what every adapter and browser has: unpack2x16float is a part of WebGPU's core, and only
        // some OpenGL drivers lack it.
        let info = Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16_IN_FLOAT32)
            .validate(&module)
            .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&wgsl)));

        spv::write_vec(&module, &info, &spv::Options::default(), None)
            .unwrap_or_else(|e| panic!("{name}, SPIR-V: {e}"));

        let options = msl::Options { fake_missing_bindings: true, ..Default::default() };
        msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
            .unwrap_or_else(|e| panic!("{name}, MSL: {e}"));

        let options = hlsl::Options { fake_missing_bindings: true, ..Default::default() };
        let mut text = String::new();
        hlsl::Writer::new(&mut text, &options, &hlsl::PipelineOptions::default())
            .write(&module, &info, None)
            .unwrap_or_else(|e| panic!("{name}, HLSL: {e}"));
    }
}
