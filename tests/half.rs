//! Features stored in 16 bits: what a cast does to every number, and that kernels compute in 32 bits between an exact
//! load and one rounding.

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{
        BackendError, DType, Device, DeviceGraph, Direction, Tensor,
        kernels::{Gemm, Spmm},
    },
    ops::{self, ClassTargets, Tape},
    plan::SpmmPlan,
};
use support::{graphs, random, read};

const HALVES: [DType; 2] = [DType::F16, DType::BF16];

fn devices() -> Vec<(&'static str, Device)> {
    #[cfg(feature = "wgpu")]
    return vec![("cpu", Device::cpu()), ("wgpu", support::device("wgpu")), ("cut", support::small_bindings())];
    #[cfg(not(feature = "wgpu"))]
    vec![("cpu", Device::cpu())]
}

/// The number that stands for `bits`, from the definition of the format.
fn value(dtype: DType, bits: u32) -> f32 {
    if dtype == DType::BF16 {
        return f32::from_bits(bits << 16);
    }
    let sign = if bits >> 15 == 1 { -1.0f32 } else { 1.0 };
    let (exponent, fraction) = ((bits >> 10 & 31) as i32, (bits & 1023) as f32);
    match exponent {
        0 => sign * fraction * 2.0f32.powi(-24),
        31 if fraction == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + fraction) * 2.0f32.powi(exponent - 25),
    }
}

fn upload(device: &Device, matrix: &Matrix, dtype: DType) -> Tensor {
    let tensor = Tensor::uninit_typed(device, dtype, matrix.rows(), matrix.cols(), "input").unwrap();
    tensor.write(matrix.data()).unwrap();
    tensor
}

fn same(got: &[f32], expected: &[f32], what: &str) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        let equal = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
        assert!(equal, "{what}: {got:e} ({:08x}) is not {expected:e}", got.to_bits());
    }
}

#[test]
fn every_half_is_read_exactly_wgpu() {
    for dtype in HALVES {
        let expected: Vec<f32> = (0..1 << 16).map(|bits| value(dtype, bits)).collect();
        for (name, device) in devices() {
            for cols in [1, 6, 64] {
                let rows = (1 << 16) / cols;
                let expected = &expected[..rows * cols];
                // The bits themselves, two to a word, in rows that are padded.
                let tensor = Tensor::uninit_typed(&device, dtype, rows, cols, "halves").unwrap();
                let mut words = vec![0u32; tensor.words()];
                for i in 0..rows * cols {
                    let at = i / cols * tensor.stride() + i % cols;
                    words[at / 2] |= (i as u32) << (16 * (at % 2));
                }
                device.write(tensor.buffer(), &words).unwrap();
                let what = format!("{name}, {dtype}, {cols} columns");
                same(read(&tensor).data(), expected, &format!("{what}, on the host"));
                same(read(&tensor.to_dtype(DType::F32, "wide").unwrap()).data(), expected, &what);
            }
        }
    }
}

#[test]
fn casts_round_to_nearest_even_wgpu() {
    for dtype in HALVES {
        let (mut values, mut expected) = (Vec::new(), Vec::new());
        let infinity = if dtype == DType::F16 { 0x7c00 } else { 0x7f80 };
        for bits in 0..infinity {
            let (low, next) = (f64::from(value(dtype, bits)), f64::from(value(dtype, bits + 1)));
            // Past the largest number, the next one would be as far away again.
            let high = if next.is_finite() { next } else { 2.0 * low - f64::from(value(dtype, bits - 1)) };
            let middle = ((low + high) / 2.0) as f32;
            // Drivers may take what 32 bits can only hold without a leading one for 0.
            if f64::from(middle) != (low + high) / 2.0 || middle < f32::MIN_POSITIVE {
                continue;
            }
            let (low, high) = (value(dtype, bits), value(dtype, bits + 1));
            let even = if bits % 2 == 0 { low } else { high };
            let down = f32::from_bits(middle.to_bits() - 1);
            let up = f32::from_bits(middle.to_bits() + 1);
            for (x, rounded) in [(middle, even), (down, low), (up, high)] {
                values.extend([x, -x]);
                expected.extend([rounded, -rounded]);
            }
        }
        values.extend([f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 0.0, -0.0, f32::NAN]);
        let infinite = |x: f32| if dtype == DType::F16 { x.signum() * f32::INFINITY } else { dtype.round(x) };
        expected.extend([f32::INFINITY, f32::NEG_INFINITY, infinite(f32::MAX), 0.0, -0.0, f32::NAN]);
        for (name, device) in devices() {
            for cols in [1, 6] {
                let rows = values.len() / cols;
                let x = Matrix::new(rows, cols, values[..rows * cols].to_vec()).unwrap();
                let what = format!("{name}, {dtype}, {cols} columns");
                let expected = &expected[..rows * cols];
                same(read(&upload(&device, &x, dtype)).data(), expected, &format!("{what}, on the host"));
                let wide = upload(&device, &x, DType::F32);
                same(read(&wide.to_dtype(dtype, "half").unwrap()).data(), expected, &what);
            }
        }
    }
}

#[test]
fn kernels_compute_in_32_bits_and_round_once() {
    let device = Device::cpu();
    for (name, graph) in graphs() {
        let graph = DeviceGraph::new(&device, Arc::new(graph));
        for dtype in HALVES {
            for features in [1, 7, 16] {
                let run = |stored: DType| {
                    let x = upload(&device, &random(graph.num_src(), features, 1), dtype);
                    let x = x.to_dtype(stored, "x").unwrap();
                    let out = Tensor::uninit_typed(&device, stored, graph.num_dst(), features, "out").unwrap();
                    let plan = &SpmmPlan::new(graph.offsets(Direction::Forward), features, device.capabilities());
                    let (weight, row_scale, column_scale) = (None, None, None);
                    let direction = Direction::Forward;
                    let args =
                        Spmm { graph: &graph, direction, x: &x, weight, row_scale, column_scale, out: &out, plan };
                    device.spmm(&args).unwrap();
                    read(&out.to_dtype(dtype, "out").unwrap())
                };
                same(run(dtype).data(), run(DType::F32).data(), &format!("{name}, {dtype}, {features} features"));
            }
        }
    }
}

/// The gradients of a confident model are too small for an f16, and are not once the loss is scaled.
#[test]
fn small_gradients_survive_by_the_scale_of_the_loss() {
    let device = Device::cpu();
    let labels: Vec<u32> = (0..1_000).map(|i| i % 2).collect();
    let nodes: Vec<u32> = (0..1_000).collect();
    let targets = ClassTargets::new(&device, &labels, 2, &nodes).unwrap();
    // Logits of +-6 for the class and against it.
    let entries = labels.iter().flat_map(|&l| if l == 0 { [6.0, -6.0] } else { [-6.0, 6.0] }).collect();
    let x = Matrix::new(1_000, 2, entries).unwrap();
    let identity = Matrix::new(2, 2, vec![1.0, 0.0, 0.0, 1.0]).unwrap();
    let gradient = |dtype: DType, scale: f32| {
        let tape = Tape::recording(&device);
        let x = tape.constant(&upload(&device, &x, dtype));
        let weight = tape.leaf(&Tensor::from_matrix(&device, &identity, "weight").unwrap());
        let logits = ops::linear(&tape, &x, &weight, None).unwrap();
        assert_eq!(logits.tensor().dtype(), dtype);
        let loss = ops::cross_entropy(&tape, &logits, &targets).unwrap();
        let gradients = tape.backward_from(&loss, Tensor::full(&device, 1, 1, scale, "scale").unwrap()).unwrap();
        let grad = gradients.of(&weight).unwrap();
        assert_eq!(grad.dtype(), DType::F32);
        read(grad).data().iter().map(|g| g / scale).collect::<Vec<f32>>()
    };
    let expected = gradient(DType::F32, 1.0);
    assert!(expected.iter().all(|g| *g != 0.0));
    assert!(gradient(DType::F16, 1.0).iter().all(|g| *g == 0.0), "nothing is left of them");
    let scaled = gradient(DType::F16, 65_536.0);
    let error = support::relative_error(&scaled, &expected);
    assert!(error <= 5e-3, "{scaled:?} against {expected:?}: {error:.1e}");
}

#[test]
fn types_that_do_not_go_together_are_refused_by_name() {
    let device = Device::cpu();
    let [wide, half, brain] =
        [DType::F32, DType::F16, DType::BF16].map(|dtype| upload(&device, &random(3, 3, 1), dtype));
    let error = device.add(&half, &wide, &half.like("out").unwrap()).unwrap_err();
    assert_eq!(
        error,
        BackendError::DType { kernel: "add", what: "b", got: DType::F32, expected: DType::F16 },
        "{error}"
    );
    assert_eq!(error.to_string(), "add: b is stored as f32, expected f16; convert it with to_dtype");
    assert!(device.cast(&half, &brain).unwrap_err().to_string().contains("stored as bf16, expected f32"));
    assert!(device.cast(&wide, &wide.like("out").unwrap()).is_err());
    let gemm = |a: &Tensor, b: &Tensor, out: &Tensor| {
        let (transpose_a, transpose_b, bias, accumulate) = (false, false, None, false);
        device.gemm(&Gemm { a, transpose_a, b, transpose_b, bias, out, accumulate })
    };
    // A product may have parameters of 32 bits beside features, but not two kinds of halves.
    gemm(&half, &wide, &half.like("out").unwrap()).unwrap();
    gemm(&half, &half, &wide.like("out").unwrap()).unwrap();
    assert!(gemm(&half, &brain, &wide.like("out").unwrap()).unwrap_err().to_string().contains("b is stored as bf16"));
}
