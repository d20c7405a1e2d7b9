use super::{CpuBackend, Input, Output, step_data};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{DropoutKey, Gatv2, Gatv2Backward, Gatv2Kernels, dropout_threshold},
    row_stride,
};

/// An edge: its destination, its source, and where it stands in edge order.
#[derive(Clone, Copy)]
struct Edge {
    i: usize,
    j: usize,
    k: usize,
}

/// What scores are computed from.
struct Scores<'a> {
    heads: usize,
    channels: usize,
    negative_slope: f32,
    l: Input<'a>,
    r: Input<'a>,
    att: Input<'a>,
    /// Attributes and weight.
    edge: Option<(Input<'a>, Input<'a>)>,
    /// Key, threshold and scale.
    dropout: Option<(DropoutKey, u32, f32)>,
    edge_ids: &'a [u32],
}

impl<'a> Scores<'a> {
    fn new(args: &Gatv2<'a>, kernel: &'static str) -> Result<Self, BackendError> {
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
            heads: args.heads,
            channels: args.l.cols() / args.heads,
            negative_slope: args.negative_slope,
            l: Input::new(args.l, kernel)?,
            r: Input::new(args.r, kernel)?,
            att: Input::new(args.att, kernel)?,
            edge,
            dropout,
            edge_ids: args.graph.host().edge_ids(),
        })
    }

    /// The features of a head.
    fn features(&self, head: usize) -> std::ops::Range<usize> {
        head * self.channels..(head + 1) * self.channels
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
        self.features(head).map(|f| self.att.row(0)[f] * self.leaky(self.sum(edge, f))).sum()
    }

    /// The factor of attention dropout.
    fn kept(&self, edge: Edge, head: usize) -> f32 {
        match self.dropout {
            Some((key, threshold, scale)) => {
                if key.hash(self.edge_ids[edge.k], head as u32) >= threshold {
                    scale
                } else {
                    0.0
                }
            }
            None => 1.0,
        }
    }
}

/// What gradients are computed from, besides.
struct Backward<'a> {
    scores: Scores<'a>,
    h: Input<'a>,
    logsumexp: Input<'a>,
    g: Input<'a>,
}

impl Backward<'_> {
    /// `a_k m_k` and the gradient of the score.
    fn of_score(&self, edge: Edge, head: usize) -> (f32, f32) {
        let features = self.scores.features(head);
        let g = &self.g.row(edge.i)[features.clone()];
        let attention = (self.scores.score(edge, head) - self.logsumexp.row(edge.i)[head]).exp();
        let kept = self.scores.kept(edge, head);
        let delta = dot(g, &self.h.row(edge.i)[features.clone()]);
        (attention * kept, attention * (kept * dot(g, &self.scores.l.row(edge.j)[features]) - delta))
    }

    /// Calls `f(feature, gradient of the sum under leaky)` for every feature of an edge.
    fn for_each_feature(&self, edge: Edge, mut f: impl FnMut(usize, f32)) {
        for head in 0..self.scores.heads {
            let (_, grad) = self.of_score(edge, head);
            for feature in self.scores.features(head) {
                f(feature, grad * self.scores.att.row(0)[feature] * self.scores.slope(self.scores.sum(edge, feature)));
            }
        }
    }
}

impl Gatv2Kernels for CpuBackend {
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "gatv2";
        let scores = Scores::new(args, KERNEL)?;
        let (offsets, columns) = (args.graph.offsets(Direction::Forward), args.graph.columns(Direction::Forward));
        let edges_of = |i: usize| {
            (offsets[i] as usize..offsets[i + 1] as usize).map(move |k| Edge { i, j: columns[k] as usize, k })
        };
        let work = columns.len() * args.l.cols();
        Output::new(logsumexp, KERNEL)?.for_each_row(work, |i, out| {
            for (head, out) in out.iter_mut().enumerate() {
                let largest = edges_of(i).map(|e| scores.score(e, head)).fold(f32::NEG_INFINITY, f32::max);
                let sum: f32 = edges_of(i).map(|e| (scores.score(e, head) - largest).exp()).sum();
                *out = if offsets[i] == offsets[i + 1] { 0.0 } else { largest + sum.ln() };
            }
        });
        let logsumexp = Input::new(logsumexp, KERNEL)?;
        Output::new(h, KERNEL)?.for_each_row(work, |i, out| {
            out.fill(0.0);
            for head in 0..args.heads {
                let features = scores.features(head);
                let out = &mut out[features.clone()];
                // Large logarithms are rounded: dividing by the sum makes up for it.
                let mut total = 0.0;
                for edge in edges_of(i) {
                    let attention = (scores.score(edge, head) - logsumexp.row(i)[head]).exp();
                    total += attention;
                    let attention = attention * scores.kept(edge, head);
                    let l = &scores.l.row(edge.j)[features.clone()];
                    out.iter_mut().zip(l).for_each(|(o, l)| *o += attention * l);
                }
                if total > 0.0 {
                    out.iter_mut().for_each(|o| *o /= total);
                }
            }
        });
        Ok(())
    }

    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gatv2_grad";
        let forward = args.forward;
        let back = Backward {
            scores: Scores::new(forward, KERNEL)?,
            h: Input::new(args.h, KERNEL)?,
            logsumexp: Input::new(args.logsumexp, KERNEL)?,
            g: Input::new(args.g, KERNEL)?,
        };
        let (offsets, columns) = (forward.graph.offsets(Direction::Forward), forward.graph.columns(Direction::Forward));
        let edges_of = |i: usize| {
            (offsets[i] as usize..offsets[i + 1] as usize).map(move |k| Edge { i, j: columns[k] as usize, k })
        };
        let work = columns.len() * forward.l.cols();
        Output::new(args.grad_r, KERNEL)?.for_each_row(work, |i, out| {
            out.fill(0.0);
            edges_of(i).for_each(|edge| back.for_each_feature(edge, |f, t| out[f] += t));
        });
        Output::new(args.grad_att, KERNEL)?.for_each_row(work, |i, out| {
            out.fill(0.0);
            for edge in edges_of(i) {
                for head in 0..forward.heads {
                    let (_, grad) = back.of_score(edge, head);
                    for f in back.scores.features(head) {
                        out[f] += grad * back.scores.leaky(back.scores.sum(edge, f));
                    }
                }
            }
        });
        let transpose = forward.graph.host().transpose();
        Output::new(args.grad_l, KERNEL)?.for_each_row(work, |j, out| {
            out.fill(0.0);
            for at in transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize {
                let edge = Edge { i: transpose.columns[at] as usize, j, k: transpose.positions[at] as usize };
                for head in 0..forward.heads {
                    let (attention, _) = back.of_score(edge, head);
                    for f in back.scores.features(head) {
                        out[f] += attention * back.g.row(edge.i)[f];
                    }
                }
                back.for_each_feature(edge, |f, t| out[f] += t);
            }
        });
        let Some((attr, weight)) = &back.scores.edge else { return Ok(()) };
        let edge_at =
            |k: usize| Edge { i: offsets.partition_point(|&o| o as usize <= k) - 1, j: columns[k] as usize, k };
        if let Some(grad_attr) = args.grad_attr {
            Output::new(grad_attr, KERNEL)?.for_each_row(work, |k, out| {
                out.fill(0.0);
                back.for_each_feature(edge_at(k), |f, t| {
                    out.iter_mut().zip(weight.row(f)).for_each(|(o, w)| *o += t * w);
                });
            });
        }
        if let Some(grad_weight) = args.grad_weight {
            let (range, stride) = (forward.plan.range as usize, row_stride(attr.cols));
            Output::new(grad_weight, KERNEL)?.for_each_row(work, |r, out| {
                out.fill(0.0);
                for k in r * range..((r + 1) * range).min(columns.len()) {
                    back.for_each_feature(edge_at(k), |f, t| {
                        out[f * stride..].iter_mut().zip(attr.row(k)).for_each(|(o, e)| *o += t * e);
                    });
                }
            });
        }
        Ok(())
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
