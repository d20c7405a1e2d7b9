//! What the integration tests share.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

pub(crate) mod attention;
pub(crate) mod exact;
pub(crate) mod rounding;
mod values;

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

use hopwise::{
    Matrix,
    backend::{Device, Tensor},
    graph::{EdgeList, Graph, generate::SplitMix},
};

pub(crate) use values::{leaf, relative_error};

/// The device of a backend, one for all tests of a process: drivers run out of devices before a large suite runs out of cases.
pub(crate) fn device(backend: &str) -> Device {
    static DEVICES: Mutex<BTreeMap<String, Device>> = Mutex::new(BTreeMap::new());
    // Opening a device may panic, and spoils nothing.
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.entry(backend.to_owned()).or_insert_with(|| fresh_device(backend)).clone()
}

/// A device that no other test uses. Without an adapter the wgpu tests fail and say how to get one.
///
/// With `HOPWISE_TEST_BACKEND=cuda` what is tested on wgpu is tested on CUDA instead, a real device or an emulated one.
pub(crate) fn fresh_device(backend: &str) -> Device {
    match backend {
        "cpu" => Device::cpu(),
        #[cfg(feature = "cuda")]
        "wgpu" if std::env::var_os("HOPWISE_TEST_BACKEND").is_some_and(|b| b == "cuda") => cuda_device(),
        #[cfg(feature = "wgpu")]
        "wgpu" => {
            pollster::block_on(Device::wgpu()).expect("a wgpu adapter (lavapipe: apt-get install mesa-vulkan-drivers)")
        }
        other => panic!("no backend {other}"),
    }
}

#[cfg(all(feature = "cuda", not(feature = "cuda-emulation")))]
fn cuda_device() -> Device {
    Device::cuda().expect("a CUDA device")
}

/// The real device where there is one.
#[cfg(feature = "cuda-emulation")]
fn cuda_device() -> Device {
    use hopwise::backend::cuda::{CudaBackend, KernelCache};

    let cache = KernelCache::Folder(concat!(env!("CARGO_TARGET_TMPDIR"), "/emulation").into());
    Device::cuda()
        .unwrap_or_else(|_| Device::new(CudaBackend::emulated(&cache).expect("a C++ compiler (apt-get install g++)")))
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

/// The smallest graphs that are unlike others.
pub(crate) fn corner_cases() -> Vec<(&'static str, EdgeList)> {
    // A node in the middle receives every edge, its own loop and three copies of one edge among them; most others are
    // isolated, the first and the last row are empty.
    let sources = [vec![0, 5, 20, 20, 20], (30..50).collect()].concat();
    let into_one = EdgeList::square(60, sources.clone(), vec![20; sources.len()]).unwrap();
    // Loops beside other edges, and nodes that only send, at both ends.
    let loops = EdgeList::square(6, vec![0, 1, 1, 2, 3, 3, 5], vec![1, 1, 2, 2, 3, 4, 4]).unwrap();
    vec![
        ("no edges", EdgeList::new(7, 5, vec![], vec![]).unwrap()),
        ("one node", EdgeList::square(1, vec![], vec![]).unwrap()),
        ("one node with a loop", EdgeList::square(1, vec![0], vec![0]).unwrap()),
        ("three parallel edges", EdgeList::square(2, vec![0; 3], vec![1; 3]).unwrap()),
        ("every edge into one node", into_one),
        ("loops", loops),
    ]
}

/// A graph of up to 80 nodes on either side, whose rows are empty, short or long, drawn from `random`: each edge goes to
/// the square of a uniform number, so that early rows are long, and some edges are there twice.
pub(crate) fn random_graph(random: &mut SplitMix) -> Graph {
    let [num_src, num_dst, count] = [80, 80, 400].map(|most| 1 + random.below(most));
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let skewed = (random.uniform().powi(2) * num_dst as f32) as u32;
        let copies = 1 + usize::from(random.below(8) == 0);
        src.extend(std::iter::repeat_n(random.below(num_src), copies));
        dst.extend(std::iter::repeat_n(skewed.min(num_dst - 1), copies));
    }
    Graph::from_edges(&EdgeList::new(num_src, num_dst, src, dst).unwrap())
}

/// Graphs at the edges of what kernels meet.
pub(crate) fn graphs() -> Vec<(&'static str, Graph)> {
    let mut random = SplitMix::stream(5, 0);
    let mut edges = |num_src: u32, num_dst: u32, count: usize| {
        let src = (0..count).map(|_| random.below(num_src)).collect();
        let dst = (0..count).map(|_| random.below(num_dst)).collect();
        EdgeList::new(num_src, num_dst, src, dst).unwrap()
    };
    let mut list = corner_cases();
    list.push(("random square", edges(700, 700, 5_000)));
    list.push(("random block", edges(900, 130, 2_500)));
    // A node that receives from all others, and a few edges elsewhere.
    let (mut src, mut dst): (Vec<u32>, Vec<u32>) = ((1..1_500).collect(), vec![0; 1_499]);
    src.extend([5, 6, 7]);
    dst.extend([9, 9, 10]);
    list.push(("star", EdgeList::square(1_500, src, dst).unwrap()));
    list.into_iter().map(|(name, edges)| (name, Graph::from_edges(&edges))).collect()
}

/// Random numbers in -1..1 that depend on the seed alone.
pub(crate) fn random(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut random = SplitMix::stream(seed, 77);
    let values = (0..rows * cols).map(|_| 2.0 * random.uniform() - 1.0).collect();
    Matrix::new(rows, cols, values).unwrap()
}

pub(crate) fn read(tensor: &Tensor) -> Matrix {
    tensor.to_matrix_blocking().unwrap()
}
