use clap::ValueEnum;
use hopwise::backend::{
    Device,
    wgpu::{WgpuBackend, WgpuOptions},
};

use crate::failure::Failure;

/// Which device to use.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Where to compute: auto takes a hardware GPU, else the processor, and says which
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    backend: Choice,

    /// A part of the name of the GPU to use (see `hopwise devices`); implies --backend wgpu
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Auto,
    Wgpu,
    Cpu,
}

impl DeviceArgs {
    /// Opens the device and says which it is.
    pub(crate) fn open(&self) -> Result<Device, Failure> {
        let device = match (self.backend, &self.adapter) {
            (Choice::Cpu, Some(adapter)) => {
                return Err(Failure::Usage(format!("--adapter {adapter} names a GPU, but --backend is cpu: drop one")));
            }
            (Choice::Cpu, None) => Device::cpu(),
            (Choice::Auto, None) => {
                let options = WgpuOptions { hardware_only: true, ..Default::default() };
                pollster::block_on(WgpuBackend::new(&options)).map_or_else(
                    |error| {
                        eprintln!("note: {error}");
                        Device::cpu()
                    },
                    Device::new,
                )
            }
            (Choice::Wgpu, adapter) | (Choice::Auto, adapter) => {
                let options = WgpuOptions { adapter: adapter.clone(), ..Default::default() };
                Device::new(pollster::block_on(WgpuBackend::new(&options))?)
            }
        };
        eprintln!("device: {} ({}; {})", device.info().backend, device.info().name, device.info().driver);
        Ok(device)
    }
}
