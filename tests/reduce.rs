//! Statistics over neighbours: every WGSL kernel against its CPU twin, the CPU twin against 64-bit formulas, and
//! gradients against differences.

mod support;

use std::sync::Arc;

#[cfg(feature = "wgpu")]
use hopwise::graph::generate::SplitMix;
use hopwise::{
    Matrix,
    backend::{
        Device, DeviceGraph, Direction, Tensor,
        kernels::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, Statistic},
        row_stride,
    },
    graph::{EdgeList, Graph, NO_EDGE},
    ops::{self, Tape},
    plan::ReducePlan,
};
use support::{graphs, leaf, random, read};

const ALL: [Statistic; 6] =
    [Statistic::Sum, Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Var, Statistic::Std];

/// Sets of statistics, among them what PNA asks for.
const SETS: [&[Statistic]; 10] = [
    &[Statistic::Max],
    &[Statistic::Min],
    &[Statistic::Sum],
    &[Statistic::Max, Statistic::Min],
    &[Statistic::Mean, Statistic::Max],
    &[Statistic::Std],
    &[Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Std],
    &[Statistic::Product],
    &[Statistic::Softmax],
    &[Statistic::Std, Statistic::Max, Statistic::Var, Statistic::Sum, Statistic::Min, Statistic::Mean],
];

/// Multiples of 1/4 in -1..1: sums and squares are exact, so that a deviation is 0 on every device or on none, and many
/// entries are equal.
fn coarse(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut matrix = random(rows, cols, seed);
    matrix.data_mut().iter_mut().for_each(|v| *v = (*v * 4.0).round() / 4.0);
    matrix
}

/// Every result of the forward and the backward pass.
struct Results {
    out: Matrix,
    /// Positions in edge order of the minimum and the maximum, as far as they are asked for.
    arguments: Vec<u32>,
    grad_x: Matrix,
    /// What adds up to the gradient of a temperature; nothing without one.
    slope: Option<Matrix>,
}

fn run(device: &Device, graph: &Arc<Graph>, x: &Matrix, statistics: &[Statistic], segment: u32) -> Results {
    let graph = DeviceGraph::new(device, graph.clone());
    let (rows, features) = (graph.num_dst(), x.cols());
    let parts = Ingredients::of(statistics);
    let poisoned = |rows, cols| Tensor::full(device, rows, cols, f32::NAN, "output").unwrap();
    let plan = |direction, outputs| ReducePlan {
        segment,
        ..ReducePlan::new(graph.offsets(direction), features, outputs, device.capabilities())
    };
    let x = Tensor::from_matrix(device, x, "x").unwrap();
    let out = poisoned(rows, statistics.len() * features);
    let kept_cols = parts.kept_cols(features);
    let kept = (kept_cols > 0).then(|| poisoned(rows, kept_cols));
    let kept = kept.as_ref();
    let forward = plan(Direction::Forward, statistics.len());
    let softmax = statistics == [Statistic::Softmax];
    let t = Tensor::full(device, 1, 1, 0.7, "temperature").unwrap();
    let temperature = softmax.then_some(&t);
    let args = Reduce { graph: &graph, statistics, x: &x, out: &out, temperature, kept, plan: &forward };
    device.reduce(&args).unwrap();
    // Nothing kept gives the same output.
    let again = poisoned(rows, statistics.len() * features);
    device.reduce(&Reduce { out: &again, kept: None, ..args }).unwrap();
    assert_eq!(read(&again), read(&out), "{statistics:?}");

    let g = Tensor::from_matrix(device, &random(rows, statistics.len() * features, 9), "g").unwrap();
    let coefficients = if Ingredients::are_direct(statistics) {
        g.clone()
    } else {
        let coefficients = poisoned(rows, parts.coefficient_cols(features));
        let out = parts.reads_out().then_some(&out);
        let args = ReduceCoefficients { graph: &graph, statistics, g: &g, out, kept, coefficients: &coefficients };
        device.reduce_coefficients(&args).unwrap();
        coefficients
    };
    let grad_x = poisoned(graph.num_src(), features);
    let slope = softmax.then(|| poisoned(graph.num_src(), features));
    let backward = plan(Direction::Transposed, 1);
    device
        .reduce_grad(&ReduceGradient {
            graph: &graph,
            statistics,
            x: parts.reads_x().then_some(&x),
            coefficients: &coefficients,
            kept,
            temperature,
            grad_x: &grad_x,
            slope: slope.as_ref(),
            plan: &backward,
        })
        .unwrap();
    let mut arguments = Vec::new();
    if let Some(kept) = kept.filter(|_| parts.minimum || parts.maximum) {
        let kept = read(kept);
        let extremes = usize::from(parts.minimum) + usize::from(parts.maximum);
        for row in 0..rows {
            for part in kept.row(row).chunks(row_stride(features)).skip(usize::from(parts.squares)).take(extremes) {
                arguments.extend(part[..features].iter().map(|v| v.to_bits()));
            }
        }
    }
    Results { out: read(&out), arguments, grad_x: read(&grad_x), slope: slope.as_ref().map(read) }
}

#[cfg(feature = "wgpu")]
#[test]
fn reduce_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        // Wide rows of the smallest graphs alone.
        let wide: &[usize] = if graph.num_src() <= 60 { &[999, 1000] } else { &[] };
        for (case, features) in [1, 3, 7, 16, 33, 130, 300].into_iter().chain(wide.iter().copied()).enumerate() {
            let x = coarse(graph.num_src() as usize, features, 1);
            for (set, statistics) in SETS.into_iter().enumerate() {
                // Segments short enough for either direction, and rows that are whole.
                let segment = [37, 1 << 20, 5][(case + set) % 3];
                let widest = Ingredients::of(statistics).coefficient_cols(features).max(statistics.len() * features);
                let expected = run(&Device::cpu(), &graph, &x, statistics, segment);
                for (device_name, device) in
                    [("whole", support::device("wgpu")), ("small bindings", support::small_bindings())]
                {
                    // 64 rows of everything that a destination has must fit the small binding, and so must all segments.
                    if device_name != "whole" && (widest > 500 || segment == 5) {
                        continue;
                    }
                    let what =
                        format!("{name}, {features} features, {statistics:?}, segments of {segment}, {device_name}");
                    let got = run(&device, &graph, &x, statistics, segment);
                    assert_eq!(got.arguments, expected.arguments, "{what}");
                    // Single sums differ by rounding only; 2e-5 of the largest entry is what the reference vectors
                    // allow.
                    let slopes = got.slope.as_ref().zip(expected.slope.as_ref());
                    let results = [(&got.out, &expected.out), (&got.grad_x, &expected.grad_x)];
                    for (got, expected) in results.into_iter().chain(slopes) {
                        let error = support::relative_error(got.data(), expected.data());
                        assert!(error <= 2e-5, "{what}: off by {error:.2e}");
                    }
                    let again = run(&device, &graph, &x, statistics, segment);
                    let bits = |r: Results| (r.out, r.grad_x, r.slope);
                    assert_eq!(bits(again), bits(got), "{what}: the bits differ");
                }
            }
        }
    }
}

/// Graphs, widths, sets and segments drawn anew for each seed; what fails names its seed.
#[cfg(feature = "wgpu")]
#[test]
fn random_cases_wgpu() {
    for seed in 0..40 {
        let mut draw = SplitMix::stream(seed, 3);
        let graph = Arc::new(support::random_graph(&mut draw));
        let (features, segment) = (1 + draw.below(200) as usize, 1 + draw.below(30));
        let statistics = SETS[draw.below(SETS.len() as u32) as usize];
        let what = format!("seed {seed}: {features} features, {statistics:?}, segments of {segment}");
        let x = coarse(graph.num_src() as usize, features, seed);
        let [expected, got, again] = [Device::cpu(), support::device("wgpu"), support::device("wgpu")]
            .map(|device| run(&device, &graph, &x, statistics, segment));
        assert_eq!(got.arguments, expected.arguments, "{what}");
        let results = [(&got.out, &expected.out), (&got.grad_x, &expected.grad_x)];
        for (got, expected) in results.into_iter().chain(got.slope.as_ref().zip(expected.slope.as_ref())) {
            let error = support::relative_error(got.data(), expected.data());
            assert!(error <= 2e-5, "{what}: off by {error:.2e}");
        }
        let bits = |r: Results| (r.out, r.grad_x, r.slope);
        assert_eq!(bits(again), bits(got), "{what}: the bits differ");
    }
}

/// In one pass as apart, and on every run; the larger of these graphs are shared out among threads.
#[test]
fn sets_of_statistics_are_their_members_side_by_side() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        let x = coarse(graph.num_src() as usize, 33, 1);
        for statistics in SETS {
            let bits = |statistics: &[Statistic]| {
                let r = run(&Device::cpu(), &graph, &x, statistics, 1 << 20);
                (r.out, r.grad_x, r.slope)
            };
            let together = bits(statistics);
            assert_eq!(bits(statistics), together, "{name}, {statistics:?}");
            for (a, statistic) in statistics.iter().enumerate() {
                let (apart, ..) = bits(&[*statistic]);
                for i in 0..apart.rows() {
                    assert_eq!(
                        together.0.row(i)[a * 33..][..33],
                        *apart.row(i),
                        "{name}, {statistics:?}, {statistic:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn statistics_follow_their_formulas() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        let x = coarse(graph.num_src() as usize, 5, 1);
        let results = run(&Device::cpu(), &graph, &x, &ALL, 1 << 20);
        for i in 0..graph.num_dst() as usize {
            let edges = graph.offsets()[i]..graph.offsets()[i + 1];
            for f in 0..5 {
                let entry = |k: u32| x.row(graph.columns()[k as usize] as usize)[f];
                let values: Vec<f64> = edges.clone().map(|k| f64::from(entry(k))).collect();
                let count = values.len().max(1) as f64;
                let sum: f64 = values.iter().sum();
                let variance = values.iter().map(|v| v * v).sum::<f64>() / count - (sum / count).powi(2);
                let smallest = edges.clone().min_by(|&a, &b| entry(a).total_cmp(&entry(b)));
                let largest = edges.clone().rev().max_by(|&a, &b| entry(a).total_cmp(&entry(b)));
                let value = |k: Option<u32>| k.map_or(0.0, |k| f64::from(entry(k)));
                let std = if variance > 1e-5 { variance.sqrt() } else { 0.0 };
                let expected = [sum, sum / count, value(smallest), value(largest), variance, std];
                for (a, expected) in expected.into_iter().enumerate() {
                    let got = f64::from(results.out.row(i)[a * 5 + f]);
                    assert!(
                        (got - expected).abs() < 1e-5 * (1.0 + sum.abs()),
                        "{name}, {:?}: {got} {expected}",
                        ALL[a]
                    );
                }
                // Of equal entries, the first in edge order.
                let first = |k: Option<u32>| {
                    k.map_or(NO_EDGE, |k| edges.clone().find(|&other| entry(other) == entry(k)).unwrap())
                };
                let at = i * 10 + f;
                assert_eq!(results.arguments[at], first(smallest), "{name}");
                assert_eq!(results.arguments[at + 5], first(largest), "{name}");
            }
        }
    }
}

#[test]
fn products_and_softmax_sums_follow_their_formulas() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        let x = coarse(graph.num_src() as usize, 5, 1);
        let [product, softmax] = [Statistic::Product, Statistic::Softmax]
            .map(|statistic| run(&Device::cpu(), &graph, &x, &[statistic], 1 << 20).out);
        for i in 0..graph.num_dst() as usize {
            let edges = graph.offsets()[i] as usize..graph.offsets()[i + 1] as usize;
            for f in 0..5 {
                let values = || graph.columns()[edges.clone()].iter().map(|&j| f64::from(x.row(j as usize)[f]));
                let expected: f64 = values().product();
                assert!((f64::from(product.row(i)[f]) - expected).abs() < 1e-6, "{name}");
                let weights: f64 = values().map(|v| (0.7 * v).exp()).sum();
                let expected = values().map(|v| (0.7 * v).exp() * v).sum::<f64>() / weights.max(1e-9);
                assert!((f64::from(softmax.row(i)[f]) - expected).abs() < 1e-5, "{name}");
            }
        }
    }
}

#[test]
fn not_a_number_comes_through() {
    let graph = Arc::new(Graph::from_csr(3, vec![0, 3], vec![0, 1, 2]).unwrap());
    let x = Matrix::new(3, 1, vec![1.0, f32::NAN, -1.0]).unwrap();
    let results = run_forward_only(&graph, &x);
    assert!(results.data().iter().all(|v| v.is_nan()), "{results:?}");
}

fn run_forward_only(graph: &Arc<Graph>, x: &Matrix) -> Matrix {
    let device = Device::cpu();
    let tape = Tape::inference(&device);
    let out = ops::reduce(&tape, &DeviceGraph::new(&device, graph.clone()), &leaf(&tape, x), &ALL).unwrap();
    read(out.tensor())
}

#[test]
fn sets_that_make_no_sense_are_refused() {
    let device = Device::cpu();
    let graph = DeviceGraph::new(&device, Graph::from_edges(&EdgeList::square(2, vec![0], vec![1]).unwrap()));
    let tape = Tape::inference(&device);
    let x = leaf(&tape, &random(2, 3, 1));
    let message = |statistics: &[Statistic]| ops::reduce(&tape, &graph, &x, statistics).unwrap_err().to_string();
    assert_eq!(message(&[]), "reduce: the number of statistics is 0, expected at least 1");
    assert!(message(&[Statistic::Min, Statistic::Sum, Statistic::Min]).contains("Min twice"));
    assert!(message(&[Statistic::Product, Statistic::Sum]).contains("by itself"));
    assert!(message(&[Statistic::Softmax]).contains("temperature"));
    let plan = |offsets: &[u32], features: usize, outputs: usize, caps: &_| ReducePlan {
        lanes: 3,
        ..ReducePlan::new(offsets, features, outputs, caps)
    };
    assert!(ops::reduce_with_plan(&tape, &graph, &x, &[Statistic::Sum], &plan).is_err());
}

/// The gradient of the maximum of random features, given that of the output.
#[cfg(feature = "wgpu")]
fn gradient_of_maximum(device: &Device, graph: &Arc<Graph>, upstream: &Matrix) -> Matrix {
    let graph = DeviceGraph::new(device, graph.clone());
    let tape = Tape::recording(device);
    let x = leaf(&tape, &random(graph.num_src(), upstream.cols(), 1));
    let out = ops::reduce(&tape, &graph, &x, &[Statistic::Max]).unwrap();
    let upstream = Tensor::from_matrix(device, upstream, "upstream").unwrap();
    read(tape.backward_from(&out, upstream).unwrap().of(&x).unwrap())
}

/// Numbers of every size, denormals among them, add up as on the processor; infinities stay where they belong.
#[cfg(feature = "wgpu")]
#[test]
fn gradients_of_extremes_of_any_size_wgpu() {
    // Many edges a destination, which are handed out, and one destination of more edges than a byte tells apart.
    let mut draw = SplitMix::stream(11, 0);
    let mut drawn = |edges: usize, below: u32| (0..edges).map(|_| draw.below(below)).collect::<Vec<u32>>();
    let dense = EdgeList::new(40, 5, drawn(500, 40), drawn(500, 5)).unwrap();
    let hub = EdgeList::square(100, drawn(700, 100), [vec![7; 600], drawn(100, 100)].concat()).unwrap();
    let more = [("dense", Graph::from_edges(&dense)), ("a hub", Graph::from_edges(&hub))];
    for (name, graph) in graphs().into_iter().chain(more) {
        let graph = Arc::new(graph);
        for features in [1, 6, 40] {
            let mut upstream = random(graph.num_dst() as usize, features, 2);
            for (i, value) in upstream.data_mut().iter_mut().enumerate() {
                *value *= [1.0, 1e-3, 1e-20, 1e-39, 1e20][i % 5];
            }
            let largest = upstream.data().iter().fold(0.0f32, |m, v| m.max(v.abs()));
            let mut infinite = upstream.clone();
            if let Some(value) = infinite.data_mut().get_mut(3) {
                *value = f32::INFINITY;
            }
            for upstream in [&upstream, &infinite] {
                let expected = gradient_of_maximum(&Device::cpu(), &graph, upstream);
                let got = gradient_of_maximum(&support::device("wgpu"), &graph, upstream);
                let mut sizes = upstream.clone();
                sizes.data_mut().iter_mut().for_each(|v| *v = v.abs());
                let sizes = gradient_of_maximum(&Device::cpu(), &graph, &sizes);
                for ((got, expected), size) in got.data().iter().zip(expected.data()).zip(sizes.data()) {
                    // Denormals may be 0 on a GPU, and what is 2^-45 of the largest number is beyond integers of 64 bits.
                    let close = (got - expected).abs() <= 1e-6 * size + largest * 2.0f32.powi(-45) + 1e-37;
                    assert!(got == expected || close, "{name}, {features} features: {got:e}, expected {expected:e}");
                }
            }
        }
    }
}
