use super::{
    CpuBackend, Input, Output, step_data,
    vectors::{add_scaled, dot, softmax_of_heads},
};
use crate::backend::{
    BackendError, Direction,
    kernels::{Attention, DropoutKey, TransformerBackward, TransformerForward, TransformerKernels, dropout_threshold},
};

/// The inputs, locked.
struct Heads<'a> {
    q: Input<'a>,
    k: Input<'a>,
    v: Input<'a>,
    attr: Option<Input<'a>>,
    heads: usize,
    channels: usize,
    width: usize,
    factor: f32,
    /// The user's number of each edge.
    ids: &'a [u32],
    dropout: Option<Dropout>,
}

struct Dropout {
    key: DropoutKey,
    threshold: u32,
    scale: f32,
}

/// An edge from source `j`, at position `k` of edge order.
#[derive(Clone, Copy)]
struct Edge {
    j: usize,
    k: usize,
}

impl<'a> Heads<'a> {
    fn new(args: &Attention<'a>, kernel: &'static str) -> Result<Self, BackendError> {
        let dropout = match &args.dropout {
            None => None,
            Some(mask) => Some(Dropout {
                key: DropoutKey::new(&step_data(mask.state, kernel)?, mask.layer),
                threshold: dropout_threshold(mask.p),
                scale: 1.0 / (1.0 - mask.p),
            }),
        };
        Ok(Self {
            q: Input::new(args.q, kernel)?,
            k: Input::new(args.k, kernel)?,
            v: Input::new(args.v, kernel)?,
            attr: Input::maybe(args.attr, kernel)?,
            heads: args.heads,
            channels: args.channels(),
            width: args.width(),
            factor: args.factor(),
            ids: args.graph.host().edge_ids(),
            dropout,
        })
    }

    /// A head's channels of the source, and the edge's attributes: what `C + D` numbers of a head meet.
    fn message<'s>(&'s self, of: &'s Input<'_>, edge: Edge, head: usize) -> (&'s [f32], &'s [f32]) {
        let attr = self.attr.as_ref().map_or(&[][..], |attr| attr.row(edge.k));
        (part(of.row(edge.j), head, self.channels), attr)
    }

    fn dot(&self, x: &[f32], of: &Input<'_>, edge: Edge, head: usize) -> f32 {
        let (channels, attr) = self.message(of, edge, head);
        let (x, more) = x.split_at(self.channels);
        dot(x, channels) + dot(more, attr)
    }

    /// Adds `factor` times the message.
    fn add(&self, out: &mut [f32], factor: f32, of: &Input<'_>, edge: Edge, head: usize) {
        let (channels, attr) = self.message(of, edge, head);
        let (out, more) = out.split_at_mut(self.channels);
        add_scaled(out, factor, channels);
        add_scaled(more, factor, attr);
    }

    fn score(&self, query: &[f32], edge: Edge, head: usize) -> f32 {
        self.factor * self.dot(query, &self.k, edge, head)
    }

    /// The factor that dropout puts on a weight.
    fn kept(&self, edge: Edge, head: usize) -> f32 {
        match &self.dropout {
            None => 1.0,
            Some(d) if d.key.hash(self.ids[edge.k], head as u32) >= d.threshold => d.scale,
            Some(_) => 0.0,
        }
    }

    /// Operations of a pass over the edges, for the choice of how many threads.
    fn work(&self) -> usize {
        4 * self.ids.len() * self.heads * self.width
    }
}

/// The edges into `i`.
fn edges_of(offsets: &[u32], columns: &[u32], i: usize) -> impl ExactSizeIterator<Item = Edge> {
    (offsets[i] as usize..offsets[i + 1] as usize).map(|k| Edge { j: columns[k] as usize, k })
}

/// A head's part of a row.
fn part(row: &[f32], head: usize, width: usize) -> &[f32] {
    &row[head * width..][..width]
}

impl TransformerKernels for CpuBackend {
    unsafe fn transformer(&self, args: &TransformerForward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "transformer";
        let input = Heads::new(&args.input, KERNEL)?;
        let graph = args.input.graph;
        let (offsets, columns) = (graph.offsets(Direction::Forward), graph.columns(Direction::Forward));
        let mut out = Output::new(args.out, KERNEL)?;
        let mut logsumexp = Output::new(args.logsumexp, KERNEL)?;
        out.for_each_row_with(&mut logsumexp, input.work(), |i, out, logsumexp| {
            out.fill(0.0);
            let heads = input.heads;
            // Of the row's edges, all heads of an edge side by side.
            let mut weights = Vec::new();
            for edge in edges_of(offsets, columns, i) {
                weights.extend((0..heads).map(|head| input.score(part(input.q.row(i), head, input.width), edge, head)));
            }
            softmax_of_heads(&mut weights, logsumexp);
            for (edge, weights) in edges_of(offsets, columns, i).zip(weights.chunks_exact(heads)) {
                for (head, weight) in weights.iter().enumerate() {
                    let out = &mut out[head * input.width..][..input.width];
                    input.add(out, weight * input.kept(edge, head), &input.v, edge, head);
                }
            }
        });
        Ok(())
    }

    unsafe fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "transformer_grad";
        let input = Heads::new(&args.input, KERNEL)?;
        let (heads, channels, width) = (input.heads, input.channels, input.width);
        let (g, out) = (Input::new(args.g, KERNEL)?, Input::new(args.out, KERNEL)?);
        let logsumexp = Input::new(args.logsumexp, KERNEL)?;
        let deltas: Vec<f32> = (0..args.g.rows() * heads)
            .map(|at| {
                let (i, head) = (at / heads, at % heads);
                dot(part(g.row(i), head, width), part(out.row(i), head, width))
            })
            .collect();
        // It may be where a gradient goes.
        drop(out);
        // (d, a m) of an edge into `i`.
        let weigh = |i: usize, edge: Edge, head: usize| {
            let weight = (input.score(part(input.q.row(i), head, width), edge, head) - logsumexp.row(i)[head]).exp();
            let passed = weight * input.kept(edge, head);
            let along = input.dot(part(g.row(i), head, width), &input.v, edge, head);
            (input.factor * (passed * along - weight * deltas[i * heads + head]), passed)
        };

        let graph = args.input.graph;
        let (offsets, columns) = (graph.offsets(Direction::Forward), graph.columns(Direction::Forward));
        Output::new(args.grad_q, KERNEL)?.for_each_row(input.work(), |i, grad| {
            grad.fill(0.0);
            for edge in edges_of(offsets, columns, i) {
                for head in 0..heads {
                    let (d, _) = weigh(i, edge, head);
                    let grad = &mut grad[head * width..][..width];
                    input.add(grad, d, &input.k, edge, head);
                }
            }
        });

        let transpose = graph.host().transpose();
        let mut grad_k = Output::new(args.grad_k, KERNEL)?;
        let mut grad_v = Output::new(args.grad_v, KERNEL)?;
        grad_k.for_each_row_with(&mut grad_v, input.work(), |j, grad_k, grad_v| {
            grad_k.fill(0.0);
            grad_v.fill(0.0);
            for at in transpose.offsets[j] as usize..transpose.offsets[j + 1] as usize {
                let i = transpose.columns[at] as usize;
                let edge = Edge { j, k: transpose.positions[at] as usize };
                for head in 0..heads {
                    let (d, passed) = weigh(i, edge, head);
                    let (q, g) = (part(input.q.row(i), head, width), part(g.row(i), head, width));
                    let part = head * channels..(head + 1) * channels;
                    add_scaled(&mut grad_k[part.clone()], d, q);
                    add_scaled(&mut grad_v[part], passed, g);
                }
            }
        });

        if let Some(grad_attr) = args.grad_attr {
            let rows = graph.host().rows();
            Output::new(grad_attr, KERNEL)?.for_each_row(input.work(), |k, grad| {
                grad.fill(0.0);
                let (i, edge) = (rows[k] as usize, Edge { j: columns[k] as usize, k });
                for head in 0..heads {
                    let (d, passed) = weigh(i, edge, head);
                    let (q, g) = (part(input.q.row(i), head, width), part(g.row(i), head, width));
                    add_scaled(grad, d, &q[channels..]);
                    add_scaled(grad, passed, &g[channels..]);
                }
            });
        }
        Ok(())
    }
}
