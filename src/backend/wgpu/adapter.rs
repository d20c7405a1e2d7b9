//! Finding and choosing an adapter.

use super::WgpuOptions;
use crate::backend::{BackendError, DeviceInfo, DeviceKind};

const REMEDY: &str = "install a Vulkan driver (mesa-vulkan-drivers runs on any machine), or use the cpu backend";

/// Every adapter that wgpu sees, the one it would choose first.
#[cfg(not(target_arch = "wasm32"))]
pub async fn adapters() -> Vec<DeviceInfo> {
    ranked(&instance()).await.iter().map(|adapter| describe(&adapter.get_info(), adapter.features())).collect()
}

fn instance() -> wgpu::Instance {
    wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle())
}

#[cfg(not(target_arch = "wasm32"))]
async fn ranked(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
    adapters.sort_by_key(|adapter| match kind(adapter.get_info().device_type) {
        DeviceKind::DiscreteGpu => 0,
        DeviceKind::IntegratedGpu => 1,
        DeviceKind::VirtualGpu => 2,
        DeviceKind::Cpu => 3,
    });
    adapters
}

/// The adapter that the options ask for.
pub(super) async fn choose(options: &WgpuOptions) -> Result<wgpu::Adapter, BackendError> {
    let unavailable = |reason: String| BackendError::Unavailable { backend: "wgpu", reason, remedy: REMEDY };
    #[cfg(not(target_arch = "wasm32"))]
    {
        let all = ranked(&instance()).await;
        let names: Vec<String> = all.iter().map(|a| a.get_info().name).collect();
        let wanted = |info: &wgpu::AdapterInfo| {
            (!options.hardware_only || kind(info.device_type) != DeviceKind::Cpu)
                && options.adapter.as_ref().is_none_or(|name| info.name.to_lowercase().contains(&name.to_lowercase()))
        };
        all.into_iter().find(|adapter| wanted(&adapter.get_info())).ok_or_else(|| {
            unavailable(match (&options.adapter, names.is_empty()) {
                (_, true) => "no adapter was found".into(),
                (Some(name), _) => format!("no adapter is called {name:?} (found: {})", names.join(", ")),
                (None, _) => format!("no hardware adapter was found (found: {})", names.join(", ")),
            })
        })
    }
    #[cfg(target_arch = "wasm32")]
    {
        let request = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        };
        let _ = options;
        instance().request_adapter(&request).await.map_err(|error| unavailable(error.to_string()))
    }
}

fn kind(device_type: wgpu::DeviceType) -> DeviceKind {
    match device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        wgpu::DeviceType::Cpu => DeviceKind::Cpu,
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => DeviceKind::VirtualGpu,
    }
}

pub(super) fn describe(info: &wgpu::AdapterInfo, features: wgpu::Features) -> DeviceInfo {
    DeviceInfo {
        backend: "wgpu",
        name: info.name.clone(),
        kind: kind(info.device_type),
        driver: format!("{} {} {}", info.backend, info.driver, info.driver_info).trim().to_owned(),
        subgroup_sizes: features
            .contains(wgpu::Features::SUBGROUP)
            .then_some([info.subgroup_min_size, info.subgroup_max_size]),
    }
}
