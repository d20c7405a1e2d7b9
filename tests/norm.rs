//! Batch and layer normalisation and blocks of columns: the WGSL kernels against their CPU twins, the values against
//! 64-bit sums, and the running statistics of a module.

mod support;

use hopwise::{
    Matrix,
    backend::{Device, Tensor, kernels::BlockCopy},
    nn::{BatchNorm, Initializer, LayerNorm, Module},
    ops::{self, StepState, Tape},
};
use safetensors::{Dtype, tensor::TensorView};
use support::{leaf, random, read};

/// Shapes with one column, unaligned widths, a single row, and more rows than one workgroup adds up.
const SHAPES: [[usize; 2]; 8] = [[2, 1], [3, 7], [64, 4], [500, 33], [1_500, 1], [2_100, 5], [70, 130], [300, 300]];

/// Entries around a mean that is far from 0, where sums of squares would cancel.
fn shifted(rows: usize, cols: usize) -> Matrix {
    let mut x = random(rows, cols, 1);
    x.data_mut().iter_mut().enumerate().for_each(|(n, v)| *v += (n % cols) as f32 % 5.0);
    x
}

#[cfg(feature = "wgpu")]
mod against_twins {
    use hopwise::{
        Matrix,
        backend::{Device, Tensor},
        ops::{self, Tape, Var},
    };

    use super::{
        SHAPES, shifted,
        support::{
            self, leaf, random, read, relative_error,
            rounding::{Exact, Rows, beyond_rounding, over_edges},
        },
    };

    /// Single sums differ by rounding only; 2e-5 of the largest entry is what the reference vectors allow.
    const TOLERANCE: f64 = 2e-5;

    /// Runs `compute` on the processor and on GPU devices, one with bindings so small that everything is cut.
    fn compare(what: &str, compute: impl Fn(&Device) -> Vec<Matrix>) {
        compare_or(what, None, compute);
    }

    /// As [`compare`]; where results are what cancellation left, as the gradient of a column of two entries, they may
    /// differ from those in 64 bits by as much as rounding lets them.
    fn compare_or(what: &str, exact: Option<&[Rows]>, compute: impl Fn(&Device) -> Vec<Matrix>) {
        let expected = compute(&Device::cpu());
        for (name, device) in [("whole", support::device("wgpu")), ("small bindings", support::small_bindings())] {
            for (i, (got, expected)) in compute(&device).iter().zip(&expected).enumerate() {
                let error = relative_error(got.data(), expected.data());
                if error <= TOLERANCE {
                    continue;
                }
                let exact = exact.unwrap_or_else(|| panic!("{what}, {name}, result {i}: off by {error:.2e}"));
                for (whose, result) in [("the twin", expected), (name, got)] {
                    if let Some(excess) = beyond_rounding(result, &exact[i]) {
                        panic!("{what}, result {i}: devices differ by {error:.2e}, {whose} {excess}");
                    }
                }
            }
        }
    }

    /// `(x - mean) / sqrt(variance + 1e-5) * weight + bias` over `sets` of entries, in 64 bits, and the gradients of `x`,
    /// weight and bias. Sets are columns or rows; weights are of columns.
    fn normalised(inputs: &[Matrix], by_column: bool) -> Vec<Rows> {
        let x = &inputs[0];
        let (rows, cols) = (x.rows(), x.cols());
        let upstream = random(rows, cols, 9);
        let weight = |c: usize| inputs.get(1).map_or(Exact::of(1.0), |w| Exact::of(w.row(0)[c]));
        let (sets, len) = if by_column { (cols, rows) } else { (rows, cols) };
        let place = |set: usize, k: usize| if by_column { (k, set) } else { (set, k) };
        let mut results = vec![vec![vec![Exact::default(); cols]; rows]; 2];
        let mut normal = results[0].clone();
        let share = Exact::of(1.0 / len as f32);
        for set in 0..sets {
            let at = |k: usize| {
                let (r, c) = place(set, k);
                (Exact::of(x.row(r)[c]), Exact::of(upstream.row(r)[c]) * weight(c))
            };
            let mean = over_edges((0..len).map(|k| at(k).0)) * share;
            let variance = over_edges((0..len).map(|k| (at(k).0 - mean) * (at(k).0 - mean))) * share;
            let scale = (variance + Exact::of(1e-5)).inverse_root();
            let unit = |k: usize| (at(k).0 - mean) * scale;
            let mean_g = over_edges((0..len).map(|k| at(k).1)) * share;
            let mean_along = over_edges((0..len).map(|k| at(k).1 * unit(k))) * share;
            for k in 0..len {
                let (r, c) = place(set, k);
                let bias = inputs.get(2).map_or(Exact::default(), |b| Exact::of(b.row(0)[c]));
                normal[r][c] = unit(k);
                results[0][r][c] = unit(k) * weight(c) + bias;
                results[1][r][c] = scale * (at(k).1 - mean_g - unit(k) * mean_along);
            }
        }
        if inputs.len() > 1 {
            let g = |r: usize, c: usize| Exact::of(upstream.row(r)[c]);
            let sums = |f: &dyn Fn(usize, usize) -> Exact| {
                vec![(0..cols).map(|c| over_edges((0..rows).map(|r| f(r, c)))).collect()]
            };
            results.push(sums(&|r, c| g(r, c) * normal[r][c]));
            results.push(sums(&g));
        }
        results
    }

    /// The output of `f` and the gradients of its inputs.
    fn with_gradients(tape: Tape, inputs: &[Matrix], f: impl Fn(&Tape, &[Var]) -> Var) -> Vec<Matrix> {
        let vars: Vec<Var> = inputs.iter().map(|m| leaf(&tape, m)).collect();
        let out = f(&tape, &vars);
        let upstream = random(out.shape()[0], out.shape()[1], 9);
        let upstream = Tensor::from_matrix(tape.device(), &upstream, "upstream").unwrap();
        let gradients = tape.backward_from(&out, upstream).unwrap();
        let mut results = vec![read(out.tensor())];
        results.extend(vars.iter().map(|v| read(gradients.of(v).unwrap())));
        results
    }

    #[test]
    fn normalisation_wgpu() {
        for [rows, cols] in SHAPES {
            let affine = [shifted(rows, cols), random(1, cols, 2), random(1, cols, 3)];
            for inputs in [&affine[..1], &affine] {
                let of = |v: &[Var]| (v.len() > 1).then(|| [v[1].clone(), v[2].clone()]);
                let what = format!("[{rows}, {cols}], {} inputs", inputs.len());
                let exact = normalised(inputs, true);
                compare_or(&format!("batch_norm {what}"), Some(&exact), |device| {
                    with_gradients(Tape::recording(device), inputs, |tape, v| {
                        let affine = of(v);
                        ops::batch_norm(tape, &v[0], affine.as_ref().map(|a| a.each_ref()), 1e-5).unwrap().0
                    })
                });
                compare(&format!("normalize_columns {what}"), |device| {
                    with_gradients(Tape::recording(device), inputs, |tape, v| {
                        let row = |seed| {
                            let mut row = random(1, cols, seed);
                            row.data_mut().iter_mut().for_each(|v| *v += 1.5);
                            Tensor::from_matrix(device, &row, "moments").unwrap()
                        };
                        let moments = ops::ColumnMoments { mean: row(4), variance: row(5) };
                        let affine = of(v);
                        ops::normalize_columns(tape, &v[0], &moments, affine.as_ref().map(|a| a.each_ref()), 1e-5)
                            .unwrap()
                    })
                });
                let exact = normalised(inputs, false);
                compare_or(&format!("layer_norm {what}"), Some(&exact), |device| {
                    with_gradients(Tape::recording(device), inputs, |tape, v| {
                        let affine = of(v);
                        ops::layer_norm(tape, &v[0], affine.as_ref().map(|a| a.each_ref()), 1e-5).unwrap()
                    })
                });
            }
        }
    }

    #[test]
    fn blocks_wgpu() {
        // 64 rows of the widest matrix must fit the small binding.
        for [rows, cols] in SHAPES.into_iter().filter(|[_, cols]| *cols <= 33).chain([[300, 60]]) {
            for blocks in [1, 3] {
                let what = format!("[{rows}, {cols}], {blocks} blocks");
                let matrices = [random(rows, blocks * cols, 1), random(rows, cols, 2)];
                let weight = random(rows, blocks, 3);
                compare(&format!("spread and merge {what}"), |device| {
                    let weight = Tensor::from_matrix(device, &weight, "weights").unwrap();
                    let f = |spread: bool| {
                        with_gradients(Tape::recording(device), &matrices, |tape, v| match spread {
                            true => ops::spread_blocks(tape, &v[0], &v[1], &weight).unwrap(),
                            false => ops::merge_blocks(tape, &v[1], &v[0], &weight).unwrap(),
                        })
                    };
                    [f(true), f(false)].concat()
                });
                compare(&format!("concat {what}"), |device| {
                    with_gradients(Tape::recording(device), &matrices, |tape, v| {
                        ops::concat_columns(tape, &[&v[0], &v[1], &v[0]]).unwrap()
                    })
                });
                compare(&format!("range {what}"), |device| {
                    with_gradients(Tape::recording(device), &matrices[..1], |tape, v| {
                        ops::column_range(tape, &v[0], cols / 2..blocks * cols).unwrap()
                    })
                });
                // A block that does not start with the first row cannot be cut.
                if rows * cols < 1_000 {
                    compare(&format!("stack {what}"), |device| {
                        with_gradients(Tape::recording(device), &matrices[..1], |tape, v| {
                            ops::stack_blocks(tape, &v[0], blocks).unwrap()
                        })
                    });
                }
            }
        }
    }
}

#[test]
fn normalised_columns_have_mean_0_and_deviation_1() {
    let device = Device::cpu();
    for [rows, cols] in SHAPES {
        let x = shifted(rows, cols);
        let tape = Tape::inference(&device);
        let out = read(ops::batch_norm(&tape, &leaf(&tape, &x), None, 1e-5).unwrap().0.tensor());
        for c in 0..cols {
            let column = |m: &Matrix| (0..rows).map(|r| f64::from(m.row(r)[c])).collect::<Vec<_>>();
            let x = column(&x);
            let mean = x.iter().sum::<f64>() / rows as f64;
            let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / rows as f64;
            for (got, x) in column(&out).into_iter().zip(x) {
                let expected = (x - mean) / (variance + 1e-5).sqrt();
                assert!((got - expected).abs() < 1e-4, "[{rows}, {cols}], column {c}: {got} for {expected}");
            }
        }
    }
}

#[test]
fn batch_norm_remembers_what_it_saw_and_forgets_nothing_in_a_file() {
    let device = Device::cpu();
    let mut init = Initializer::new(&device, 0);
    let norm = BatchNorm::new(&mut init, 3).unwrap();
    assert_eq!(norm.parameters().len(), 2, "running statistics are not trained");
    let names: Vec<String> = norm.state().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["weight", "bias", "running_mean", "running_var"]);

    let state = StepState::new(&device, 0).unwrap();
    let mut expected = (vec![0.0f64; 3], vec![1.0f64; 3]);
    let mut x = shifted(50, 3);
    for step in 0..40 {
        x.data_mut().iter_mut().for_each(|v| *v = 1.01 * *v + 0.1);
        let tape = Tape::training(&device, &state);
        norm.forward(&tape, &leaf(&tape, &x)).unwrap();
        for c in 0..3 {
            let column: Vec<f64> = (0..50).map(|r| f64::from(x.row(r)[c])).collect();
            let mean = column.iter().sum::<f64>() / 50.0;
            // PyTorch remembers the unbiased variance.
            let variance = column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 49.0;
            expected.0[c] = 0.9 * expected.0[c] + 0.1 * mean;
            expected.1[c] = 0.9 * expected.1[c] + 0.1 * variance;
        }
        for (buffer, expected) in [(&norm.running_mean, &expected.0), (&norm.running_var, &expected.1)] {
            for (got, expected) in read(buffer.value()).data().iter().zip(expected) {
                assert!((f64::from(*got) - expected).abs() < 1e-5 * expected.abs().max(1.0), "step {step}: {got}");
            }
        }
    }
    // Outside training it takes what it remembers, and remembers no more.
    let before = read(norm.running_mean.value());
    let tape = Tape::inference(&device);
    let out = read(norm.forward(&tape, &leaf(&tape, &x)).unwrap().tensor());
    let expected = (f64::from(x.row(0)[1]) - expected.0[1]) / (expected.1[1] + 1e-5).sqrt();
    assert!((f64::from(out.row(0)[1]) - expected).abs() < 1e-4);
    assert_eq!(before, read(norm.running_mean.value()));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("norm.safetensors");
    hopwise::nn::checkpoint::save(&norm, &Default::default(), &path).unwrap();
    let other = BatchNorm::new(&mut init, 3).unwrap();
    hopwise::nn::checkpoint::load(&other, &path).unwrap();
    assert_eq!(before, read(other.running_mean.value()));
}

/// PyTorch's files have a count of batches besides, as a whole number.
#[test]
fn a_batch_norm_of_pytorch_is_read() {
    let device = Device::cpu();
    let numbers = |first: f32| -> Vec<u8> { (0..3).flat_map(|n| (first + n as f32).to_le_bytes()).collect() };
    let values = [numbers(1.0), numbers(2.0), numbers(3.0), numbers(4.0), 7i64.to_le_bytes().to_vec()];
    let names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"];
    let views = names.iter().zip(&values).map(|(name, bytes)| {
        let (kind, shape) = if bytes.len() == 8 { (Dtype::I64, vec![]) } else { (Dtype::F32, vec![3]) };
        (*name, TensorView::new(kind, shape, bytes).unwrap())
    });
    let bytes = safetensors::serialize(views, None).unwrap();
    let norm = BatchNorm::new(&mut Initializer::new(&device, 0), 3).unwrap();
    hopwise::nn::checkpoint::from_bytes(&norm, &bytes, "file".as_ref()).unwrap();
    assert_eq!(read(norm.running_var.value()).data(), [4.0, 5.0, 6.0]);
}

#[test]
fn wrong_arguments_are_refused() {
    let device = Device::cpu();
    let tape = Tape::recording(&device);
    let x = leaf(&tape, &random(1, 3, 1));
    let refused = |error: Option<ops::OpError>, words: &str| {
        let error = error.expect(words).to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(ops::batch_norm(&tape, &x, None, 1e-5).err(), "at least 2");
    refused(ops::layer_norm(&tape, &x, None, 0.0).err(), "a positive number");
    let narrow = leaf(&tape, &random(1, 2, 1));
    refused(ops::layer_norm(&tape, &x, Some([&narrow, &narrow]), 1e-5).err(), "the weight is [1, 2]");
    refused(ops::column_range(&tape, &x, 1..4).err(), "0..3");
    refused(ops::concat_columns(&tape, &[]).err(), "at least 1");
    refused(ops::concat_columns(&tape, &[&x, &leaf(&tape, &random(2, 3, 1))]).err(), "expected [1, 3]");
    refused(ops::stack_blocks(&tape, &x, 2).err(), "a divisor of 3");
    let weight = Tensor::full(&device, 1, 2, 1.0, "weights").unwrap();
    refused(ops::spread_blocks(&tape, &x, &x, &weight).err(), "expected [1, 6]");
    refused(ops::merge_blocks(&tape, &x, &x, &weight).err(), "expected [1, 6]");
    let (from, shape) = ([0, 2], [1, 2]);
    let error = device.copy_block(&BlockCopy { x: x.tensor(), from, out: &weight, to: [0, 0], shape }).unwrap_err();
    assert!(error.to_string().contains("at most 3"), "{error}");

    let norm = LayerNorm::new(&mut Initializer::new(&device, 0), 4).unwrap();
    assert!(norm.forward(&tape, &x).is_err());
}
