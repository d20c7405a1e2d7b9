//! Prints every WGSL variant as JSON, `[[name, source], ...]`: what `scripts/check-browser-shaders.sh` gives to a browser's compiler.
//!
//! WGSL wants subgroups to be enabled by a line that naga does not take, so it is added here. Another one allows exchange
//! within loops that only the threads of a subgroup leave together: WGSL knows of no less than the workgroup.

fn main() -> std::io::Result<()> {
    let mut shaders = hopwise::backend::wgpu::all_shaders();
    for (_, wgsl) in &mut shaders {
        if wgsl.contains("subgroup") {
            wgsl.insert_str(0, "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n");
        }
    }
    serde_json::to_writer(std::io::stdout().lock(), &shaders)?;
    Ok(())
}
