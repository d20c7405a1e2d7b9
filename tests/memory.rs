//! The memory that attention takes in training: so many rows of the hidden width a node, and nothing an edge.

mod support;

use std::sync::Arc;

use hopwise::{
    backend::{Device, DeviceGraph, Tensor},
    graph::{EdgeList, Graph, generate::benchmark},
    nn::{
        AdamOptions, FeatureInput, GatOptions, Gnn, GnnBuilder, LayerKind, Module, Targets, Trainer, TransformerOptions,
    },
    ops::ClassTargets,
};

const HIDDEN: usize = 128;
const HEADS: usize = 8;
const CLASSES: usize = 40;

const GATV2: LayerKind = LayerKind::GatV2(GatOptions {
    heads: HEADS,
    concat: true,
    negative_slope: 0.2,
    add_self_loops: true,
    share_weights: false,
    bias: true,
    residual: false,
    edge_width: None,
    dropout: 0.5,
});
const TRANSFORMER: LayerKind = LayerKind::Transformer(TransformerOptions {
    heads: HEADS,
    concat: true,
    beta: false,
    dropout: 0.5,
    edge_width: 0,
    bias: true,
    root_weight: true,
});

fn model(device: &Device, kind: LayerKind) -> Gnn {
    GnnBuilder::new(kind).hidden(HIDDEN).build(device, HIDDEN, CLASSES, 1).unwrap()
}

/// Bytes that a step of a two-layer model takes, at its peak, beyond what is there between steps: input, weights,
/// their gradients' moments, and the graph's own arrays.
fn peak_of_a_step(device: &Device, kind: LayerKind, graph: &Arc<Graph>, warm: bool) -> u64 {
    let nodes = graph.num_dst() as usize;
    let model = model(device, kind);
    let features = FeatureInput::dense(device, &support::random(nodes, HIDDEN, 1)).unwrap();
    let labels: Vec<u32> = (0..nodes as u32).map(|i| i % CLASSES as u32).collect();
    let train: Vec<u32> = (0..nodes as u32).collect();
    let targets = Targets::Classes(ClassTargets::new(device, &labels, CLASSES as u32, &train).unwrap());
    let graph = DeviceGraph::new(device, graph.clone());
    // GATv2's: it stays with the graph.
    drop(graph.with_self_loops().unwrap());
    let mut trainer = Trainer::new(model, graph, features, targets, 1, AdamOptions::default()).unwrap();
    if warm {
        drop(trainer.step().unwrap());
    }
    device.reset_peak();
    let before = device.memory().in_use;
    drop(trainer.step().unwrap());
    device.memory().peak - before
}

/// What a step may take. No number of edges.
///
/// The peak is in the backward pass, of the first layer or of the second. What lives then are matrices of a row a node,
/// and the gradients of weights. The gradient of what attention sums up is written over its result h, that of the input
/// of several products gathers in one matrix, and a hidden layer's output exists with its activation and the dropout of
/// the next layer alone. A GPU packs what the gradient reads of a destination into one row more.
///
/// GATv2, in the gradient of
/// - the first layer's attention: the input after dropout, l, r, h, the gradient of h and those of r and of att by row, 7
///   of the hidden width; a logarithm a head. Packed: r, the gradient of h, logarithm and delta of each head.
/// - the second layer's products: the input after dropout, l, r, h of the first layer, its output and the gradient of
///   that, 6 of the hidden width; the first layer's logarithms; the gradients of the second layer's l and r, of the width
///   of the classes. Nothing is packed.
///
/// The transformer, in the gradient of
/// - the first layer's attention: the input after dropout, q, k, v, h, the gradient of h and those of q and k, 8 of the
///   hidden width, on a GPU, where the gradient of k is written over k or q, 7; a logarithm a head. Packed: q and the
///   gradient of h, and, in an array of its own, logarithm and delta of each head and of one row more.
/// - the second layer's products: the input after dropout, q, k, v, h of the first layer, its output and the gradient of
///   that, 7 of the hidden width; the first layer's logarithms; the gradients of the second layer's q, k, v and of the
///   node's own part, 4 of the width of the classes. Nothing is packed.
/// - the second layer's attention: one of the hidden width less, no gradient having reached the output; q, k, v, h of the
///   second layer, the gradient of h and those of q and k, 7 of the width of the classes or 6; the logarithms of both
///   layers. Packed, of one head: as above.
fn bound(device: &Device, kind: LayerKind, nodes: usize) -> u64 {
    // The pool rounds sizes up: what a matrix takes of it, the pool itself tells.
    let bytes = |rows: usize, cols: usize| {
        let before = device.memory().in_use;
        let _matrix = Tensor::uninit(device, rows, cols, "a row a node").unwrap();
        device.memory().in_use - before
    };
    let rows = |cols: usize| bytes(nodes, cols);
    let packs = device.info().backend != "cpu";
    let packed = |bytes: u64| if packs { bytes } else { 0 };
    let moments = if kind == GATV2 {
        let first = 7 * rows(HIDDEN) + packed(rows(2 * HIDDEN + 2 * HEADS));
        vec![first, 6 * rows(HIDDEN) + 2 * rows(CLASSES)]
    } else {
        let over_an_input = u64::from(packs);
        let first = (8 - over_an_input) * rows(HIDDEN) + packed(rows(2 * HIDDEN) + bytes(nodes + 1, 2 * HEADS));
        let products = 7 * rows(HIDDEN) + 4 * rows(CLASSES);
        let second = 6 * rows(HIDDEN) + (7 - over_an_input) * rows(CLASSES) + rows(1);
        vec![first, products, second + packed(rows(2 * CLASSES) + bytes(nodes + 1, 2))]
    };
    let model = model(device, kind);
    let weights: u64 = model.parameters().into_iter().map(|(_, p)| bytes(p.value().rows(), p.value().cols())).sum();
    // The loss, its gradient, sums of columns.
    let single_numbers = 8 * bytes(1, 1);
    rows(HEADS) + moments.into_iter().max().unwrap() + weights + single_numbers
}

/// On a graph with hubs, of the size of a citation network. The processor has no arrays of the graph to copy, so that
/// the first step tells. It packs nothing either: all but the gradients of weights must be there, or the bound counts
/// what is not.
fn is_bounded_on_a_large_graph(kind: LayerKind) {
    let graph = Arc::new(benchmark("arxiv-like").unwrap());
    let peak = peak_of_a_step(&Device::cpu(), kind, &graph, false);
    let allowed = bound(&Device::cpu(), kind, graph.num_dst() as usize);
    assert!(peak <= allowed, "{peak} bytes, {allowed} are allowed");
    assert!(allowed - peak < allowed / 500, "{peak} bytes, the bound of {allowed} counts more than there is");
}

#[test]
fn gatv2_takes_a_few_rows_a_node_on_a_large_graph() {
    is_bounded_on_a_large_graph(GATV2);
}

#[test]
fn transformers_take_a_few_rows_a_node_on_a_large_graph() {
    is_bounded_on_a_large_graph(TRANSFORMER);
}

/// Twice the edges at the same nodes take the same memory, to the byte. No row is so long that it is cut.
fn does_not_grow_with_edges(backend: &str) {
    let nodes = 4_096;
    let [single, double] = [8, 16].map(|degree| {
        let dst = (0..nodes * degree).map(|e| e / degree).collect();
        let src = (0..nodes * degree).map(|e| (e / degree + 1 + e % degree * 37) % nodes).collect();
        Arc::new(Graph::from_edges(&EdgeList::square(nodes, src, dst).unwrap()))
    });
    for kind in [GATV2, TRANSFORMER] {
        let [one, two] =
            [&single, &double].map(|graph| peak_of_a_step(&support::fresh_device(backend), kind, graph, true));
        assert_eq!(one, two, "{kind:?}: bytes of {} and of {} edges", single.num_edges(), double.num_edges());
        let allowed = bound(&support::fresh_device(backend), kind, nodes as usize);
        assert!(one <= allowed, "{kind:?}: {one} bytes, {allowed} are allowed");
    }
}

#[test]
fn memory_does_not_grow_with_edges_cpu() {
    does_not_grow_with_edges("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn memory_does_not_grow_with_edges_wgpu() {
    does_not_grow_with_edges("wgpu");
}
