//! Every kernel family, forward and backward, on published graphs with hubs: the WGSL kernels against their CPU twins,
//! and the same bits on two runs. The graphs are in the folder that the environment variable `HOPWISE_DATA` names;
//! without it these tests pass, after saying on standard error that they were not run.
#![cfg(feature = "wgpu")]

mod support;

use std::{path::Path, sync::Arc};

use hopwise::{
    Matrix,
    backend::{Device, DeviceGraph, Tensor, kernels::Statistic},
    data::{LoadOptions, load},
    graph::Graph,
    ops::{self, AttentionInput, AttentionOptions, OpError, SpmmInput, Tape, Var},
};
use support::{leaf, random, read, relative_error};

const WIDTH: usize = 16;
const HEADS: usize = 2;
/// Single sums differ by rounding only; 2e-5 of the largest entry is what the reference vectors allow. Scores of
/// attention pass through an exponential, which makes a little more of it.
const TOLERANCE: f64 = 2e-5;
const ATTENTION_TOLERANCE: f64 = 5e-5;

/// What a family computes of leaves, and the leaves.
type Computed = Result<(Var, Vec<Var>), OpError>;

/// Multiples of 1/4 in -1..1: sums and squares are exact, and many entries are equal.
fn coarse(rows: usize) -> Matrix {
    let mut matrix = random(rows, WIDTH, 1);
    matrix.data_mut().iter_mut().for_each(|v| *v = (*v * 4.0).round() / 4.0);
    matrix
}

/// Numbers close to 1, of which thousands can be multiplied.
fn near_one(rows: usize) -> Matrix {
    let mut matrix = random(rows, WIDTH, 1);
    matrix.data_mut().iter_mut().for_each(|v| *v = 1.0 + 1e-3 * *v);
    matrix
}

/// A row a source (as many as destinations: the graphs are square).
fn nodes(tape: &Tape, graph: &DeviceGraph, seed: u64) -> Var {
    leaf(tape, &random(graph.num_src(), WIDTH, seed))
}

fn reduced(tape: &Tape, graph: &DeviceGraph, x: &Matrix, statistics: &[Statistic]) -> Computed {
    let x = leaf(tape, x);
    Ok((ops::reduce(tape, graph, &x, statistics)?, vec![x]))
}

fn sum(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let (x, weight) = (nodes(tape, graph, 1), leaf(tape, &random(graph.num_edges(), 1, 2)));
    let input = SpmmInput { weight: Some(&weight), ..Default::default() };
    Ok((ops::spmm(tape, graph, &x, input)?, vec![x, weight]))
}

fn minimum(tape: &Tape, graph: &DeviceGraph) -> Computed {
    reduced(tape, graph, &coarse(graph.num_src()), &[Statistic::Min])
}

fn several_statistics(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let statistics = [Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Std];
    reduced(tape, graph, &coarse(graph.num_src()), &statistics)
}

fn product(tape: &Tape, graph: &DeviceGraph) -> Computed {
    reduced(tape, graph, &near_one(graph.num_src()), &[Statistic::Product])
}

fn softmax_aggregation(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let (x, t) = (nodes(tape, graph, 1), leaf(tape, &Matrix::new(1, 1, vec![0.7]).unwrap()));
    Ok((ops::softmax_aggregation(tape, graph, &x, &t)?, vec![x, t]))
}

fn gat(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let z = nodes(tape, graph, 1);
    let [source, destination] = [2, 3].map(|seed| leaf(tape, &random(graph.num_src(), HEADS, seed)));
    let options = AttentionOptions { heads: HEADS, ..Default::default() };
    Ok((ops::gat(tape, graph, &z, [&source, &destination], None, options)?, vec![z, source, destination]))
}

fn gatv2(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let ([l, r], att) = ([1, 2].map(|seed| nodes(tape, graph, seed)), leaf(tape, &random(1, WIDTH, 3)));
    let options = AttentionOptions { heads: HEADS, ..Default::default() };
    Ok((ops::gatv2(tape, graph, [&l, &r], &att, None, options)?, vec![l, r, att]))
}

fn transformer(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let [q, k, v] = [1, 2, 3].map(|seed| nodes(tape, graph, seed));
    let input = AttentionInput { heads: HEADS, edges: None, dropout: 0.0 };
    Ok((ops::transformer(tape, graph, &q, &k, &v, input)?, vec![q, k, v]))
}

fn segment_softmax(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let score = leaf(tape, &random(graph.num_edges(), HEADS, 1));
    Ok((ops::edge_softmax(tape, graph, &score, 3.0)?, vec![score]))
}

fn products_of_edges(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let [a, b] = [1, 2].map(|seed| nodes(tape, graph, seed));
    Ok((ops::edge_dot(tape, graph, &a, &b)?, vec![a, b]))
}

fn gathers(tape: &Tape, graph: &DeviceGraph) -> Computed {
    let [source, destination] = [1, 2].map(|seed| nodes(tape, graph, seed));
    let ends = [ops::gather_sources(tape, graph, &source)?, ops::gather_destinations(tape, graph, &destination)?];
    Ok((ops::mul(tape, &ends[0], &ends[1])?, vec![source, destination]))
}

/// The output and every gradient.
fn run(device: &Device, graph: &Arc<Graph>, compute: fn(&Tape, &DeviceGraph) -> Computed) -> Vec<Matrix> {
    let graph = DeviceGraph::new(device, graph.clone());
    let tape = Tape::recording(device);
    let (out, leaves) = compute(&tape, &graph).unwrap();
    let upstream = random(out.shape()[0], out.shape()[1], 9);
    let upstream = Tensor::from_matrix(device, &upstream, "upstream").unwrap();
    let mut results = vec![read(out.tensor())];
    let gradients = tape.backward_from(&out, upstream).unwrap();
    results.extend(leaves.iter().map(|leaf| read(gradients.of(leaf).unwrap())));
    results
}

type Family = (&'static str, f64, fn(&Tape, &DeviceGraph) -> Computed);

const STATISTICS: [Family; 5] = [
    ("sum", TOLERANCE, sum),
    ("min", TOLERANCE, minimum),
    ("several statistics", TOLERANCE, several_statistics),
    ("product", TOLERANCE, product),
    ("softmax aggregation", TOLERANCE, softmax_aggregation),
];
const ATTENTION: [Family; 3] = [
    ("gat", ATTENTION_TOLERANCE, gat),
    ("gatv2", ATTENTION_TOLERANCE, gatv2),
    ("transformer", ATTENTION_TOLERANCE, transformer),
];
const EDGES: [Family; 3] = [
    ("segment softmax", TOLERANCE, segment_softmax),
    ("products of edges", TOLERANCE, products_of_edges),
    ("gathers", TOLERANCE, gathers),
];

fn agrees_and_repeats(name: &str, graph: &Arc<Graph>, families: &[Family]) {
    for &(family, tolerance, compute) in families {
        let expected = run(&Device::cpu(), graph, compute);
        let got = run(&support::device("wgpu"), graph, compute);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let error = relative_error(got.data(), expected.data());
            assert!(error <= tolerance, "{name}, {family}, result {i}: off by {error:.2e}, allowed {tolerance:.0e}");
        }
        assert_eq!(run(&support::device("wgpu"), graph, compute), got, "{name}, {family}: the bits differ");
    }
}

/// On a file of the folder of data, if there is one.
fn on_published(file: &str, symmetrized: bool, largest_degree: u32, families: &[Family]) {
    let Some(folder) = std::env::var_os("HOPWISE_DATA") else {
        eprintln!("not run: {file} (HOPWISE_DATA is not set)");
        return;
    };
    let edges = load(&Path::new(&folder).join(file), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}")).edges;
    let edges = if symmetrized { edges.symmetrized().unwrap() } else { edges };
    let graph = Arc::new(Graph::from_edges(&edges));
    assert_eq!(graph.stats().max_in_degree, largest_degree, "{file}");
    agrees_and_repeats(file, &graph, families);
}

/// A hub with a quarter of all nodes as neighbours, on both sides.
fn on_git(families: &[Family]) {
    on_published("musae_git/git", true, 9_458, families);
}

/// A heavy tail on both sides, and a loop at nearly every node.
fn on_slashdot(families: &[Family]) {
    on_published("edgelist/soc-Slashdot0902.txt.gz", false, 2_553, families);
}

#[test]
fn statistics_on_git_wgpu() {
    on_git(&STATISTICS);
}

#[test]
fn attention_on_git_wgpu() {
    on_git(&ATTENTION);
}

#[test]
fn edges_of_git_wgpu() {
    on_git(&EDGES);
}

#[test]
fn statistics_on_slashdot_wgpu() {
    on_slashdot(&STATISTICS);
}

#[test]
fn attention_on_slashdot_wgpu() {
    on_slashdot(&ATTENTION);
}

#[test]
fn edges_of_slashdot_wgpu() {
    on_slashdot(&EDGES);
}
