//! Features stored in 16 bits: what a cast does to every number, and that kernels compute in 32 bits between an exact
//! load and one rounding.

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{
        BackendError, DType, Device, DeviceGraph, Direction, Tensor,
        kernels::{DropoutMask, Gemm, Spmm, Statistic, Unary},
    },
    graph::Graph,
    nn::{AverageDegree, Conv, ConvInput, Initializer, Module, PnaConv, PnaOptions},
    ops::{self, AttentionInput, AttentionOptions, ClassTargets, Tape, Var},
    plan::{Mapping, SpmmPlan},
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

/// Features stored as one type: what a test runs in halves, and again in 32 bits on the same rounded numbers.
struct Store<'a> {
    device: &'a Device,
    stored: DType,
    rounded: DType,
}

impl Store<'_> {
    fn input(&self, rows: usize, cols: usize, seed: u64) -> Tensor {
        upload(self.device, &random(rows, cols, seed), self.rounded).to_dtype(self.stored, "input").unwrap()
    }

    /// An output full of what must be overwritten.
    fn output(&self, rows: usize, cols: usize) -> Tensor {
        let nan = Tensor::full(self.device, rows, cols, f32::NAN, "output").unwrap();
        nan.to_dtype(self.stored, "output").unwrap()
    }

    /// Numbers from 1/2 to 3/2, of 32 bits.
    fn positive(&self, rows: usize, cols: usize, seed: u64) -> Tensor {
        let mut matrix = random(rows, cols, seed);
        matrix.data_mut().iter_mut().for_each(|v| *v = 1.0 + 0.5 * *v);
        upload(self.device, &matrix, DType::F32)
    }

    /// Always of 32 bits.
    fn wide(&self, rows: usize, cols: usize, seed: u64) -> Tensor {
        upload(self.device, &random(rows, cols, seed), DType::F32)
    }
}

/// In halves on every device against 32 bits on the processor: apart from the rounding of the store, which may fall to either
/// side, results differ by that of 32-bit sums.
fn one_rounding_apart(what: &str, compute: impl Fn(&Store<'_>) -> Vec<Tensor>) {
    for rounded in HALVES {
        let cpu = Device::cpu();
        let expected = compute(&Store { device: &cpu, stored: DType::F32, rounded });
        for (name, device) in devices() {
            let got = compute(&Store { device: &device, stored: rounded, rounded });
            for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let tolerance = if got.dtype().is_half() { f64::from(rounded.epsilon()) } else { 0.0 } + 2e-5;
                let error = support::relative_error(read(got).data(), read(expected).data());
                assert!(error <= tolerance, "{what}, {rounded}, {name}, result {i}: off by {error:.2e}");
            }
        }
    }
}

#[test]
fn sums_over_neighbours_in_halves_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for (case, features) in [1, 2, 7, 16, 33, 130].into_iter().enumerate() {
            for direction in [Direction::Forward, Direction::Transposed] {
                for mapping in [Mapping::FeatureParallel, Mapping::NeighbourParallel] {
                    let segment = [40, 1 << 20][case % 2];
                    let what = format!("{name}, {features} features, {direction:?}, {mapping:?}");
                    one_rounding_apart(&what, |store| {
                        let graph = DeviceGraph::new(store.device, graph.clone());
                        let (rows, columns) = graph.dims(direction);
                        let (x, out) = (store.input(columns, features, 1), store.output(rows, features));
                        let weight = store.wide(graph.num_edges(), 1, 2);
                        let (row_scale, column_scale) = (store.wide(rows, 1, 3), store.wide(columns, 1, 4));
                        let caps = store.device.capabilities();
                        let plan = SpmmPlan::with_mapping(mapping, graph.offsets(direction), features, caps);
                        let args = Spmm {
                            graph: &graph,
                            direction,
                            x: &x,
                            weight: (case % 3 != 1).then_some(&weight),
                            row_scale: (case % 2 == 0).then_some(&row_scale),
                            column_scale: (case % 4 < 2).then_some(&column_scale),
                            out: &out,
                            plan: &SpmmPlan { segment, ..plan },
                        };
                        store.device.spmm(&args).unwrap();
                        vec![out]
                    });
                }
            }
        }
    }
}

#[test]
fn functions_of_entries_in_halves_wgpu() {
    for (rows, cols) in [(1, 1), (5, 1), (7, 3), (130, 33), (2_000, 40), (0, 5)] {
        one_rounding_apart(&format!("{rows} x {cols}"), |store| {
            let device = store.device;
            let (x, y, row) = (store.input(rows, cols, 1), store.input(rows, cols, 2), store.wide(1, cols, 3));
            let outs: Vec<Tensor> = (0..10).map(|_| store.output(rows, cols)).collect();
            device.unary(Unary::Elu(0.7), &x, &outs[0]).unwrap();
            device.unary_grad(Unary::Relu, &x, &y, &outs[1]).unwrap();
            device.add(&x, &y, &outs[2]).unwrap();
            device.mul(&x, &y, &outs[3]).unwrap();
            device.combine(0.3, &x, Some((-1.5, &y)), &outs[4]).unwrap();
            device.add_row(&x, &row, &outs[5]).unwrap();
            device.scale_add(1.0, &store.wide(1, 1, 4), &x, Some(&y), &outs[6]).unwrap();
            let state = ops::StepState::new(device, 5).unwrap();
            let mask = DropoutMask { state: state.buffer(), layer: 1, p: 0.4 };
            device.dropout(&mask, &x, &outs[7]).unwrap();
            device.unary_dropout(Unary::LeakyRelu(0.3), &mask, &x, &outs[8]).unwrap();
            device.unary_dropout_grad(Unary::Tanh, &mask, &x, &y, &outs[9]).unwrap();
            let sum = store.input(rows, cols, 6);
            device.add_assign(&x, &sum).unwrap();
            outs.into_iter().chain([sum]).collect()
        });
    }
}

#[test]
fn dense_products_in_halves_wgpu() {
    for (m, n, k) in [(1, 1, 1), (3, 2, 1), (70, 33, 20), (130, 16, 300)] {
        for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false)] {
            let what = format!("{m} x {n} x {k}, transposed {transpose_a}, {transpose_b}");
            one_rounding_apart(&what, |store| {
                let shape = |rows, cols, flip| if flip { (cols, rows) } else { (rows, cols) };
                let ((a_rows, a_cols), (b_rows, b_cols)) = (shape(m, k, transpose_a), shape(k, n, transpose_b));
                let (a, b) = (store.input(a_rows, a_cols, 1), store.input(b_rows, b_cols, 2));
                let bias = store.wide(1, n, 3);
                let (out, wide) = (store.output(m, n), store.wide(m, n, 4));
                let args =
                    Gemm { a: &a, transpose_a, b: &b, transpose_b, bias: Some(&bias), out: &out, accumulate: false };
                store.device.gemm(&args).unwrap();
                store.device.gemm(&Gemm { bias: None, out: &wide, accumulate: true, ..args }).unwrap();
                let sums = store.wide(1, n, 5);
                store.device.column_sums(&out, &sums, true).unwrap();
                vec![out, wide]
            });
        }
    }
}

/// Every other family, forward and backward: what is kept between its kernels is rounded too, so that the tolerance is that of
/// the reference vectors for halves.
#[test]
fn operations_in_halves_wgpu() {
    // Where all neighbours are one node, the gradients of scores are 0 but for rounding.
    for (name, graph) in graphs().into_iter().filter(|(_, graph)| graph.columns().len() > 10) {
        let graph = Arc::new(graph);
        for rounded in HALVES {
            let tolerance = if rounded == DType::F16 { 5e-3 } else { 3e-2 };
            let cpu = Device::cpu();
            let expected = operations(&Store { device: &cpu, stored: DType::F32, rounded }, &graph);
            for (on, device) in devices().into_iter().filter(|(on, _)| *on != "cut") {
                let got = operations(&Store { device: &device, stored: rounded, rounded }, &graph);
                for ((what, got), (_, expected)) in got.iter().zip(&expected) {
                    let error = support::relative_error(got.data(), expected.data());
                    assert!(error <= tolerance, "{name}, {rounded}, {on}, {what}: off by {error:.2e}");
                }
            }
        }
    }
}

type Operation<'a> = &'a dyn Fn(&Tape, &[Var]) -> Result<Var, ops::OpError>;

/// Outputs and gradients of the operations whose features may be halves.
fn operations(store: &Store<'_>, graph: &Arc<Graph>) -> Vec<(String, Matrix)> {
    const FEATURES: usize = 24;
    const HEADS: usize = 3;
    let graph = DeviceGraph::new(store.device, graph.clone());
    let (num_src, num_dst) = (graph.num_src(), graph.num_dst());
    let mut results = Vec::new();
    let mut run = |what: &str, compute: Operation<'_>, inputs: &[Tensor]| {
        let tape = Tape::recording(store.device);
        let vars: Vec<Var> = inputs.iter().map(|x| tape.leaf(x)).collect();
        let out = compute(&tape, &vars).unwrap();
        let g = store.input(out.shape()[0], out.shape()[1], 99);
        let g = g.to_dtype(out.tensor().dtype(), "g").unwrap();
        results.push((format!("{what}, output"), read(out.tensor())));
        let gradients = tape.backward_from(&out, g).unwrap();
        for (i, var) in vars.iter().enumerate() {
            let grad = gradients.of(var).unwrap_or_else(|| panic!("{what} has no gradient {i}"));
            assert_eq!(grad.dtype(), var.tensor().dtype(), "{what}, gradient {i}");
            results.push((format!("{what}, gradient {i}"), read(grad)));
        }
    };
    let (x, q) = (store.input(num_src, FEATURES, 1), store.input(num_dst, FEATURES, 2));
    let options = AttentionOptions { heads: HEADS, ..Default::default() };
    let scores = [store.wide(num_src, HEADS, 3), store.wide(num_dst, HEADS, 4)];
    let [source, destination] = scores;
    let gat = |tape: &Tape, v: &[Var]| ops::gat(tape, &graph, &v[0], [&v[1], &v[2]], None, options);
    run("gat", &gat, &[x.clone(), source, destination]);
    let gatv2 = |tape: &Tape, v: &[Var]| ops::gatv2(tape, &graph, [&v[0], &v[1]], &v[2], None, options);
    run("gatv2", &gatv2, &[x.clone(), q.clone(), store.wide(1, FEATURES, 5)]);
    let input = AttentionInput { heads: HEADS, edges: None, dropout: 0.0 };
    let transformer = |tape: &Tape, v: &[Var]| ops::transformer(tape, &graph, &v[0], &v[1], &v[2], input);
    run("transformer", &transformer, &[q.clone(), x.clone(), store.input(num_src, FEATURES, 6)]);
    let statistics = [Statistic::Mean, Statistic::Max, Statistic::Min];
    let reduce = |tape: &Tape, v: &[Var]| ops::reduce(tape, &graph, &v[0], &statistics);
    run("reduce", &reduce, std::slice::from_ref(&x));
    let other = store.input(num_src, FEATURES, 7);
    let gate = |tape: &Tape, v: &[Var]| ops::gate(tape, &v[0], &v[1], &v[2]);
    run("gate", &gate, &[x.clone(), other, store.wide(1, 3 * FEATURES, 8)]);
    run("mean of heads", &|tape, v| ops::mean_heads(tape, &v[0], HEADS), std::slice::from_ref(&x));
    run("l2_normalize", &|tape, v| ops::l2_normalize(tape, &v[0], 1e-12), std::slice::from_ref(&x));
    run("edge_dot", &|tape, v| ops::edge_dot(tape, &graph, &v[0], &v[1]), &[q, x.clone()]);
    run("first rows", &|tape, v| ops::head_rows(tape, &v[0], 1), std::slice::from_ref(&x));
    let affine = [store.wide(1, FEATURES, 11), store.wide(1, FEATURES, 12)];
    let [weight, bias] = affine.clone();
    let batch_norm = |tape: &Tape, v: &[Var]| Ok(ops::batch_norm(tape, &v[0], Some([&v[1], &v[2]]), 1e-5)?.0);
    run("batch_norm", &batch_norm, &[x.clone(), weight.clone(), bias.clone()]);
    let moments = ops::ColumnMoments { mean: store.wide(1, FEATURES, 13), variance: store.positive(1, FEATURES, 14) };
    let normalize = |tape: &Tape, v: &[Var]| ops::normalize_columns(tape, &v[0], &moments, Some([&v[1], &v[2]]), 1e-5);
    run("normalize_columns", &normalize, &[x.clone(), weight.clone(), bias.clone()]);
    let layer_norm = |tape: &Tape, v: &[Var]| ops::layer_norm(tape, &v[0], Some([&v[1], &v[2]]), 1e-5);
    run("layer_norm", &layer_norm, &[x.clone(), weight, bias]);
    let beside = store.input(num_src, 7, 15);
    let concat = |tape: &Tape, v: &[Var]| ops::concat_columns(tape, &[&v[0], &v[1]]);
    run("concat_columns", &concat, &[x.clone(), beside]);
    run("column_range", &|tape, v| ops::column_range(tape, &v[0], 3..17), std::slice::from_ref(&x));
    run("stack_blocks", &|tape, v| ops::stack_blocks(tape, &v[0], 3), std::slice::from_ref(&x));
    let (scales, blocks) = (store.wide(num_src, 3, 16), store.input(num_src, 3 * FEATURES, 17));
    let spread = |tape: &Tape, v: &[Var]| ops::spread_blocks(tape, &v[0], &v[1], &scales);
    run("spread_blocks", &spread, &[blocks.clone(), x.clone()]);
    let merge = |tape: &Tape, v: &[Var]| ops::merge_blocks(tape, &v[0], &v[1], &scales);
    run("merge_blocks", &merge, &[x.clone(), blocks]);
    let attr = store.wide(graph.num_edges(), 3, 9);
    let gine = |tape: &Tape, v: &[Var]| ops::gine(tape, &graph, &v[0], &v[1], &v[2], None);
    run("gine", &gine, &[x, attr, store.wide(FEATURES, 3, 10)]);
    results
}

/// The layer whose statistics, blocks and scalers follow one another, with and without edge attributes. Its statistics
/// are smooth here: rounding would move a minimum or maximum, and its gradient, to another neighbour.
#[test]
fn pna_in_halves_wgpu() {
    const FEATURES: usize = 12;
    const SMOOTH: [Statistic; 3] = [Statistic::Mean, Statistic::Var, Statistic::Sum];
    for (name, graph) in graphs().into_iter().filter(|(_, graph)| graph.is_square() && graph.columns().len() > 10) {
        let graph = Arc::new(graph);
        for (towers, edge_width) in [(1, None), (3, Some(2))] {
            let run = |store: &Store<'_>| {
                // Of another graph: a hub among nodes without edges would be amplified past the largest half.
                let degree = AverageDegree { linear: 7.0, log: 2.0 };
                let options = PnaOptions { towers, edge_width, ..PnaOptions::new(degree) };
                let options = options.aggregators(&SMOOTH).unwrap();
                let graph = DeviceGraph::new(store.device, graph.clone());
                let mut init = Initializer::new(store.device, 1);
                let conv = PnaConv::new(&mut init, FEATURES, FEATURES, options).unwrap();
                let tape = Tape::recording(store.device);
                let x = tape.leaf(&store.input(graph.num_src(), FEATURES, 1));
                let attr = edge_width.map(|d| tape.leaf(&store.wide(graph.num_edges(), d, 2)));
                let features = x.clone().into();
                let input = ConvInput { edge_attr: attr.as_ref(), ..ConvInput::new(&graph, &features) };
                let out = conv.forward(&tape, &input).unwrap();
                assert_eq!(out.tensor().dtype(), store.stored);
                let parameters: Vec<Var> = conv.parameters().into_iter().map(|(_, p)| p.on(&tape)).collect();
                let mut results = vec![read(out.tensor())];
                let gradients = tape.backward_from(&out, store.input(graph.num_dst(), FEATURES, 3)).unwrap();
                let leaves = std::iter::once(&x).chain(&attr).chain(&parameters);
                results.extend(leaves.map(|leaf| read(gradients.of(leaf).unwrap())));
                results
            };
            for rounded in HALVES {
                let tolerance = if rounded == DType::F16 { 5e-3 } else { 3e-2 };
                let expected = run(&Store { device: &Device::cpu(), stored: DType::F32, rounded });
                for (on, device) in devices().into_iter().filter(|(on, _)| *on != "cut") {
                    let got = run(&Store { device: &device, stored: rounded, rounded });
                    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                        let error = support::relative_error(got.data(), expected.data());
                        let what = format!("{name}, {rounded}, {on}, {towers} towers, result {i}");
                        assert!(error <= tolerance, "{what}: off by {error:.2e}");
                    }
                }
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
