//! Softmax attention over the edges into a node, which GAT and GATv2 share: scores are sums over one or more channels a
//! head, and what is summed may be something else than what scores are computed of.

use std::ops::Range;

use super::{
    Input, Output, step_data,
    vectors::{add_scaled, dot, softmax_of_heads},
};
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
    /// The weight of each score channel.
    att: Vec<f32>,
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
            att: match args.att {
                Some(att) => Input::new(att, kernel)?.row(0).to_vec(),
                None => vec![1.0; args.l.cols()],
            },
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

    /// Operations of one pass over the edges.
    fn work(&self) -> usize {
        self.graph.columns().len() * (self.l.cols + self.values.cols)
    }

    /// `l_jc + r_ic + (W e_k)_c` for every score channel.
    fn sums(&self, edge: Edge, out: &mut [f32]) {
        let nodes = self.l.row(edge.j).iter().zip(self.r.row(edge.i));
        out.iter_mut().zip(nodes).for_each(|(o, (l, r))| *o = l + r);
        if let Some((attr, weight)) = &self.edge {
            out.iter_mut().enumerate().for_each(|(c, o)| *o += dot(attr.row(edge.k), weight.row(c)));
        }
    }

    fn leaky(&self, x: f32) -> f32 {
        x * self.slope(x)
    }

    fn slope(&self, x: f32) -> f32 {
        if x > 0.0 { 1.0 } else { self.negative_slope }
    }

    /// A head's score, given [`Scores::sums`].
    fn score(&self, sums: &[f32], head: usize) -> f32 {
        let channels = self.score_channels(head);
        sums[channels.clone()].iter().zip(&self.att[channels]).map(|(&sum, att)| att * self.leaky(sum)).sum()
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
    scores: Scores<'a>,
    logsumexp: Input<'a>,
    g: Input<'a>,
    /// `<g_i, h_i>` of each destination and head.
    deltas: Vec<f32>,
}

/// What all gradients take of one edge.
struct Weighed {
    /// The sums under leaky, one a score channel.
    sums: Vec<f32>,
    /// `a_k m_k`, one a head.
    passed: Vec<f32>,
    /// The gradient of the score, one a head.
    grads: Vec<f32>,
}

impl<'a> Backward<'a> {
    pub(super) fn new(
        scores: Scores<'a>,
        h: &Tensor,
        logsumexp: &'a Tensor,
        g: &'a Tensor,
        kernel: &'static str,
    ) -> Result<Self, BackendError> {
        let (h, logsumexp, g) = (Input::new(h, kernel)?, Input::new(logsumexp, kernel)?, Input::new(g, kernel)?);
        let rows = 0..scores.graph.num_dst() as usize;
        let delta = |i: usize, features: Range<usize>| dot(&g.row(i)[features.clone()], &h.row(i)[features]);
        let deltas = rows.flat_map(|i| (0..scores.heads).map(move |head| (i, head)));
        let deltas = deltas.map(|(i, head)| delta(i, scores.features(head))).collect();
        Ok(Self { scores, logsumexp, g, deltas })
    }

    /// Room for one edge.
    fn room(&self) -> Weighed {
        let heads = self.scores.heads;
        Weighed { sums: vec![0.0; self.scores.l.cols], passed: vec![0.0; heads], grads: vec![0.0; heads] }
    }

    fn weigh(&self, edge: Edge, out: &mut Weighed) {
        let scores = &self.scores;
        scores.sums(edge, &mut out.sums);
        let (g, values) = (self.g.row(edge.i), scores.values.row(edge.j));
        for head in 0..scores.heads {
            let features = scores.features(head);
            let along = dot(&g[features.clone()], &values[features]);
            let attention = (scores.score(&out.sums, head) - self.logsumexp.row(edge.i)[head]).exp();
            let kept = scores.kept(edge, head);
            out.passed[head] = attention * kept;
            out.grads[head] = attention * (kept * along - self.deltas[edge.i * scores.heads + head]);
        }
    }

    /// Adds the gradients of the sums under leaky.
    fn add_to_channels(&self, edge: &Weighed, out: &mut [f32]) {
        for (head, grad) in edge.grads.iter().enumerate() {
            let channels = self.scores.score_channels(head);
            let weighted = edge.sums[channels.clone()].iter().zip(&self.scores.att[channels.clone()]);
            let terms = weighted.map(|(&sum, att)| grad * att * self.scores.slope(sum));
            out[channels].iter_mut().zip(terms).for_each(|(o, t)| *o += t);
        }
    }

    /// Adds the gradients of the weights of score channels.
    fn add_to_att(&self, edge: &Weighed, out: &mut [f32]) {
        for (head, grad) in edge.grads.iter().enumerate() {
            let channels = self.scores.score_channels(head);
            let terms = edge.sums[channels.clone()].iter().map(|&sum| grad * self.scores.leaky(sum));
            out[channels].iter_mut().zip(terms).for_each(|(o, t)| *o += t);
        }
    }

    /// Adds the gradients of what is summed, of an edge into `i`.
    fn add_to_values(&self, i: usize, edge: &Weighed, out: &mut [f32]) {
        for (head, passed) in edge.passed.iter().enumerate() {
            let features = self.scores.features(head);
            add_scaled(&mut out[features.clone()], *passed, &self.g.row(i)[features]);
        }
    }

    /// Towards what scores take from destinations.
    pub(super) fn by_destination(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        Output::new(out, kernel)?.for_each_row(self.scores.work(), |i, out| {
            out.fill(0.0);
            let mut weighed = self.room();
            for edge in self.scores.edges_into(i) {
                self.weigh(edge, &mut weighed);
                self.add_to_channels(&weighed, out);
            }
        });
        Ok(())
    }

    /// The same, and towards the weights of score channels, the part of each destination.
    pub(super) fn by_destination_with_att(
        &self,
        out: &Tensor,
        att_out: &Tensor,
        kernel: &'static str,
    ) -> Result<(), BackendError> {
        let mut att_out = Output::new(att_out, kernel)?;
        Output::new(out, kernel)?.for_each_row_with(&mut att_out, self.scores.work(), |i, out, att_out| {
            out.fill(0.0);
            att_out.fill(0.0);
            let mut weighed = self.room();
            for edge in self.scores.edges_into(i) {
                self.weigh(edge, &mut weighed);
                self.add_to_channels(&weighed, out);
                self.add_to_att(&weighed, att_out);
            }
        });
        Ok(())
    }

    /// Towards what is summed, and towards what scores take from sources.
    pub(super) fn by_source(
        &self,
        values_out: &Tensor,
        out: &Tensor,
        kernel: &'static str,
    ) -> Result<(), BackendError> {
        let mut values_out = Output::new(values_out, kernel)?;
        Output::new(out, kernel)?.for_each_row_with(&mut values_out, self.scores.work(), |j, out, values_out| {
            values_out.fill(0.0);
            out.fill(0.0);
            let mut weighed = self.room();
            for edge in self.scores.edges_out_of(j) {
                self.weigh(edge, &mut weighed);
                self.add_to_values(edge.i, &weighed, values_out);
                self.add_to_channels(&weighed, out);
            }
        });
        Ok(())
    }

    /// The sum of both, where what is summed is what scores take from sources.
    pub(super) fn by_source_as_one(&self, out: &Tensor, kernel: &'static str) -> Result<(), BackendError> {
        Output::new(out, kernel)?.for_each_row(self.scores.work(), |j, out| {
            out.fill(0.0);
            let mut weighed = self.room();
            for edge in self.scores.edges_out_of(j) {
                self.weigh(edge, &mut weighed);
                self.add_to_values(edge.i, &weighed, out);
                self.add_to_channels(&weighed, out);
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
        let channels = self.scores.l.cols;
        if let Some(out) = attr_out {
            Output::new(out, kernel)?.for_each_row(self.scores.work(), |k, out| {
                out.fill(0.0);
                let (mut weighed, mut grads) = (self.room(), vec![0.0; channels]);
                self.weigh(self.scores.edge_at(k), &mut weighed);
                self.add_to_channels(&weighed, &mut grads);
                grads.iter().enumerate().for_each(|(c, t)| add_scaled(out, *t, weight.row(c)));
            });
        }
        if let Some(out) = weight_out {
            let (range, edges) = (range as usize, self.scores.graph.columns().len());
            let stride = row_stride(attr.cols);
            Output::new(out, kernel)?.for_each_row(self.scores.work(), |r, out| {
                out.fill(0.0);
                let (mut weighed, mut grads) = (self.room(), vec![0.0; channels]);
                for k in r * range..((r + 1) * range).min(edges) {
                    self.weigh(self.scores.edge_at(k), &mut weighed);
                    grads.fill(0.0);
                    self.add_to_channels(&weighed, &mut grads);
                    grads.iter().enumerate().for_each(|(c, t)| add_scaled(&mut out[c * stride..], *t, attr.row(k)));
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
    let heads = scores.heads;
    let mut h = Output::new(h, kernel)?;
    Output::new(logsumexp, kernel)?.for_each_row_with(&mut h, scores.work(), |i, logsumexp, out| {
        out.fill(0.0);
        let mut sums = vec![0.0; scores.l.cols];
        // Of the row's edges, all heads of an edge side by side.
        let mut weights = Vec::new();
        for edge in scores.edges_into(i) {
            scores.sums(edge, &mut sums);
            weights.extend((0..heads).map(|head| scores.score(&sums, head)));
        }
        softmax_of_heads(&mut weights, logsumexp);
        for (edge, weights) in scores.edges_into(i).zip(weights.chunks_exact(heads)) {
            let values = scores.values.row(edge.j);
            for (head, weight) in weights.iter().enumerate() {
                let features = scores.features(head);
                add_scaled(&mut out[features.clone()], weight * scores.kept(edge, head), &values[features]);
            }
        }
    });
    Ok(())
}
