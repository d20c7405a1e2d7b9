//! Softmax attention over the edges into a node, which GAT and GATv2 share: scores are sums over one or more channels a
//! head, and what is summed may be something else than what scores are computed of.

use std::ops::Range;

use super::{Input, Output, step_data};
use crate::{
    backend::{
        BackendError, Tensor,
        kernels::{DropoutKey, DropoutMask, EdgeTerm, dropout_threshold},
        row_stride,
    },
    graph::Graph,
};

/// The arguments that both families have.
pub(super) struct Arguments<'a> {
    pub(super) graph: &'a Graph,
    pub(super) heads: usize,
    pub(super) negative_slope: f32,
    /// What scores take from sources, `[num_src, heads * score channels]`.
    pub(super) l: &'a Tensor,
    /// What scores take from destinations.
    pub(super) r: &'a Tensor,
    /// The weight of each score channel, 1 if left out.
    pub(super) att: Option<&'a Tensor>,
    /// What is summed, `[num_src, features]`.
    pub(super) values: &'a Tensor,
    pub(super) edge: Option<EdgeTerm<'a>>,
    pub(super) dropout: Option<DropoutMask<'a>>,
}

/// An edge: its destination, its source, and where it stands in edge order.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    i: usize,
    j: usize,
    k: usize,
}

/// What scores are computed of, and what is summed.
pub(super) struct Scores<'a> {
    graph: &'a Graph,
    heads: usize,
    negative_slope: f32,
    l: Input<'a>,
    r: Input<'a>,
    att: Option<Input<'a>>,
    values: Input<'a>,
    /// Attributes and weight.
    edge: Option<(Input<'a>, Input<'a>)>,
    /// Key, threshold and scale.
    dropout: Option<(DropoutKey, u32, f32)>,
}

impl<'a> Scores<'a> {
    pub(super) fn new(args: &Arguments<'a>, kernel: &'static str) -> Result<Self, BackendError> {
        let edge = match &args.edge {
            Some(edge) => Some((Input::new(edge.attr, kernel)?, Input::new(edge.weight, kernel)?)),
            None => None,
        };
        let dropout = match &args.dropout {
            Some(mask) => Some((
                DropoutKey::new(&step_data(mask.state, kernel)?, mask.layer),
                dropout_threshold(mask.p),
                1.0 / (1.0 - mask.p),
            )),
            None => None,
        };
        Ok(Self {
            graph: args.graph,
            heads: args.heads,
            negative_slope: args.negative_slope,
            l: Input::new(args.l, kernel)?,
            r: Input::new(args.r, kernel)?,
            att: Input::maybe(args.att, kernel)?,
            values: Input::new(args.values, kernel)?,
            edge,
            dropout,
        })
    }

    /// The score channels of a head.
    fn score_channels(&self, head: usize) -> Range<usize> {
        let channels = self.l.cols / self.heads;
        head * channels..(head + 1) * channels
    }

    /// The features of a head.
    fn features(&self, head: usize) -> Range<usize> {
        let channels = self.values.cols / self.heads;
        head * channels..(head + 1) * channels
    }

    fn edges_into(&self, i: usize) -> impl Iterator<Item = Edge> + '_ {
        let row = self.graph.offsets()[i] as usize..self.graph.offsets()[i + 1] as usize;
        row.map(move |k| Edge { i, j: self.graph.columns()[k] as usize, k })
    }

    fn edges_out_of(&self, j: usize) -> impl Iterator<Item = Edge> + '_ {
        let transpose = self.graph.transpose();
        let row = transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize;
        row.map(move |at| Edge { i: transpose.columns[at] as usize, j, k: transpose.positions[at] as usize })
    }

    fn edge_at(&self, k: usize) -> Edge {
        let i = self.graph.offsets().partition_point(|&o| o as usize <= k) - 1;
        Edge { i, j: self.graph.columns()[k] as usize, k }
    }

    fn att(&self, feature: usize) -> f32 {
        self.att.as_ref().map_or(1.0, |att| att.row(0)[feature])
    }

    /// Operations of one pass over the edges.
    fn work(&self) -> usize {
        self.graph.columns().len() * (self.l.cols + self.values.cols)
    }

    /// `l_jc + r_ic + (W e_k)_c`.
    fn sum(&self, edge: Edge, feature: usize) -> f32 {
        let nodes = self.l.row(edge.j)[feature] + self.r.row(edge.i)[feature];
        self.edge.as_ref().map_or(nodes, |(attr, weight)| nodes + dot(attr.row(edge.k), weight.row(feature)))
    }

    fn leaky(&self, x: f32) -> f32 {
        x * self.slope(x)
    }

    fn slope(&self, x: f32) -> f32 {
        if x > 0.0 { 1.0 } else { self.negative_slope }
    }

    fn score(&self, edge: Edge, head: usize) -> f32 {
        self.score_channels(head).map(|f| self.att(f) * self.leaky(self.sum(edge, f))).sum()
    }

    /// The factor of attention dropout.
    fn kept(&self, edge: Edge, head: usize) -> f32 {
        match self.dropout {
            Some((key, threshold, scale)) => {
                if key.hash(self.graph.edge_ids()[edge.k], head as u32) >= threshold {
                    scale
                } else {
                    0.0
                }
            }
            None => 1.0,
        }
    }
}

/// What gradients are computed of.
pub(super) struct Backward<'a> {
    pub(super) scores: Scores<'a>,
    pub(super) h: Input<'a>,
    pub(super) logsumexp: Input<'a>,
    pub(super) g: Input<'a>,
}

impl Backward<'_> {
    /// `a_k m_k` and the gradient of the score.
    fn of_score(&self, edge: Edge, head: usize) -> (f32, f32) {
        let features = self.scores.features(head);
        let g = &self.g.row(edge.i)[features.clone()];
        let attention = (self.scores.score(edge, head) - self.logsumexp.row(edge.i)[head]).exp();
        let kept = self.scores.kept(edge, head);
        let delta = dot(g, &self.h.row(edge.i)[features.clone()]);
        (attention * kept, attention * (kept * dot(g, &self.scores.values.row(edge.j)[features]) - delta))
    }

    /// Calls `f(score channel, gradient of the sum under leaky)` for every channel of an edge.
    fn for_each_channel(&self, edge: Edge, mut f: impl FnMut(usize, f32)) {
        for head in 0..self.scores.heads {
            let (_, grad) = self.of_score(edge, head);
            for channel in self.scores.score_channels(head) {
                let slope = self.scores.slope(self.scores.sum(edge, channel));
                f(channel, grad * self.scores.att(channel) * slope);
            }
        }
    }

    /// Towards what scores take from destinations.
    pub(super) fn by_destination(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        Output::new(out, kernel)?.for_each_row(self.scores.work(), |i, out| {
            out.fill(0.0);
            self.scores.edges_into(i).for_each(|edge| self.for_each_channel(edge, |c, t| out[c] += t));
        });
        Ok(())
    }

    /// Towards the weights of score channels, the part of each destination.
    pub(super) fn att(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        let scores = &self.scores;
        Output::new(out, kernel)?.for_each_row(scores.work(), |i, out| {
            out.fill(0.0);
            for edge in scores.edges_into(i) {
                for head in 0..scores.heads {
                    let (_, grad) = self.of_score(edge, head);
                    scores.score_channels(head).for_each(|c| out[c] += grad * scores.leaky(scores.sum(edge, c)));
                }
            }
        });
        Ok(())
    }

    /// Towards what scores take from sources.
    pub(super) fn by_source(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        Output::new(out, kernel)?.for_each_row(self.scores.work(), |_, out| out.fill(0.0));
        self.add_by_source(out, kernel)
    }

    /// The same, added to what `out` holds.
    pub(super) fn add_by_source(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        Output::new(out, kernel)?.for_each_row(self.scores.work(), |j, out| {
            self.scores.edges_out_of(j).for_each(|edge| self.for_each_channel(edge, |c, t| out[c] += t));
        });
        Ok(())
    }

    /// Towards what is summed.
    pub(super) fn values(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        Output::new(out, kernel)?.for_each_row(self.scores.work(), |j, out| {
            out.fill(0.0);
            for edge in self.scores.edges_out_of(j) {
                for head in 0..self.scores.heads {
                    let (attention, _) = self.of_score(edge, head);
                    self.scores.features(head).for_each(|f| out[f] += attention * self.g.row(edge.i)[f]);
                }
            }
        });
        Ok(())
    }

    /// Towards edge attributes, and towards their weight by ranges of `range` edges.
    pub(super) fn edges(
        &self,
        attr_out: Option<&Tensor>,
        weight_out: Option<&Tensor>,
        range: u32,
        kernel: &'static str,
    ) -> Result<(), BackendError> {
        let Some((attr, weight)) = &self.scores.edge else { return Ok(()) };
        if let Some(out) = attr_out {
            Output::new(out, kernel)?.for_each_row(self.scores.work(), |k, out| {
                out.fill(0.0);
                self.for_each_channel(self.scores.edge_at(k), |c, t| {
                    out.iter_mut().zip(weight.row(c)).for_each(|(o, w)| *o += t * w);
                });
            });
        }
        if let Some(out) = weight_out {
            let (range, edges) = (range as usize, self.scores.graph.columns().len());
            let stride = row_stride(attr.cols);
            Output::new(out, kernel)?.for_each_row(self.scores.work(), |r, out| {
                out.fill(0.0);
                for k in r * range..((r + 1) * range).min(edges) {
                    self.for_each_channel(self.scores.edge_at(k), |c, t| {
                        out[c * stride..].iter_mut().zip(attr.row(k)).for_each(|(o, e)| *o += t * e);
                    });
                }
            });
        }
        Ok(())
    }
}

/// The sums and the logarithms of the sums of `exp(score)`.
pub(super) fn forward(
    scores: &Scores<'_>,
    h: &Tensor,
    logsumexp: &Tensor,
    kernel: &'static str,
) -> Result<(), BackendError> {
    Output::new(logsumexp, kernel)?.for_each_row(scores.work(), |i, out| {
        for (head, out) in out.iter_mut().enumerate() {
            let largest = scores.edges_into(i).map(|e| scores.score(e, head)).fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = scores.edges_into(i).map(|e| (scores.score(e, head) - largest).exp()).sum();
            *out = if sum > 0.0 { largest + sum.ln() } else { 0.0 };
        }
    });
    let logsumexp = Input::new(logsumexp, kernel)?;
    Output::new(h, kernel)?.for_each_row(scores.work(), |i, out| {
        out.fill(0.0);
        for head in 0..scores.heads {
            let features = scores.features(head);
            let out = &mut out[features.clone()];
            // Large logarithms are rounded: dividing by the sum makes up for it.
            let mut total = 0.0;
            for edge in scores.edges_into(i) {
                let attention = (scores.score(edge, head) - logsumexp.row(i)[head]).exp();
                total += attention;
                let attention = attention * scores.kept(edge, head);
                let values = &scores.values.row(edge.j)[features.clone()];
                out.iter_mut().zip(values).for_each(|(o, v)| *o += attention * v);
            }
            if total > 0.0 {
                out.iter_mut().for_each(|o| *o /= total);
            }
        }
    });
    Ok(())
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
