//! Every WGSL kernel against its CPU twin over random graphs and shapes, on a device as it is and on one with bindings so small that everything is cut.
#![cfg(feature = "wgpu")]

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{
        Device, DeviceGraph, Direction, Indices, Tensor,
        kernels::{
            AdamUpdate, DropoutMask, Gate, GateBackward, Gemm, GineBackward, GineForward, Sddmm, Spmm, StepData, Unary,
            dropout_keeps,
        },
    },
    graph::{Graph, NO_EDGE, generate::SplitMix},
    plan::{Mapping, SpmmPlan},
};
use support::{graphs, random, relative_error, small_bindings};

/// Single sums differ by rounding only; 2e-5 of the largest entry is what the reference vectors allow.
const TOLERANCE: f64 = 2e-5;

/// Runs `compute` on the processor and on GPU devices, and compares what it returns.
fn compare(what: &str, compute: impl Fn(&Device) -> Vec<Matrix>) {
    compare_sums(what, 0.0, compute);
}

/// The same for sums whose terms may cancel, `rounding` being what they round by.
fn compare_sums(what: &str, rounding: f64, compute: impl Fn(&Device) -> Vec<Matrix>) {
    compare_on(&[("whole", support::device("wgpu")), ("small bindings", small_bindings())], what, rounding, compute);
}

fn compare_on(devices: &[(&str, Device)], what: &str, rounding: f64, compute: impl Fn(&Device) -> Vec<Matrix>) {
    let expected = compute(&Device::cpu());
    for (name, device) in devices {
        for (i, (got, expected)) in compute(device).iter().zip(&expected).enumerate() {
            assert_eq!((got.rows(), got.cols()), (expected.rows(), expected.cols()), "{what}, {name}, result {i}");
            let error = relative_error(got.data(), expected.data());
            let largest = expected.data().iter().fold(0.0f32, |m, v| m.max(v.abs()));
            let allowed = TOLERANCE.max(rounding / f64::from(largest.max(f32::MIN_POSITIVE)));
            assert!(error <= allowed, "{what}, {name}, result {i}: off by {error:.2e}, allowed {allowed:.2e}");
        }
    }
}

fn upload(device: &Device, matrix: &Matrix) -> Tensor {
    Tensor::from_matrix(device, matrix, "input").unwrap()
}

/// An output full of what must be overwritten.
fn poisoned(device: &Device, rows: usize, cols: usize) -> Tensor {
    Tensor::full(device, rows, cols, f32::NAN, "output").unwrap()
}

#[test]
fn spmm_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for (case, features) in [1, 2, 3, 4, 7, 16, 33, 130, 300].into_iter().enumerate() {
            let scaled = case % 2 == 0;
            for direction in [Direction::Forward, Direction::Transposed] {
                for mapping in [Mapping::FeatureParallel, Mapping::NeighbourParallel] {
                    for segment in [40, 1 << 20] {
                        let what =
                            format!("{name}, {features} features, {direction:?}, {mapping:?}, segments of {segment}");
                        compare(&what, |device| {
                            let graph = DeviceGraph::new(device, graph.clone());
                            let (rows, columns) = graph.dims(direction);
                            let x = upload(device, &random(columns, features, 1));
                            let weight = upload(device, &random(graph.num_edges(), 1, 2));
                            let row_scale = upload(device, &random(rows, 1, 3));
                            let column_scale = upload(device, &random(columns, 1, 4));
                            let out = poisoned(device, rows, features);
                            let caps = device.capabilities();
                            let plan = SpmmPlan::with_mapping(mapping, graph.offsets(direction), features, caps);
                            device
                                .spmm(&Spmm {
                                    graph: &graph,
                                    direction,
                                    x: &x,
                                    weight: (case % 3 != 1).then_some(&weight),
                                    row_scale: scaled.then_some(&row_scale),
                                    column_scale: (case % 4 < 2).then_some(&column_scale),
                                    out: &out,
                                    plan: &SpmmPlan { segment, ..plan },
                                })
                                .unwrap();
                            vec![support::read(&out)]
                        });
                    }
                }
            }
        }
    }
}

/// Wider than any tile, and not a multiple of four; such rows of a graph do not fit the small bindings.
#[test]
fn rows_of_a_thousand_columns_wgpu() {
    for (name, edges) in support::corner_cases() {
        let graph = Arc::new(Graph::from_edges(&edges));
        for columns in [999, 1000] {
            for mapping in [Mapping::FeatureParallel, Mapping::NeighbourParallel] {
                for segment in [4, 1 << 20] {
                    let what = format!("{name}, {columns} columns, {mapping:?}, segments of {segment}");
                    let whole = [("whole", support::device("wgpu"))];
                    compare_on(&whole, &what, 0.0, |device| {
                        let graph = DeviceGraph::new(device, graph.clone());
                        let poisoned = |rows| poisoned(device, rows, columns);
                        let x = upload(device, &random(graph.num_src(), columns, 1));
                        let (sums, softmax, grad) =
                            (poisoned(graph.num_dst()), poisoned(graph.num_edges()), poisoned(graph.num_edges()));
                        let direction = Direction::Forward;
                        let offsets = graph.offsets(direction);
                        let plan = SpmmPlan::with_mapping(mapping, offsets, columns, device.capabilities());
                        let plan = &SpmmPlan { segment, ..plan };
                        let (weight, row_scale, column_scale) = (None, None, None);
                        let args =
                            Spmm { graph: &graph, direction, x: &x, weight, row_scale, column_scale, out: &sums, plan };
                        device.spmm(&args).unwrap();
                        let [score, even, g] =
                            [2, 3, 4].map(|seed| upload(device, &random(graph.num_edges(), columns, seed)));
                        device.edge_softmax(&graph, &score, 300.0, &softmax).unwrap();
                        device.edge_softmax_grad(&graph, &even, &g, 2.0, &grad).unwrap();
                        [sums, softmax, grad].iter().map(support::read).collect()
                    });
                }
            }
        }
    }
}

/// Graphs, widths and segments drawn anew for each seed; what fails names its seed.
#[test]
fn random_cases_wgpu() {
    for seed in 0..40 {
        let mut draw = SplitMix::stream(seed, 3);
        let graph = Arc::new(support::random_graph(&mut draw));
        let (features, segment) = (1 + draw.below(200) as usize, 1 + draw.below(30));
        let mapping = [Mapping::FeatureParallel, Mapping::NeighbourParallel][draw.below(2) as usize];
        let direction = [Direction::Forward, Direction::Transposed][draw.below(2) as usize];
        let run = |device: &Device| {
            let graph = DeviceGraph::new(device, graph.clone());
            let (rows, columns) = graph.dims(direction);
            let x = upload(device, &random(columns, features, seed));
            let weight = upload(device, &random(graph.num_edges(), 1, seed + 1));
            let out = poisoned(device, rows, features);
            let plan = SpmmPlan::with_mapping(mapping, graph.offsets(direction), features, device.capabilities());
            let plan = &SpmmPlan { segment, ..plan };
            let (weight, row_scale, column_scale) = (Some(&weight), None, None);
            let args = Spmm { graph: &graph, direction, x: &x, weight, row_scale, column_scale, out: &out, plan };
            device.spmm(&args).unwrap();
            // Positive numbers, whose products do not cancel.
            let [a, b] = [(graph.num_dst(), 2), (graph.num_src(), 3)].map(|(rows, stream)| {
                let mut matrix = random(rows, features, seed + stream);
                matrix.data_mut().iter_mut().for_each(|v| *v = v.abs());
                upload(device, &matrix)
            });
            let products = poisoned(device, graph.num_edges(), 1);
            let (row_scale, column_scale) = (None, None);
            device.sddmm(&Sddmm { graph: &graph, a: &a, b: &b, row_scale, column_scale, out: &products }).unwrap();
            let score = upload(device, &random(graph.num_edges(), features, seed + 4));
            let softmax = poisoned(device, graph.num_edges(), features);
            device.edge_softmax(&graph, &score, 30.0, &softmax).unwrap();
            [out, products, softmax].iter().map(support::read).collect::<Vec<_>>()
        };
        let what = format!("seed {seed}: {features} features, {direction:?}, {mapping:?}, segments of {segment}");
        compare_on(&[("whole", support::device("wgpu"))], &what, 0.0, run);
        for device in [Device::cpu(), support::device("wgpu")] {
            assert_eq!(run(&device), run(&device), "{what}: the bits differ on {}", device.info().backend);
        }
    }
}

/// What is kept with a graph for one width must not be taken for another, which is cut differently.
#[test]
fn one_graph_serves_several_widths_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        let (cpu, gpu) = (Device::cpu(), small_bindings());
        let on = [DeviceGraph::new(&cpu, graph.clone()), DeviceGraph::new(&gpu, graph.clone())];
        for features in [7, 33, 300, 1, 33, 7] {
            for direction in [Direction::Forward, Direction::Transposed] {
                let results = on.each_ref().map(|graph| {
                    let (device, (rows, columns)) = (graph.device(), graph.dims(direction));
                    let (x, out) = (upload(device, &random(columns, features, 1)), poisoned(device, rows, features));
                    let plan = SpmmPlan::new(graph.offsets(direction), features, device.capabilities());
                    let plan = &SpmmPlan { segment: 40, ..plan };
                    let (weight, row_scale, column_scale) = (None, None, None);
                    let args = Spmm { graph, direction, x: &x, weight, row_scale, column_scale, out: &out, plan };
                    device.spmm(&args).unwrap();
                    support::read(&out)
                });
                let error = relative_error(results[1].data(), results[0].data());
                assert!(error <= TOLERANCE, "{name}, {features} features, {direction:?}: off by {error:.2e}");
            }
        }
    }
}

#[test]
fn sddmm_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        // 64 rows of the widest do not fit the small bindings, but a graph with fewer nodes does.
        let nodes = graph.num_src().max(graph.num_dst()) as usize;
        let widest = if nodes <= 7 { [999, 1000] } else { [130, 130] };
        for features in [1, 3, 16, 33, 300].into_iter().chain(widest) {
            for scaled in [false, true] {
                let run = |device: &Device, of: fn(f32) -> f32| {
                    let graph = DeviceGraph::new(device, graph.clone());
                    let input = |rows, cols, seed| {
                        let mut matrix = random(rows, cols, seed);
                        matrix.data_mut().iter_mut().for_each(|v| *v = of(*v));
                        upload(device, &matrix)
                    };
                    let (a, b) = (input(graph.num_dst(), features, 1), input(graph.num_src(), features, 2));
                    let (row_scale, column_scale) = (input(graph.num_dst(), 1, 3), input(graph.num_src(), 1, 4));
                    let out = poisoned(device, graph.num_edges(), 1);
                    device
                        .sddmm(&Sddmm {
                            graph: &graph,
                            a: &a,
                            b: &b,
                            row_scale: scaled.then_some(&row_scale),
                            column_scale: scaled.then_some(&column_scale),
                            out: &out,
                        })
                        .unwrap();
                    vec![support::read(&out)]
                };
                // Roundings of a sum go either way: together they are the root of their number times one of them.
                let magnitudes = run(&Device::cpu(), f32::abs);
                let largest = magnitudes[0].data().iter().fold(0.0f32, |m, v| m.max(*v));
                let rounding = (features as f64).sqrt() * f64::from(largest) * f64::from(f32::EPSILON) / 2.0;
                let what = format!("{name}, {features} features, scaled {scaled}");
                compare_sums(&what, rounding, |device| run(device, |v| v));
            }
        }
    }
}

#[test]
fn gemm_wgpu() {
    // Long sums are split among workgroups. 64 rows of a factor must fit the small binding.
    for (m, n, k) in [(1, 1, 1), (5, 7, 3), (64, 64, 16), (300, 33, 100), (16, 16, 4_000), (2_000, 8, 24), (65, 130, 9)]
    {
        for (transpose_a, transpose_b) in [(false, true), (false, false), (true, false)] {
            let (m, k) = if transpose_a { (m.min(500), k) } else { (m, k.min(500)) };
            for (biased, accumulate) in [(false, false), (true, false), (false, true)] {
                let what = format!(
                    "{m} x {n} x {k}, transposed {transpose_a} {transpose_b}, bias {biased}, added {accumulate}"
                );
                compare(&what, |device| {
                    let shape = |rows, cols, flip| if flip { (cols, rows) } else { (rows, cols) };
                    let ((a_rows, a_cols), (b_rows, b_cols)) = (shape(m, k, transpose_a), shape(k, n, transpose_b));
                    let a = upload(device, &random(a_rows, a_cols, 1));
                    let b = upload(device, &random(b_rows, b_cols, 2));
                    let bias = upload(device, &random(1, n, 3));
                    let out = if accumulate { upload(device, &random(m, n, 4)) } else { poisoned(device, m, n) };
                    device
                        .gemm(&Gemm {
                            a: &a,
                            transpose_a,
                            b: &b,
                            transpose_b,
                            bias: biased.then_some(&bias),
                            out: &out,
                            accumulate,
                        })
                        .unwrap();
                    vec![support::read(&out)]
                });
            }
        }
    }
}

#[test]
fn sums_and_transposes_wgpu() {
    for (rows, cols) in [(1, 1), (3, 7), (5_000, 1), (2_500, 16), (100, 300), (1_025, 3)] {
        compare(&format!("{rows} x {cols}"), |device| {
            let x = upload(device, &random(rows, cols, 1));
            let sums = poisoned(device, 1, cols);
            device.column_sums(&x, &sums, false).unwrap();
            let more = upload(device, &random(1, cols, 2));
            device.column_sums(&x, &more, true).unwrap();
            let mut results = vec![support::read(&sums), support::read(&more)];
            // A transpose is for weights, which fit a binding.
            if rows.max(cols) * 4 * rows.min(cols) <= 1 << 15 {
                let flipped = poisoned(device, cols, rows);
                device.transpose(&x, &flipped).unwrap();
                results.push(support::read(&flipped));
            }
            results
        });
    }
}

#[test]
fn elementwise_wgpu() {
    let functions = [
        Unary::Relu,
        Unary::LeakyRelu(0.2),
        Unary::Elu(1.0),
        Unary::Sigmoid,
        Unary::Tanh,
        Unary::Inverse,
        Unary::InverseSqrt,
    ];
    for (rows, cols) in [(1, 1), (70, 7), (9_000, 1), (4_000, 33)] {
        compare(&format!("{rows} x {cols}"), |device| {
            let x = upload(device, &random(rows, cols, 1));
            let y = upload(device, &random(rows, cols, 2));
            let row = upload(device, &random(1, cols, 3));
            let factor = upload(device, &random(1, 1, 4));
            let mut results = Vec::new();
            for f in functions {
                let (value, grad) = (poisoned(device, rows, cols), poisoned(device, rows, cols));
                device.unary(f, &x, &value).unwrap();
                device.unary_grad(f, &x, &y, &grad).unwrap();
                results.extend([support::read(&value), support::read(&grad)]);
                let state = state(device);
                let mask = DropoutMask { state: state.buffer(), layer: 2, p: 0.6 };
                let (value, grad) = (poisoned(device, rows, cols), poisoned(device, rows, cols));
                device.unary_dropout(f, &mask, &x, &value).unwrap();
                device.unary_dropout_grad(f, &mask, &value, &y, &grad).unwrap();
                results.extend([support::read(&value), support::read(&grad)]);
            }
            let outs: Vec<Tensor> = (0..7).map(|_| poisoned(device, rows, cols)).collect();
            device.add(&x, &y, &outs[0]).unwrap();
            device.add_row(&x, &row, &outs[1]).unwrap();
            device.scale_add(1.0, &factor, &x, Some(&y), &outs[2]).unwrap();
            device.scale_add(0.0, &factor, &x, None, &outs[3]).unwrap();
            device.mul(&x, &y, &outs[4]).unwrap();
            device.combine(-2.0, &x, Some((0.5, &y)), &outs[5]).unwrap();
            device.combine(3.0, &x, None, &outs[6]).unwrap();
            device.add_assign(&x, &y).unwrap();
            results.extend(outs.iter().chain([&y]).map(support::read));
            results
        });
    }
}

fn state(device: &Device) -> Tensor {
    let data = StepData {
        seed_low: 3,
        seed_high: 9,
        step: 5,
        learning_rate: 0.01,
        bias_correction1: 0.4,
        bias_correction2_sqrt: 0.3,
        ..Default::default()
    };
    let state = Tensor::uninit(device, 2, 4, "state").unwrap();
    device.write(state.buffer(), bytemuck::cast_slice(&[data])).unwrap();
    state
}

#[test]
fn dropout_has_the_same_bits_everywhere_wgpu() {
    for (rows, cols) in [(1, 1), (300, 7), (20_000, 1), (2_000, 33)] {
        let x = random(rows, cols, 1);
        let run = |device: &Device| {
            let state = state(device);
            let mask = DropoutMask { state: state.buffer(), layer: 2, p: 0.6 };
            let out = poisoned(device, rows, cols);
            device.dropout(&mask, &upload(device, &x), &out).unwrap();
            support::read(&out)
        };
        let expected = run(&Device::cpu());
        assert_eq!(run(&support::device("wgpu")), expected, "{rows} x {cols}");
        assert_eq!(run(&small_bindings()), expected, "{rows} x {cols}, small bindings");
        let data = StepData { seed_low: 3, seed_high: 9, step: 5, ..Default::default() };
        for r in 0..rows {
            for c in 0..cols {
                let kept = dropout_keeps(&data, 2, 0.6, r as u32, c as u32);
                assert_eq!(expected.row(r)[c] != 0.0, kept, "entry ({r}, {c})");
            }
        }
    }
}

#[test]
fn sparse_dropout_drops_what_dense_dropout_drops_wgpu() {
    // A pattern with every entry: both forms hold the same matrix.
    let (rows, cols) = (500, 40);
    let all = Graph::from_csr(
        cols as u32,
        (0..=rows as u32).map(|r| r * cols as u32).collect(),
        (0..rows).flat_map(|_| 0..cols as u32).collect(),
    );
    let pattern = Arc::new(all.unwrap());
    let x = random(rows, cols, 1);
    for device in [Device::cpu(), support::device("wgpu"), small_bindings()] {
        let state = state(&device);
        let mask = DropoutMask { state: state.buffer(), layer: 2, p: 0.3 };
        let dense = poisoned(&device, rows, cols);
        device.dropout(&mask, &upload(&device, &x), &dense).unwrap();
        let values = Tensor::from_column(&device, x.data(), "values").unwrap();
        let sparse = poisoned(&device, rows * cols, 1);
        device.dropout_sparse(&mask, &DeviceGraph::new(&device, pattern.clone()), &values, &sparse).unwrap();
        assert_eq!(support::read(&sparse).data(), support::read(&dense).data(), "{}", device.info().backend);
    }
}

#[test]
fn losses_wgpu() {
    for (rows, cols) in [(1, 2), (300, 7), (3_000, 40), (700, 1)] {
        compare(&format!("{rows} x {cols}"), |device| {
            // Logits large enough to overflow a careless exponential.
            let mut logits = random(rows, cols, 1);
            logits.data_mut().iter_mut().for_each(|v| *v *= 200.0);
            let x = upload(device, &logits);
            let mut pick = SplitMix::stream(3, 0);
            let labels: Vec<u32> = (0..rows).map(|_| pick.below(cols as u32)).collect();
            let labels = Indices::new(device, &labels, "labels").unwrap();
            let weight: Vec<f32> = (0..rows).map(|r| if r % 3 == 1 { 0.0 } else { 1.0 / rows as f32 }).collect();
            let weight = Tensor::from_column(device, &weight, "weight").unwrap();
            let mut targets = random(rows, cols, 2);
            targets.data_mut().iter_mut().for_each(|v| *v = f32::from(*v > 0.0));
            let targets = upload(device, &targets);
            let (losses, grad) = (poisoned(device, rows, 1), poisoned(device, rows, cols));
            device.cross_entropy(&x, &labels, &weight, &losses, &grad).unwrap();
            let mut results = vec![support::read(&losses), support::read(&grad)];
            device.binary_cross_entropy(&x, &targets, &weight, &losses, &grad).unwrap();
            results.extend([support::read(&losses), support::read(&grad)]);
            results
        });
    }
}

#[test]
fn rows_wgpu() {
    for (rows, cols) in [(1, 1), (300, 7), (3_000, 40), (5_000, 1)] {
        compare(&format!("{rows} x {cols}"), |device| {
            let (x, g) = (upload(device, &random(rows, cols, 1)), upload(device, &random(rows, cols, 2)));
            let mut divisor = random(rows, 1, 3);
            divisor.data_mut()[0] = 0.0;
            let divisor = upload(device, &divisor);
            let (dot, divided) = (poisoned(device, rows, 1), poisoned(device, rows, 1));
            device.row_dot(&x, &g, None, &dot).unwrap();
            device.row_dot(&x, &g, Some(&divisor), &divided).unwrap();
            let (unit, grad) = (poisoned(device, rows, cols), poisoned(device, rows, cols));
            device.l2_normalize(&x, 1e-12, &unit).unwrap();
            device.l2_normalize_grad(&x, &g, 1e-12, &grad).unwrap();
            let classes = Indices::uninit(device, rows, "classes").unwrap();
            device.argmax(&x, &classes).unwrap();
            let classes = pollster::block_on(classes.to_vec(device)).unwrap();
            let classes = Matrix::new(rows, 1, classes.into_iter().map(|c| c as f32).collect()).unwrap();
            let mut grad = support::read(&grad);
            if cols == 1 {
                // Mathematically 0: what is left is a rounding error of `g / x`, to be seen in proportion to that.
                let (x, g) = (random(rows, cols, 1), random(rows, cols, 2));
                let entries = grad.data_mut().iter_mut().zip(x.data()).zip(g.data());
                entries.for_each(|((grad, x), g)| *grad = *grad * x + g);
            }
            vec![support::read(&dot), support::read(&divided), support::read(&unit), grad, classes]
        });
    }
}

#[test]
fn heads_wgpu() {
    for (rows, heads, channels, attributes) in [(1, 1, 1, 1), (300, 3, 1, 2), (900, 4, 7, 3), (500, 16, 8, 4)] {
        compare(&format!("{rows} rows, {heads} heads of {channels}, {attributes} attributes"), |device| {
            let (all, wide) = (heads * channels, heads * (channels + attributes));
            let x = upload(device, &random(rows, all, 1));
            let weight = upload(device, &random(all, attributes, 2));
            let (extended, folded) = (poisoned(device, rows, wide), poisoned(device, rows, all));
            device.extend_heads(heads, &x, &weight, &extended).unwrap();
            device.fold_heads(heads, &extended, &weight, &folded).unwrap();
            let blocks = poisoned(device, all, attributes);
            device.head_blocks(heads, &upload(device, &random(all, wide, 3)), &blocks).unwrap();
            let (mean, spread) = (poisoned(device, rows, channels), poisoned(device, rows, all));
            device.mean_heads(heads, &x, &mean).unwrap();
            device.spread_heads(heads, &mean, &spread).unwrap();
            [extended, folded, blocks, mean, spread].iter().map(support::read).collect()
        });
    }
}

#[test]
fn gates_wgpu() {
    for (rows, cols) in [(1, 1), (300, 7), (3_000, 40), (5_000, 1)] {
        compare(&format!("{rows} x {cols}"), |device| {
            let [x, r, g] = [1, 2, 3].map(|seed| upload(device, &random(rows, cols, seed)));
            let weight = upload(device, &random(1, 3 * cols, 4));
            let [out, grad_x, grad_r] = [(); 3].map(|()| poisoned(device, rows, cols));
            let (b, z) = (poisoned(device, rows, 1), poisoned(device, rows, 1));
            device.gate(&Gate { x: &x, r: &r, weight: &weight, out: &out, b: &b }).unwrap();
            let args =
                GateBackward { x: &x, r: &r, weight: &weight, b: &b, g: &g, grad_x: &grad_x, grad_r: &grad_r, z: &z };
            device.gate_grad(&args).unwrap();
            let (u, t) = (upload(device, &random(1, cols, 5)), upload(device, &random(1, cols, 6)));
            let grad_weight = poisoned(device, 1, 3 * cols);
            device.gate_weight(&u, &t, &grad_weight).unwrap();
            [out, b, grad_x, grad_r, z, grad_weight].iter().map(support::read).collect()
        });
    }
}

#[test]
fn gather_and_scatter_wgpu() {
    for (rows, cols) in [(10, 1), (500, 7), (900, 40)] {
        compare(&format!("{rows} x {cols}"), |device| {
            let x = upload(device, &random(rows, cols, 1));
            let mut pick = SplitMix::stream(3, 0);
            let mut chosen: Vec<u32> = (0..3 * rows).map(|_| pick.below(rows as u32)).collect();
            chosen[1] = NO_EDGE;
            let gathered = poisoned(device, chosen.len(), cols);
            let chosen = Indices::new(device, &chosen, "rows").unwrap();
            device.gather_rows(&x, &chosen, 7.0, &gathered).unwrap();
            // A permutation with two rows left out; they keep what they hold. Scattering needs its target in one binding.
            let mut results = vec![support::read(&gathered)];
            if rows * cols <= 1 << 13 {
                let places: Vec<u32> =
                    (0..rows as u32).map(|r| if r < 2 { NO_EDGE } else { rows as u32 - 1 - r }).collect();
                let scattered = upload(device, &random(rows, cols, 2));
                device.scatter_rows(&x, &Indices::new(device, &places, "places").unwrap(), &scattered).unwrap();
                results.push(support::read(&scattered));
            }
            results
        });
    }
}

#[test]
fn gine_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for features in [1, 3, 8] {
            // Edge features are made in slices that fit a binding; these graphs have few enough edges for that.
            if graph.num_edges() as usize * features > 1 << 14 {
                continue;
            }
            compare(&format!("{name}, {features} features"), |device| {
                let graph = DeviceGraph::new(device, graph.clone());
                let x = upload(device, &random(graph.num_src(), features, 1));
                let e = upload(device, &random(graph.num_edges(), features, 2));
                let g = upload(device, &random(graph.num_dst(), features, 3));
                let (out, grad_x) =
                    (poisoned(device, graph.num_dst(), features), poisoned(device, graph.num_src(), features));
                let rows = 0..graph.num_dst() as u32;
                device.gine(&GineForward { graph: &graph, rows, x: &x, e: &e, out: &out }).unwrap();
                let rows = 0..graph.num_src() as u32;
                device.gine_grad(&GineBackward { graph: &graph, rows, x: &x, e: &e, g: &g, grad_x: &grad_x }).unwrap();
                vec![support::read(&out), support::read(&e), support::read(&grad_x)]
            });
        }
    }
}

#[test]
fn edge_softmax_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for heads in [1, 3, 8] {
            compare(&format!("{name}, {heads} heads"), |device| {
                let graph = DeviceGraph::new(device, graph.clone());
                // Scores that a careless exponential would not survive.
                let score = upload(device, &random(graph.num_edges(), heads, 1));
                let grad = upload(device, &random(graph.num_edges(), heads, 2));
                let (weight, out) =
                    (poisoned(device, graph.num_edges(), heads), poisoned(device, graph.num_edges(), heads));
                device.edge_softmax(&graph, &score, 300.0, &weight).unwrap();
                // The gradient multiplies the error of the weights by the scale: it is compared for weights that are the same.
                let even = upload(device, &random(graph.num_edges(), heads, 3));
                device.edge_softmax_grad(&graph, &even, &grad, 2.0, &out).unwrap();
                vec![support::read(&weight), support::read(&out)]
            });
        }
    }
}

#[test]
fn adam_wgpu() {
    for (rows, cols) in [(1, 1), (64, 33), (2_000, 16)] {
        for decoupled in [false, true] {
            compare(&format!("{rows} x {cols}, decoupled {decoupled}"), |device| {
                let state = state(device);
                let tensors: Vec<Tensor> = (0..3).map(|i| upload(device, &random(rows, cols, i))).collect();
                let mut second = random(rows, cols, 9);
                second.data_mut().iter_mut().for_each(|v| *v = v.abs());
                let second = upload(device, &second);
                device
                    .adam(&AdamUpdate {
                        state: state.buffer(),
                        w: &tensors[0],
                        g: &tensors[1],
                        m: &tensors[2],
                        v: &second,
                        beta1: 0.9,
                        beta2: 0.999,
                        epsilon: 1e-8,
                        weight_decay: 0.01,
                        decoupled,
                        scale: None,
                    })
                    .unwrap();
                vec![support::read(&tensors[0]), support::read(&tensors[2]), support::read(&second)]
            });
        }
    }
}

fn adapter_has_a_clock() -> bool {
    use hopwise::backend::wgpu::{WgpuBackend, WgpuOptions, wgpu::Features};

    let backend = pollster::block_on(WgpuBackend::new(&WgpuOptions::default())).unwrap();
    backend.device().features().contains(Features::TIMESTAMP_QUERY | Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)
}

/// Marks on the device's clock are in order, and no further apart than the host sees.
#[test]
fn marks_tell_how_long_the_device_took_wgpu() {
    for device in [Device::cpu(), support::device("wgpu")] {
        let start = std::time::Instant::now();
        let before = device.mark().unwrap();
        let x = Tensor::from_matrix(&device, &random(2_000, 64, 1), "x").unwrap();
        let out = x.like("out").unwrap();
        for _ in 0..50 {
            device.combine(1.5, &x, None, &out).unwrap();
        }
        let (Some(before), Some(after)) = (before, device.mark().unwrap()) else {
            assert!(device.info().backend == "wgpu" && !adapter_has_a_clock(), "{} has no clock", device.info().name);
            continue;
        };
        let seconds = pollster::block_on(after.seconds_since(&before)).unwrap();
        let seen = start.elapsed().as_secs_f64();
        assert!(seconds > 0.0 && seconds <= 1.05 * seen + 1e-3, "{}: {seconds} s of {seen}", device.info().name);
        assert_eq!(pollster::block_on(before.seconds_since(&after)).unwrap(), 0.0);
        let elsewhere = Device::cpu().mark().unwrap().unwrap();
        assert!(pollster::block_on(elsewhere.seconds_since(&before)).is_err());
    }
}
