use hopwise::backend::{Device, DeviceInfo, DeviceKind, cuda, wgpu};
use serde_json::json;

use crate::{failure::Failure, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (mut devices, missing) = match cuda::devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    devices.extend(pollster::block_on(wgpu::adapters()));
    devices.push(Device::cpu().info().clone());
    // What `--backend auto` would take: the first that is hardware, else the processor.
    let auto = devices.iter().position(|d| d.kind != DeviceKind::Cpu).unwrap_or(devices.len() - 1);
    if args.json {
        let rows: Vec<_> = devices
            .iter()
            .enumerate()
            .map(|(i, d)| {
                json!({
                    "backend": d.backend,
                    "name": d.name,
                    "kind": kind(d),
                    "driver": d.driver,
                    "subgroup_sizes": d.subgroup_sizes,
                    "auto": i == auto,
                })
            })
            .collect();
        return output::print(&json!({ "devices": rows, "cuda": missing }).to_string());
    }
    let mut text = String::new();
    for (i, device) in devices.iter().enumerate() {
        let mark = if i == auto { "  <- auto" } else { "" };
        let subgroups = match device.subgroup_sizes {
            Some([smallest, largest]) if smallest == largest => format!(", subgroups of {smallest}"),
            Some([smallest, largest]) => format!(", subgroups of {smallest} to {largest}"),
            None => String::new(),
        };
        text +=
            &format!("{:5} {:15} {} ({}{subgroups}){mark}\n", device.backend, kind(device), device.name, device.driver);
    }
    if devices.len() == 1 {
        text += "no GPU was found; a Vulkan driver (mesa-vulkan-drivers on Debian and Ubuntu) makes one available to wgpu\n";
    }
    if let Some(missing) = missing {
        text += &format!("{missing}\n");
    }
    output::print(text.trim_end())
}

fn kind(device: &DeviceInfo) -> &'static str {
    match (device.kind, device.backend) {
        (DeviceKind::DiscreteGpu, _) => "discrete GPU",
        (DeviceKind::IntegratedGpu, _) => "integrated GPU",
        (DeviceKind::VirtualGpu, _) => "virtual GPU",
        (DeviceKind::Cpu, "cpu") => "processor",
        (DeviceKind::Cpu, _) => "software driver",
    }
}
