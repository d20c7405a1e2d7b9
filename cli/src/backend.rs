use clap::ValueEnum;
use hopwise::backend::{
    Device,
    cuda::{CudaBackend, CudaOptions},
    wgpu::{WgpuBackend, WgpuOptions},
};

use crate::failure::Failure;

/// Which device to use.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Where to compute: auto takes CUDA, else a hardware GPU through wgpu, else the processor, and says which
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    backend: Choice,

    /// A part of the name of the GPU to use (see `hopwise devices`); implies --backend wgpu
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,

    /// The number of the CUDA device to use; implies --backend cuda
    #[arg(long, value_name = "NUMBER", conflicts_with = "adapter")]
    cuda_device: Option<usize>,

    /// With --backend cuda, let dense products round their factors to TF32 for the Tensor Cores
    #[arg(long)]
    tf32: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Auto,
    Cuda,
    Wgpu,
    Cpu,
}

impl DeviceArgs {
    /// Opens the device and says which it is.
    pub(crate) fn open(&self) -> Result<Device, Failure> {
        let device = match (self.backend, &self.adapter, self.cuda_device) {
            (Choice::Cpu | Choice::Cuda, Some(adapter), _) => {
                return Err(Failure::Usage(format!(
                    "--adapter {adapter} names a GPU of wgpu, but --backend is another: drop one"
                )));
            }
            (Choice::Cpu | Choice::Wgpu, _, Some(number)) => {
                return Err(Failure::Usage(format!(
                    "--cuda-device {number} needs CUDA, but --backend is another: drop one"
                )));
            }
            (Choice::Cpu, ..) => Device::cpu(),
            (Choice::Cuda, ..) | (Choice::Auto, _, Some(_)) => self.cuda()?,
            (Choice::Auto, None, None) => self.best(),
            (Choice::Wgpu | Choice::Auto, adapter, None) => {
                let options = WgpuOptions { adapter: adapter.clone(), ..Default::default() };
                Device::new(pollster::block_on(WgpuBackend::new(&options))?)
            }
        };
        eprintln!("device: {} ({}; {})", device.info().backend, device.info().name, device.info().driver);
        Ok(device)
    }

    fn cuda(&self) -> Result<Device, Failure> {
        let device = self.cuda_device.unwrap_or(0);
        Ok(Device::new(CudaBackend::new(&CudaOptions { device, tf32: self.tf32, ..Default::default() })?))
    }

    /// CUDA, else a hardware GPU through wgpu, else the processor, and a word on what is missing.
    fn best(&self) -> Device {
        let cuda = match self.cuda() {
            Ok(device) => return device,
            Err(error) => error,
        };
        let options = WgpuOptions { hardware_only: true, ..Default::default() };
        match pollster::block_on(WgpuBackend::new(&options)) {
            Ok(backend) => Device::new(backend),
            Err(error) => {
                eprintln!("note: {cuda}");
                eprintln!("note: {error}");
                Device::cpu()
            }
        }
    }
}
