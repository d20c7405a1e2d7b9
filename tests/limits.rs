//! What happens at a GPU's limits: matrices larger than a binding, requests that cannot be met, a device that goes away.
#![cfg(feature = "wgpu")]

mod support;

use std::sync::Arc;

use hopwise::{
    backend::{BackendError, Device, DeviceGraph, Tensor},
    graph::{Graph, generate::SplitMix},
    ops::{self, ClassTargets, SpmmInput, Tape},
};

/// 200 MiB of features do not fit the 128 MiB that a binding is granted everywhere.
#[test]
fn features_larger_than_a_binding_give_the_same_result_wgpu() {
    const NODES: u32 = 204_800;
    const WIDTH: usize = 256;
    let mut pick = SplitMix::stream(1, 0);
    let columns = (0..2 * NODES).map(|_| pick.below(NODES)).collect();
    let graph = Arc::new(Graph::from_csr(NODES, (0..=NODES).map(|i| 2 * i).collect(), columns).unwrap());
    let x = support::random(NODES as usize, WIDTH, 1);
    let weight = support::random(4, WIDTH, 2);
    let labels: Vec<u32> = (0..NODES).map(|i| i % 4).collect();
    let nodes: Vec<u32> = (0..NODES).collect();
    let run = |device: &Device| {
        let graph = DeviceGraph::new(device, graph.clone());
        let state = ops::StepState::new(device, 5).unwrap();
        let tape = Tape::training(device, &state);
        let (x, weight) = (support::leaf(&tape, &x), support::leaf(&tape, &weight));
        let dropped = ops::dropout(&tape, &x, 0.5).unwrap();
        let sum = ops::spmm(&tape, &graph, &dropped, SpmmInput::default()).unwrap();
        let logits = ops::linear(&tape, &sum, &weight, None).unwrap();
        let targets = ClassTargets::new(device, &labels, 4, &nodes).unwrap();
        let loss = ops::cross_entropy(&tape, &logits, &targets).unwrap();
        let results = [support::read(logits.tensor()), support::read(loss.tensor())];
        drop((dropped, sum, logits));
        let gradients = tape.backward(&loss).unwrap();
        let of = |v| support::read(gradients.of(v).unwrap());
        (results, of(&weight), of(&x))
    };
    let ([logits, loss], grad_weight, grad_x) = run(&Device::cpu());
    let device = support::device("wgpu");
    let ([gpu_logits, gpu_loss], gpu_grad_weight, gpu_grad_x) = run(&device);
    for (what, got, expected) in [
        ("logits", gpu_logits, logits),
        ("loss", gpu_loss, loss),
        ("weight gradient", gpu_grad_weight, grad_weight),
        ("feature gradient", gpu_grad_x, grad_x),
    ] {
        let error = support::relative_error(got.data(), expected.data());
        assert!(error < 2e-5, "{what}: off by {error:.2e}");
    }
}

#[test]
fn what_cannot_fit_is_an_error_with_its_numbers_wgpu() {
    let device = support::device("wgpu");
    let limit = device.capabilities().max_buffer_bytes;
    let rows = (limit / 4 + 1) as usize;
    match Tensor::uninit(&device, rows, 1, "far too much") {
        Err(BackendError::TooLarge { requested, limit: l, .. }) => assert_eq!((requested, l), (rows as u64 * 4, limit)),
        // CUDA's limit is the memory itself.
        Err(BackendError::OutOfMemory { requested, .. }) if device.info().backend == "cuda" => {
            assert!(requested >= rows as u64 * 4, "{requested}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(Tensor::uninit(&device, usize::MAX / 2, 7, "overflow"), Err(BackendError::TooLarge { .. })));
    // The device is fine afterwards.
    let ones = Tensor::full(&device, 3, 5, 1.0, "ones").unwrap();
    assert_eq!(support::read(&ones).data(), [1.0; 15]);
}

#[test]
fn a_lost_device_is_an_error_wgpu() {
    use hopwise::backend::wgpu::{WgpuBackend, WgpuOptions};

    let backend = pollster::block_on(WgpuBackend::new(&WgpuOptions::default())).unwrap();
    let handle = backend.device().clone();
    let device = Device::new(backend);
    let x = Tensor::full(&device, 10, 10, 1.0, "x").unwrap();
    handle.destroy();
    // The loss is noticed by the next wait at the latest.
    let result = x.to_matrix_blocking();
    assert!(matches!(result, Err(BackendError::DeviceLost { .. })), "{result:?}");
    assert!(matches!(Tensor::full(&device, 1, 1, 1.0, "y"), Err(BackendError::DeviceLost { .. })));
}

#[test]
fn tensors_of_another_device_are_refused_wgpu() {
    let (cpu, gpu) = (Device::cpu(), support::device("wgpu"));
    let x = Tensor::full(&cpu, 2, 2, 1.0, "x").unwrap();
    let out = Tensor::full(&gpu, 2, 2, 1.0, "out").unwrap();
    assert!(matches!(gpu.add(&x, &x, &out), Err(BackendError::WrongDevice(_))));
    assert!(matches!(cpu.add(&x, &x, &out), Err(BackendError::WrongDevice(_))));
}

#[test]
fn buffers_of_another_gpu_device_are_refused_wgpu() {
    let (one, two) = (support::device("wgpu"), support::fresh_device("wgpu"));
    let x = Tensor::full(&one, 2, 2, 1.0, "x").unwrap();
    let out = Tensor::full(&two, 2, 2, 1.0, "out").unwrap();
    assert!(matches!(one.add(&x, &x, &out), Err(BackendError::WrongDevice(_))));
    assert!(matches!(two.add_assign(&x, &out), Err(BackendError::WrongDevice(_))));
    // Pointers may be the same; bindings may not.
    if one.info().backend == "wgpu" {
        assert!(matches!(one.add(&x, &x, &x), Err(BackendError::Aliased(_))));
    }
}

/// What the application does wrong on the device is told once, and reading goes on after it.
#[test]
fn reading_recovers_from_an_error_that_was_not_ours_wgpu() {
    use hopwise::backend::wgpu::{WgpuBackend, WgpuOptions, wgpu};

    let backend = pollster::block_on(WgpuBackend::new(&WgpuOptions::default())).unwrap();
    let handle = backend.device().clone();
    let device = Device::new(backend);
    let x = Tensor::full(&device, 3, 3, 2.0, "x").unwrap();
    let wrong = wgpu::BufferDescriptor {
        label: Some("wrong"),
        size: 4,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE,
        mapped_at_creation: false,
    };
    drop(handle.create_buffer(&wrong));
    assert!(matches!(x.to_matrix_blocking(), Err(BackendError::Driver(_))));
    for _ in 0..3 {
        assert_eq!(support::read(&x).data(), [2.0; 9]);
    }
    // A read that nobody waits for any more leaves its memory usable.
    drop(x.to_matrix());
    assert_eq!(support::read(&x).data(), [2.0; 9]);
}

/// Edge features that are projected in many slices give what one slice gives.
#[test]
fn edge_features_are_projected_in_slices_wgpu() {
    let mut pick = SplitMix::stream(2, 0);
    let (src, dst) = (0..6_000).map(|_| (pick.below(400), pick.below(300))).unzip();
    let graph = Arc::new(Graph::from_edges(&hopwise::graph::EdgeList::new(400, 300, src, dst).unwrap()));
    let run = |device: &Device| {
        let tape = Tape::recording(device);
        let graph = DeviceGraph::new(device, graph.clone());
        let inputs = [(400, 20), (6_000, 3), (20, 3), (1, 20)];
        let vars = inputs.map(|(rows, cols)| support::leaf(&tape, &support::random(rows, cols, rows as u64)));
        let out = ops::gine(&tape, &graph, &vars[0], &vars[1], &vars[2], Some(&vars[3])).unwrap();
        let upstream = Tensor::from_matrix(device, &support::random(300, 20, 7), "upstream").unwrap();
        let mut results = vec![support::read(out.tensor())];
        let gradients = tape.backward_from(&out, upstream).unwrap();
        results.extend(vars.iter().map(|v| support::read(gradients.of(v).unwrap())));
        results
    };
    let expected = run(&Device::cpu());
    for (name, device) in [("whole", support::device("wgpu")), ("small bindings", support::small_bindings())] {
        for (i, (got, expected)) in run(&device).iter().zip(&expected).enumerate() {
            let error = support::relative_error(got.data(), expected.data());
            assert!(error < 2e-5, "{name}, result {i}: off by {error:.2e}");
        }
    }
}
