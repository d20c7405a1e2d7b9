//! What the integration tests share.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

use hopwise::{
    Matrix,
    backend::{Device, Tensor},
    ops::{Tape, Var},
};

/// The device of a backend, one for all tests of a process: drivers run out of devices before a large suite runs out of cases.
pub(crate) fn device(backend: &str) -> Device {
    static DEVICES: Mutex<BTreeMap<String, Device>> = Mutex::new(BTreeMap::new());
    // Opening a device may panic, and spoils nothing.
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.entry(backend.to_owned()).or_insert_with(|| fresh_device(backend)).clone()
}

/// A device that no other test uses. Without an adapter the wgpu tests fail and say how to get one.
pub(crate) fn fresh_device(backend: &str) -> Device {
    match backend {
        "cpu" => Device::cpu(),
        #[cfg(feature = "wgpu")]
        "wgpu" => {
            pollster::block_on(Device::wgpu()).expect("a wgpu adapter (lavapipe: apt-get install mesa-vulkan-drivers)")
        }
        other => panic!("no backend {other}"),
    }
}

/// A GPU device whose bindings hold 128 KiB, so that everything is cut: the application's own, as any user of the library may bring.
#[cfg(feature = "wgpu")]
pub(crate) fn small_bindings() -> Device {
    use hopwise::backend::wgpu::{WgpuBackend, WgpuOptions, wgpu};

    static DEVICE: OnceLock<Device> = OnceLock::new();
    let open = async {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = instance.request_adapter(&Default::default()).await.expect("a wgpu adapter");
        let required_limits = wgpu::Limits { max_storage_buffer_binding_size: 1 << 17, ..wgpu::Limits::default() };
        let descriptor = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
        let (device, queue) = adapter.request_device(&descriptor).await.unwrap();
        Device::new(WgpuBackend::from_device(device, queue, &WgpuOptions::default()).unwrap())
    };
    DEVICE.get_or_init(|| pollster::block_on(open)).clone()
}

/// Random numbers in -1..1 that depend on the seed alone.
pub(crate) fn random(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut random = hopwise::graph::generate::SplitMix::stream(seed, 77);
    let values = (0..rows * cols).map(|_| 2.0 * random.uniform() - 1.0).collect();
    Matrix::new(rows, cols, values).unwrap()
}

pub(crate) fn leaf(tape: &Tape, matrix: &Matrix) -> Var {
    tape.leaf(&Tensor::from_matrix(tape.device(), matrix, "test input").unwrap())
}

pub(crate) fn read(tensor: &Tensor) -> Matrix {
    tensor.to_matrix_blocking().unwrap()
}

/// `max |got - expected| / max |expected|`; infinite for what is not finite.
pub(crate) fn relative_error(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |m, v| m.max(f64::from(v.abs())));
    let worst = got.iter().zip(expected).fold(0.0f64, |m, (g, e)| {
        let error = f64::from(g - e).abs();
        if error.is_finite() { m.max(error) } else { f64::INFINITY }
    });
    if worst == 0.0 { 0.0 } else { worst / largest }
}
