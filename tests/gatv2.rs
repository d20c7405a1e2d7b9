//! Attention of GATv2: the WGSL kernels against their CPU twins over odd graphs, widths and heads, and what must hold
//! on every device.
#![cfg(feature = "wgpu")]

mod support;

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{Device, DeviceGraph, Direction, Tensor},
    graph::Graph,
    ops::{self, AttentionOptions, EdgeAttention, StepState, Tape, Var},
    plan::AttentionPlan,
};
use support::{graphs, leaf, random, read, relative_error};

/// A case: shapes, what scores are scaled by, the length of segments, attention dropout.
#[derive(Clone, Copy, Debug)]
struct Case {
    heads: usize,
    channels: usize,
    attributes: usize,
    scale: f32,
    segment: Option<u32>,
    dropout: f32,
}

impl Default for Case {
    fn default() -> Self {
        Self { heads: 1, channels: 8, attributes: 0, scale: 1.0, segment: None, dropout: 0.0 }
    }
}

impl Case {
    /// The output and the gradients of l, r, att, and of the edge attributes and weight where there are some.
    fn run(&self, device: &Device, graph: &Arc<Graph>) -> Vec<Matrix> {
        let graph = DeviceGraph::new(device, graph.clone());
        let features = self.heads * self.channels;
        let state = StepState::new(device, 5).unwrap();
        let tape = Tape::training(device, &state);
        let mut att = random(1, features, 3);
        att.data_mut().iter_mut().for_each(|v| *v *= self.scale);
        let mut inputs = vec![random(graph.num_src(), features, 1), random(graph.num_dst(), features, 2), att];
        if self.attributes > 0 {
            inputs.push(random(graph.num_edges(), self.attributes, 4));
            inputs.push(random(features, self.attributes, 5));
        }
        let vars: Vec<Var> = inputs.iter().map(|m| leaf(&tape, m)).collect();
        let edge = (self.attributes > 0).then(|| EdgeAttention { attr: &vars[3], weight: &vars[4] });
        let options = AttentionOptions { heads: self.heads, negative_slope: 0.2, dropout: self.dropout };
        let plans = [Direction::Forward, Direction::Transposed].map(|direction| {
            let offsets = graph.offsets(direction);
            let plan = AttentionPlan::new(offsets, self.heads, self.channels, device.capabilities());
            AttentionPlan { segment: self.segment.unwrap_or(plan.segment), ..plan }
        });
        let out = ops::gatv2_with_plans(&tape, &graph, [&vars[0], &vars[1]], &vars[2], edge, options, plans).unwrap();
        let mut results = vec![read(out.tensor())];
        let upstream = Tensor::from_matrix(device, &random(graph.num_dst(), features, 9), "upstream").unwrap();
        let gradients = tape.backward_from(&out, upstream).unwrap();
        results.extend(vars.iter().map(|v| read(gradients.of(v).unwrap())));
        results
    }

    /// Compares the devices. Gradients of scores cancel, to 0 where a node has one edge: what is left is the rounding
    /// of the largest of them.
    fn compare(&self, name: &str, graph: &Arc<Graph>) {
        let expected = self.run(&Device::cpu(), graph);
        let largest = expected.iter().flat_map(Matrix::data).fold(0.0f32, |m, v| m.max(v.abs()));
        for (i, (got, expected)) in self.run(&support::device("wgpu"), graph).iter().zip(&expected).enumerate() {
            let error = relative_error(got.data(), expected.data());
            let within = |bound: f32| got.data().iter().zip(expected.data()).all(|(g, e)| (g - e).abs() <= bound);
            // An attribute's gradient adds up what is left of its edge's score over the channels. Only where everything else cancels does that count.
            let carried = 2e-6 * largest * self.channels as f32;
            let cancelled = expected.data().iter().all(|e| e.abs() <= carried);
            let rounding = within(2e-6 * largest) || (i == 3 && cancelled && within(carried));
            assert!(error <= 5e-5 || rounding, "{name}, {self:?}, result {i}: off by {error:.2e}");
        }
    }
}

#[test]
fn gatv2_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for (heads, channels) in [(1, 1), (3, 7), (8, 8), (16, 1), (1, 33), (3, 130), (1, 300), (16, 8)] {
            Case { heads, channels, ..Default::default() }.compare(name, &graph);
        }
    }
}

#[test]
fn gatv2_with_edge_attributes_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for (heads, channels, attributes) in [(1, 1, 1), (3, 7, 5), (8, 8, 4), (1, 33, 2), (3, 1, 1), (1, 300, 9)] {
            Case { heads, channels, attributes, ..Default::default() }.compare(name, &graph);
        }
    }
}

#[test]
fn gatv2_of_rows_cut_into_segments_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for (heads, channels, attributes) in [(1, 1, 0), (3, 7, 3), (8, 8, 0)] {
            for segment in [3, 40] {
                Case { heads, channels, attributes, segment: Some(segment), ..Default::default() }
                    .compare(name, &graph);
            }
        }
    }
}

#[test]
fn gatv2_drops_the_same_attention_on_every_device_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for (heads, channels, attributes) in [(8, 8, 0), (3, 7, 3)] {
            for segment in [None, Some(3)] {
                Case { heads, channels, attributes, segment, dropout: 0.6, ..Default::default() }.compare(name, &graph);
            }
        }
    }
}

#[test]
fn gatv2_of_large_logits_stays_finite_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        for segment in [None, Some(3)] {
            let case = Case { heads: 3, channels: 33, attributes: 3, scale: 1e3, segment, ..Default::default() };
            for device in [Device::cpu(), support::device("wgpu")] {
                for (i, result) in case.run(&device, &graph).iter().enumerate() {
                    assert!(result.data().iter().all(|v| v.is_finite()), "{name}, {case:?}, result {i}");
                }
                // Shares of attention add up to 1: no output passes the largest input.
                assert!(case.run(&device, &graph)[0].data().iter().all(|v| v.abs() < 1.001), "{name}, {case:?}");
            }
        }
    }
}

#[test]
fn gatv2_gives_the_same_bits_twice_wgpu() {
    for (name, graph) in graphs() {
        let graph = Arc::new(graph);
        let case = Case { heads: 3, channels: 7, attributes: 3, segment: Some(40), dropout: 0.6, ..Default::default() };
        for device in [Device::cpu(), support::device("wgpu")] {
            assert_eq!(case.run(&device, &graph), case.run(&device, &graph), "{name}");
        }
    }
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
