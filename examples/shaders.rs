//! Prints every WGSL variant as JSON, `[[name, source], ...]`: what `scripts/check-browser-shaders.sh` gives to a browser's compiler.

fn main() -> std::io::Result<()> {
    let shaders = hopwise::backend::wgpu::all_shaders();
    serde_json::to_writer(std::io::stdout().lock(), &shaders)?;
    Ok(())
}
