//! The memory that attention takes in training: so many rows of the hidden width a node, and nothing an edge.

mod support;

use std::sync::Arc;

use hopwise::{
    backend::{Device, DeviceGraph},
    graph::{EdgeList, Graph, generate::benchmark},
    nn::{AdamOptions, FeatureInput, GatOptions, GnnBuilder, LayerKind, Targets, Trainer, TransformerOptions},
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

/// Bytes that a step of a two-layer model takes, at its peak, beyond what is there between steps: input, weights,
/// their gradients' moments, and, after a first step, the graph's own arrays.
fn peak_of_a_step(device: &Device, kind: LayerKind, graph: &Arc<Graph>, warm: bool) -> u64 {
    let nodes = graph.num_dst() as usize;
    let model = GnnBuilder::new(kind).hidden(HIDDEN).build(device, HIDDEN, CLASSES, 1).unwrap();
    let features = FeatureInput::dense(device, &support::random(nodes, HIDDEN, 1)).unwrap();
    let labels: Vec<u32> = (0..nodes as u32).map(|i| i % CLASSES as u32).collect();
    let train: Vec<u32> = (0..nodes as u32).collect();
    let targets = Targets::Classes(ClassTargets::new(device, &labels, CLASSES as u32, &train).unwrap());
    let graph = DeviceGraph::new(device, graph.clone());
    let mut trainer = Trainer::new(model, graph, features, targets, 1, AdamOptions::default()).unwrap();
    if warm {
        drop(trainer.step().unwrap());
    }
    device.reset_peak();
    let before = device.memory().in_use;
    drop(trainer.step().unwrap());
    device.memory().peak - before
}

/// What a step may take. The peak is in the backward pass of the first layer. Rows of the hidden width are then:
///
/// - GATv2, 10: the input after dropout, l, r, h, the gradients of these last three and of att by row, and, on a GPU, r
///   and the gradient of h once more, packed;
/// - the transformer, 12: the input after dropout, q, k, v, h, the gradients of these last four and of the node's own
///   part, and, on a GPU, q and the gradient of h once more, packed.
///
/// Besides, a row of the classes' width (the loss keeps its gradient), and three numbers a head: logsumexp, and once more
/// with delta. The pool rounds up by an eighth, where the gradients of weights find room too. No number of edges.
fn bound(kind: LayerKind, nodes: usize) -> u64 {
    let rows = if kind == GATV2 { 10 } else { 12 };
    (4 * nodes * (rows * HIDDEN + CLASSES + 3 * HEADS)) as u64 * 9 / 8
}

/// On a graph with hubs, of the size of a citation network. The processor has no arrays of the graph to copy, so that
/// the first step tells.
fn is_bounded_on_a_large_graph(kind: LayerKind) {
    let graph = Arc::new(benchmark("arxiv-like").unwrap());
    let peak = peak_of_a_step(&Device::cpu(), kind, &graph, false);
    let allowed = bound(kind, graph.num_dst() as usize);
    assert!(peak <= allowed, "{peak} bytes, {allowed} are allowed");
}

#[test]
#[ignore = "takes minutes on two cores without optimisation"]
fn gatv2_takes_a_few_rows_a_node_on_a_large_graph() {
    is_bounded_on_a_large_graph(GATV2);
}

#[test]
#[ignore = "takes minutes on two cores without optimisation"]
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
        let allowed = bound(kind, nodes as usize);
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
