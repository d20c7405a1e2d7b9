//! What the tests of GAT and GATv2 share: one case, and what must hold for each of them.

use std::sync::Arc;

use hopwise::{
    Matrix,
    backend::{Device, DeviceGraph, Direction, Tensor},
    graph::{Graph, generate::SplitMix},
    ops::{self, AttentionOptions, EdgeAttention, StepState, Tape, Var},
    plan::AttentionPlan,
};

use super::{
    device,
    exact::{self, Attention},
    graphs, leaf, random, random_graph, read, relative_error,
    rounding::{Rows, beyond_rounding},
};

/// Of dropout.
const SEED: u64 = 5;
const SLOPE: f32 = 0.2;

/// Whose scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Gat,
    Gatv2,
}

/// A case: shapes, what scores are scaled by, the length of segments, lanes of a head and quads of each, attention
/// dropout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) family: Family,
    pub(crate) heads: usize,
    pub(crate) channels: usize,
    pub(crate) attributes: usize,
    pub(crate) scale: f32,
    pub(crate) segment: Option<u32>,
    pub(crate) layout: Option<[u32; 2]>,
    pub(crate) dropout: f32,
}

impl Case {
    pub(crate) fn new(family: Family, heads: usize, channels: usize, attributes: usize) -> Self {
        Self { family, heads, channels, attributes, scale: 1.0, segment: None, layout: None, dropout: 0.0 }
    }

    /// z and the scores of sources and destinations, or l, r and att; edge attributes and their weight last where there
    /// are some.
    fn inputs(&self, graph: &Graph) -> Vec<Matrix> {
        let features = self.heads * self.channels;
        let scaled = |mut m: Matrix| {
            m.data_mut().iter_mut().for_each(|v| *v *= self.scale);
            m
        };
        let x = random(graph.num_src() as usize, features, 1);
        let mut inputs = match self.family {
            Family::Gat => vec![
                x,
                scaled(random(graph.num_src() as usize, self.heads, 2)),
                scaled(random(graph.num_dst() as usize, self.heads, 3)),
            ],
            Family::Gatv2 => vec![x, random(graph.num_dst() as usize, features, 2), scaled(random(1, features, 3))],
        };
        if self.attributes > 0 {
            inputs.push(random(graph.num_edges() as usize, self.attributes, 4));
            inputs.push(match self.family {
                Family::Gat => scaled(random(self.heads, self.attributes, 5)),
                Family::Gatv2 => random(features, self.attributes, 5),
            });
        }
        inputs
    }

    /// The gradient that reaches the output.
    fn upstream(&self, graph: &Graph) -> Matrix {
        random(graph.num_dst() as usize, self.heads * self.channels, 9)
    }

    /// What [`Case::run`] computes, in 64 bits, with bounds on what rounding may do to it.
    pub(crate) fn exact(&self, graph: &Graph) -> Vec<Rows> {
        let (inputs, upstream) = (self.inputs(graph), self.upstream(graph));
        let [first, second, third] = [&inputs[0], &inputs[1], &inputs[2]];
        let (l, r, att) = match self.family {
            Family::Gat => (second, third, None),
            Family::Gatv2 => (first, second, Some(third)),
        };
        let state = StepState::new(&Device::cpu(), SEED).unwrap().data();
        let attention = Attention {
            graph,
            heads: self.heads,
            slope: SLOPE,
            l,
            r,
            att,
            values: first,
            edge: (self.attributes > 0).then(|| [&inputs[3], &inputs[4]]),
            dropout: (self.dropout > 0.0).then_some((state, self.dropout)),
            upstream: &upstream,
        };
        let of = attention.results();
        let mut results = match self.family {
            Family::Gat => vec![of.output, of.values, of.l, of.r],
            Family::Gatv2 => vec![of.output, exact::added(of.values, &of.l), of.r, of.att],
        };
        if self.attributes > 0 {
            results.extend([of.attr, of.weight]);
        }
        results
    }

    /// The output and the gradients of all inputs.
    pub(crate) fn run(&self, device: &Device, host: &Arc<Graph>) -> Vec<Matrix> {
        let graph = DeviceGraph::new(device, host.clone());
        let state = StepState::new(device, SEED).unwrap();
        let tape = Tape::training(device, &state);
        let vars: Vec<Var> = self.inputs(host).iter().map(|m| leaf(&tape, m)).collect();
        let edge = (self.attributes > 0).then(|| EdgeAttention { attr: &vars[3], weight: &vars[4] });
        let options = AttentionOptions { heads: self.heads, negative_slope: SLOPE, dropout: self.dropout };
        let plans = [Direction::Forward, Direction::Transposed].map(|direction| {
            let offsets = graph.offsets(direction);
            let plan = AttentionPlan::new(offsets, self.channels, device.capabilities());
            let [lanes, registers] = self.layout.unwrap_or([plan.lanes, plan.registers]);
            AttentionPlan { segment: self.segment.unwrap_or(plan.segment), lanes, registers, ..plan }
        });
        let out = match self.family {
            Family::Gat => {
                ops::gat_with_plans(&tape, &graph, &vars[0], [&vars[1], &vars[2]], edge, options, plans).unwrap()
            }
            Family::Gatv2 => {
                ops::gatv2_with_plans(&tape, &graph, [&vars[0], &vars[1]], &vars[2], edge, options, plans).unwrap()
            }
        };
        let mut results = vec![read(out.tensor())];
        // As in a model, nobody has the result any more when its gradient comes.
        let out = ops::combine(&tape, 1.0, &out, None).unwrap();
        let upstream = Tensor::from_matrix(device, &self.upstream(host), "upstream").unwrap();
        let gradients = tape.backward_from(&out, upstream).unwrap();
        results.extend(vars.iter().map(|v| read(gradients.of(v).unwrap())));
        results
    }

    /// Compares the devices: they agree to rounding of the largest entry, or, where that is the result of cancellation,
    /// both are as close to the results in 64 bits as rounding lets them be, entry by entry.
    pub(crate) fn compare(&self, name: &str, graph: &Arc<Graph>) {
        let expected = self.run(&Device::cpu(), graph);
        let mut exact = None;
        for (i, (got, expected)) in self.run(&device("wgpu"), graph).iter().zip(&expected).enumerate() {
            let error = relative_error(got.data(), expected.data());
            if error <= 5e-5 {
                continue;
            }
            let exact = &exact.get_or_insert_with(|| self.exact(graph))[i];
            for (whose, result) in [("the twin", expected), ("the device", got)] {
                if let Some(excess) = beyond_rounding(result, exact) {
                    panic!("{name}, {self:?}, result {i}: devices differ by {error:.2e}, {whose} {excess}");
                }
            }
        }
    }
}

/// Runs `check` for every graph of the tests.
pub(crate) fn on_all_graphs(check: impl Fn(&str, &Arc<Graph>)) {
    for (name, graph) in graphs() {
        check(name, &Arc::new(graph));
    }
}

pub(crate) fn agrees(family: Family) {
    on_all_graphs(|name, graph| {
        for (heads, channels) in [(1, 1), (3, 7), (8, 8), (16, 1), (1, 33), (3, 130), (1, 300), (16, 8)] {
            Case::new(family, heads, channels, 0).compare(name, graph);
        }
    });
}

pub(crate) fn agrees_with_edge_attributes(family: Family) {
    on_all_graphs(|name, graph| {
        for (heads, channels, attributes) in [(1, 1, 1), (3, 7, 5), (8, 8, 4), (1, 33, 2), (3, 1, 1), (1, 300, 9)] {
            Case::new(family, heads, channels, attributes).compare(name, graph);
        }
    });
}

pub(crate) fn agrees_where_rows_are_cut(family: Family) {
    on_all_graphs(|name, graph| {
        for (heads, channels, attributes) in [(1, 1, 0), (3, 7, 3), (8, 8, 0)] {
            for segment in [3, 40] {
                Case { segment: Some(segment), ..Case::new(family, heads, channels, attributes) }.compare(name, graph);
            }
        }
    });
}

pub(crate) fn drops_the_same_attention(family: Family) {
    on_all_graphs(|name, graph| {
        for (heads, channels, attributes) in [(8, 8, 0), (3, 7, 3)] {
            for segment in [None, Some(3)] {
                Case { segment, dropout: 0.6, ..Case::new(family, heads, channels, attributes) }.compare(name, graph);
            }
        }
    });
}

/// Of logits that are huge, and of logits that are next to nothing.
pub(crate) fn stays_finite(family: Family) {
    on_all_graphs(|name, graph| {
        for segment in [None, Some(3)] {
            for scale in [1e3, 1e-30] {
                let case = Case { scale, segment, ..Case::new(family, 3, 33, 3) };
                for device in [Device::cpu(), device("wgpu")] {
                    let results = case.run(&device, graph);
                    for (i, result) in results.iter().enumerate() {
                        assert!(result.data().iter().all(|v| v.is_finite()), "{name}, {case:?}, result {i}");
                    }
                    // Shares of attention add up to 1: no output passes the largest input.
                    assert!(results[0].data().iter().all(|v| v.abs() < 1.001), "{name}, {case:?}");
                }
            }
        }
    });
}

pub(crate) fn gives_the_same_bits_twice(family: Family) {
    on_all_graphs(|name, graph| {
        let case = Case { segment: Some(40), dropout: 0.6, ..Case::new(family, 3, 7, 3) };
        for device in [Device::cpu(), device("wgpu")] {
            assert_eq!(case.run(&device, graph), case.run(&device, graph), "{name}");
        }
    });
}

/// Heads wider than the lanes hold, and many heads of an odd width.
pub(crate) fn agrees_where_heads_are_wide_or_many(family: Family) {
    for (name, edges) in super::corner_cases() {
        let graph = Arc::new(Graph::from_edges(&edges));
        for (heads, channels, attributes) in [(1, 999, 0), (2, 1000, 0), (1, 999, 3), (16, 61, 0), (13, 17, 2)] {
            Case::new(family, heads, channels, attributes).compare(name, &graph);
        }
        // Few lanes, as of small subgroups: several quads a lane, and several blocks of a head.
        for layout in [[8, 1], [8, 2], [4, 2]] {
            for (heads, channels, attributes) in [(2, 64, 0), (1, 70, 3)] {
                let case = Case { layout: Some(layout), ..Case::new(family, heads, channels, attributes) };
                case.compare(name, &graph);
            }
        }
    }
}

/// Of three copies of one edge dropout takes the one with the least attention, `a` = 0.006: the gradients of the others'
/// scores are `a <g, l>` in exact numbers, and computed as differences of `<g, l>` and `(1 - a) <g, l>`, so that their
/// relative error is 164 times that of products of 70 channels, whose terms cancel themselves (to a 14th).
pub(crate) fn agrees_where_products_cancel(family: Family) {
    for (name, edges) in super::corner_cases() {
        let graph = Arc::new(Graph::from_edges(&edges));
        for layout in [None, Some([8, 1]), Some([8, 2]), Some([4, 2])] {
            Case { layout, dropout: 0.3, ..Case::new(family, 1, 70, 3) }.compare(name, &graph);
        }
    }
}

/// Graphs, shapes and segments drawn anew for each seed; what fails names its seed.
pub(crate) fn agrees_on_random_cases(family: Family) {
    for seed in 0..16 {
        let mut draw = SplitMix::stream(seed, 3);
        let graph = Arc::new(random_graph(&mut draw));
        let [heads, channels, attributes] = [16, 40, 6].map(|most| draw.below(most) as usize);
        let segment = [None, Some(1 + draw.below(20))][draw.below(2) as usize];
        let dropout = [0.0, 0.4][draw.below(2) as usize];
        let case = Case { segment, dropout, ..Case::new(family, 1 + heads, 1 + channels, attributes) };
        case.compare(&format!("seed {seed}"), &graph);
    }
}
