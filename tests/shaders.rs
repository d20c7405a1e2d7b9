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
        // No capability beyond what every adapter and browser has, but for the variants of adapters with subgroups.
        let subgroups = name.contains("SUBGROUPS");
        let capabilities = if subgroups { Capabilities::SUBGROUP } else { Capabilities::empty() };
        let info = Validator::new(ValidationFlags::all(), capabilities)
            .validate(&module)
            .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(&wgsl)));

        spv::write_vec(&module, &info, &spv::Options::default(), None)
            .unwrap_or_else(|e| panic!("{name}, SPIR-V: {e}"));

        let options = msl::Options { fake_missing_bindings: true, ..Default::default() };
        msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
            .unwrap_or_else(|e| panic!("{name}, MSL: {e}"));

        let shader_model = if subgroups { hlsl::ShaderModel::V6_0 } else { hlsl::ShaderModel::V5_1 };
        let options = hlsl::Options { fake_missing_bindings: true, shader_model, ..Default::default() };
        let mut text = String::new();
        hlsl::Writer::new(&mut text, &options, &hlsl::PipelineOptions::default())
            .write(&module, &info, None)
            .unwrap_or_else(|e| panic!("{name}, HLSL: {e}"));
    }
}

/// WGSL sets such a variable to zero in every iteration. Chromium's compiler does so once for Vulkan, and it keeps its value from then on.
#[test]
fn variables_inside_loops_have_an_initial_value() {
    for (name, wgsl) in hopwise::backend::wgpu::all_shaders() {
        // Whether each open brace is a loop's.
        let mut open: Vec<bool> = Vec::new();
        for line in wgsl.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
            let declares = line.starts_with("var ") && line.ends_with(';') && !line.contains('=');
            assert!(!(declares && open.contains(&true)), "{name}: `{line}` has no initial value inside a loop");
            let is_loop = ["for ", "while ", "loop "].iter().any(|word| line.starts_with(word));
            for c in line.chars() {
                match c {
                    '{' => open.push(is_loop),
                    '}' => _ = open.pop(),
                    _ => {}
                }
            }
        }
        assert!(open.is_empty(), "{name} has unequal braces");
    }
}
