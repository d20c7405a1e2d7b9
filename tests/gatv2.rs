//! Attention of GATv2: the WGSL kernels against their CPU twins over odd graphs, widths and heads, and what must hold
//! on every device.
#![cfg(feature = "wgpu")]

mod support;

use hopwise::{
    backend::DeviceGraph,
    graph::Graph,
    ops::{self, AttentionOptions, Tape},
};
use support::{
    attention::{self, Family},
    leaf, random,
};

#[test]
fn gatv2_wgpu() {
    attention::agrees(Family::Gatv2);
}

#[test]
fn gatv2_with_edge_attributes_wgpu() {
    attention::agrees_with_edge_attributes(Family::Gatv2);
}

#[test]
fn gatv2_of_rows_cut_into_segments_wgpu() {
    attention::agrees_where_rows_are_cut(Family::Gatv2);
}

#[test]
fn gatv2_drops_the_same_attention_on_every_device_wgpu() {
    attention::drops_the_same_attention(Family::Gatv2);
}

#[test]
fn gatv2_of_large_and_tiny_logits_stays_finite_wgpu() {
    attention::stays_finite(Family::Gatv2);
}

#[test]
fn gatv2_gives_the_same_bits_twice_wgpu() {
    attention::gives_the_same_bits_twice(Family::Gatv2);
}

#[test]
fn gatv2_of_wide_and_of_many_heads_wgpu() {
    attention::agrees_where_heads_are_wide_or_many(Family::Gatv2);
}

#[test]
fn attention_that_does_not_fit_a_binding_is_refused_wgpu() {
    let device = support::small_bindings();
    let graph = DeviceGraph::new(&device, Graph::from_csr(2_000, vec![0; 2_001], vec![]).unwrap());
    let tape = Tape::inference(&device);
    let (x, att) = (leaf(&tape, &random(2_000, 32, 1)), leaf(&tape, &random(1, 32, 2)));
    let options = AttentionOptions { heads: 4, ..Default::default() };
    let error = ops::gatv2(&tape, &graph, [&x, &x], &att, None, options).unwrap_err().to_string();
    assert!(error.contains("256000") && error.contains("131072"), "{error}");
}

#[test]
fn gatv2_of_random_cases_wgpu() {
    attention::agrees_on_random_cases(Family::Gatv2);
}

#[test]
fn gatv2_of_products_that_cancel_wgpu() {
    attention::agrees_where_products_cancel(Family::Gatv2);
}
