//! Attention of GAT: the WGSL kernels against their CPU twins over odd graphs, widths and heads, and what must hold
//! on every device.
#![cfg(feature = "wgpu")]

mod support;

use support::attention::{self, Family};

#[test]
fn gat_wgpu() {
    attention::agrees(Family::Gat);
}

#[test]
fn gat_with_edge_attributes_wgpu() {
    attention::agrees_with_edge_attributes(Family::Gat);
}

#[test]
fn gat_of_rows_cut_into_segments_wgpu() {
    attention::agrees_where_rows_are_cut(Family::Gat);
}

#[test]
fn gat_drops_the_same_attention_on_every_device_wgpu() {
    attention::drops_the_same_attention(Family::Gat);
}

#[test]
fn gat_of_large_and_tiny_logits_stays_finite_wgpu() {
    attention::stays_finite(Family::Gat);
}

#[test]
fn gat_gives_the_same_bits_twice_wgpu() {
    attention::gives_the_same_bits_twice(Family::Gat);
}

#[test]
fn gat_of_wide_and_of_many_heads_wgpu() {
    attention::agrees_where_heads_are_wide_or_many(Family::Gat);
}

#[test]
fn gat_of_random_cases_wgpu() {
    attention::agrees_on_random_cases(Family::Gat);
}

#[test]
fn gat_of_products_that_cancel_wgpu() {
    attention::agrees_where_products_cancel(Family::Gat);
}
