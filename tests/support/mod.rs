//! What the integration tests share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use hopwise::{
    Matrix,
    backend::{Device, Tensor},
    ops::{Tape, Var},
};

/// The devices to test: the processor and, where it is compiled in, the first wgpu adapter. Without an adapter the wgpu tests fail and say how to get one.
pub(crate) fn device(backend: &str) -> Device {
    match backend {
        "cpu" => Device::cpu(),
        #[cfg(feature = "wgpu")]
        "wgpu" => {
            pollster::block_on(Device::wgpu()).expect("a wgpu adapter (lavapipe: apt-get install mesa-vulkan-drivers)")
        }
        other => panic!("no backend {other}"),
    }
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
