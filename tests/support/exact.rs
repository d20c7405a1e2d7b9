//! Attention of GAT, GATv2 and graph transformers in 64 bits, with bounds on what rounding may do to it in 32.

use hopwise::{
    Matrix,
    backend::kernels::{StepData, dropout_keeps},
    graph::Graph,
};

use super::rounding::{Exact, Rows, Sum, over_channels, over_edges};

/// What attention is computed of. Scores of a head are `sum over its score channels c of att_c leaky(l_jc + r_ic + (W
/// e)_c)`; GAT has one score channel a head, and GATv2 sums up what it takes scores of.
pub(crate) struct Attention<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) heads: usize,
    pub(crate) slope: f32,
    pub(crate) l: &'a Matrix,
    pub(crate) r: &'a Matrix,
    pub(crate) att: Option<&'a Matrix>,
    pub(crate) values: &'a Matrix,
    /// Attributes, and the weight of a row a score channel.
    pub(crate) edge: Option<[&'a Matrix; 2]>,
    /// The first dropout of a step, and its share.
    pub(crate) dropout: Option<(StepData, f32)>,
    pub(crate) upstream: &'a Matrix,
}

/// The output and the gradients.
pub(crate) struct Results {
    pub(crate) output: Rows,
    pub(crate) l: Rows,
    pub(crate) r: Rows,
    pub(crate) att: Rows,
    pub(crate) values: Rows,
    pub(crate) attr: Rows,
    pub(crate) weight: Rows,
}

/// Of one edge and head.
struct Scored {
    k: usize,
    /// Under leaky, one a score channel.
    sums: Vec<Exact>,
    score: Exact,
    /// Dropout's factor.
    kept: Exact,
}

/// The softmax over the edges of a row.
struct Softmax {
    exponentials: Vec<Exact>,
    total: Exact,
    logarithm: Exact,
    shares: Vec<Exact>,
}

impl Softmax {
    fn of(scores: impl Iterator<Item = Exact> + Clone) -> Self {
        let largest = scores.clone().map(|score| score.value).fold(f64::NEG_INFINITY, f64::max);
        let largest = Exact { value: largest, units: 0.0 };
        let exponentials: Vec<Exact> = scores.map(|score| (score - largest).exp()).collect();
        let total = over_edges(exponentials.iter().copied());
        // Of gradients, a = exp(score - logarithm of the sum), whose logarithm is rounded as large as it is.
        let logarithm = largest.value + total.value.ln();
        let logarithm = Exact::rounded(logarithm, total.units / total.value + 8.0 * (1.0 + logarithm.abs()));
        let inverse = Exact { value: 1.0 / total.value, units: (total.units / total.value + 2.0) / total.value };
        let shares = exponentials.iter().map(|&e| e * inverse).collect();
        Self { exponentials, total, logarithm, shares }
    }

    /// What is rounded in one channel of the output does not depend on the others; what shares are off by is the same in
    /// all channels: without that.
    fn rounded_shares(&self) -> Vec<Exact> {
        self.shares.iter().map(|a| Exact { units: 0.0, ..*a }).collect()
    }

    /// `<g, h>`, computed of [`Softmax::rounded_shares`], with what shares are off by, which moves it as its derivative
    /// says: shares add up to 1. `along` is `m <g, v>` of each edge.
    fn moved(&self, mut delta: Exact, along: impl Iterator<Item = Exact>) -> Exact {
        let of_exponentials: f64 = self.exponentials.iter().map(|e| e.units).sum();
        delta.units += delta.value.abs() * (2.0 + (self.total.units - of_exponentials) / self.total.value);
        delta.units += along.zip(&self.exponentials).fold(0.0, |units, (along, exponential)| {
            units + exponential.units / self.total.value * (along.value - delta.value).abs()
        });
        delta
    }

    /// A share as gradients compute it.
    fn share_again(&self, score: Exact) -> Exact {
        (score - self.logarithm).exp()
    }
}

/// What dropout multiplies an edge and head with.
fn kept(dropout: Option<&(StepData, f32)>, graph: &Graph, k: usize, head: usize) -> Exact {
    match dropout {
        Some((state, p)) if dropout_keeps(state, 0, *p, graph.edge_ids()[k], head as u32) => Exact::of(1.0 / (1.0 - p)),
        Some(_) => Exact::default(),
        None => Exact::of(1.0),
    }
}

impl Attention<'_> {
    pub(crate) fn results(&self) -> Results {
        let [num_src, num_dst] = [self.graph.num_src(), self.graph.num_dst()].map(|n| n as usize);
        let (score_width, width) = (self.l.cols(), self.values.cols());
        let (score_channels, channels) = (score_width / self.heads, width / self.heads);
        let attributes = self.edge.map_or(0, |[attr, _]| attr.cols());
        let room = |rows: usize, cols: usize| vec![vec![Sum::default(); cols]; rows];
        let mut output = vec![vec![Exact::default(); width]; num_dst];
        let mut grad_l = room(num_src, score_width);
        let mut grad_r = room(num_dst, score_width);
        let mut grad_att = room(num_dst, score_width);
        let mut grad_values = room(num_src, width);
        let mut grad_attr = room(self.graph.num_edges() as usize, attributes);
        let mut grad_weight = room(score_width, attributes);
        let slope = f64::from(self.slope);
        for i in 0..num_dst {
            for head in 0..self.heads {
                let score_range = head * score_channels..(head + 1) * score_channels;
                let features = head * channels..(head + 1) * channels;
                let row = self.graph.offsets()[i] as usize..self.graph.offsets()[i + 1] as usize;
                let edges: Vec<Scored> = row.map(|k| self.score(i, k, head, score_range.clone())).collect();
                let softmax = Softmax::of(edges.iter().map(|e| e.score));
                let value = |j: usize, c: usize| Exact::of(self.values.row(j)[c]);
                let source = |e: &Scored| self.graph.columns()[e.k] as usize;
                let summed = |shares: &[Exact], c: usize| {
                    over_edges(edges.iter().zip(shares).map(|(e, &a)| a * e.kept * value(source(e), c)))
                };
                features.clone().for_each(|c| output[i][c] = summed(&softmax.shares, c));
                let g = |c: usize| Exact::of(self.upstream.row(i)[c]);
                let along = |e: &Scored| over_channels(features.clone().map(|c| g(c) * value(source(e), c)));
                let rounded = softmax.rounded_shares();
                let delta = over_channels(features.clone().map(|c| g(c) * summed(&rounded, c)));
                let delta = softmax.moved(delta, edges.iter().map(|e| e.kept * along(e)));
                for edge in &edges {
                    let j = source(edge);
                    let a = softmax.share_again(edge.score);
                    let by_score = a * (edge.kept * along(edge) - delta);
                    let passed = a * edge.kept;
                    features.clone().for_each(|c| grad_values[j][c].add(passed * g(c)));
                    for (c, &u) in score_range.clone().zip(&edge.sums) {
                        let t = by_score * self.att(c) * u.leaky_slope(slope);
                        grad_l[j][c].add(t);
                        grad_r[i][c].add(t);
                        grad_att[i][c].add(by_score * u.leaky(slope));
                        if let Some([attr, weight]) = self.edge {
                            for d in 0..attributes {
                                grad_attr[edge.k][d].add(t * Exact::of(weight.row(c)[d]));
                                grad_weight[c][d].add(t * Exact::of(attr.row(edge.k)[d]));
                            }
                        }
                    }
                }
            }
        }
        let totals =
            |rows: Vec<Vec<Sum>>| rows.into_iter().map(|row| row.into_iter().map(Sum::total).collect()).collect();
        let by_row: Rows = totals(grad_att);
        let att = vec![(0..score_width).map(|c| over_edges(by_row.iter().map(|row| row[c]))).collect()];
        Results {
            output,
            l: totals(grad_l),
            r: totals(grad_r),
            att,
            values: totals(grad_values),
            attr: totals(grad_attr),
            weight: totals(grad_weight),
        }
    }

    fn att(&self, c: usize) -> Exact {
        self.att.map_or(Exact::of(1.0), |att| Exact::of(att.row(0)[c]))
    }

    fn score(&self, i: usize, k: usize, head: usize, channels: std::ops::Range<usize>) -> Scored {
        let j = self.graph.columns()[k] as usize;
        let of_edge = |c: usize| match self.edge {
            Some([attr, weight]) => {
                over_channels(attr.row(k).iter().zip(weight.row(c)).map(|(&e, &w)| Exact::of(e) * Exact::of(w)))
            }
            None => Exact::default(),
        };
        let sums: Vec<Exact> =
            channels.clone().map(|c| Exact::of(self.l.row(j)[c]) + Exact::of(self.r.row(i)[c]) + of_edge(c)).collect();
        let terms = channels.zip(&sums).map(|(c, &u)| self.att(c) * u.leaky(self.slope.into()));
        // In units of log 2 or not: a multiplication more.
        let score = over_channels(terms) * Exact::of(1.0);
        let kept = kept(self.dropout.as_ref(), self.graph, k, head);
        Scored { k, sums, score, kept }
    }
}

/// The sums of both, entry by entry.
pub(crate) fn added(a: Rows, b: &Rows) -> Rows {
    a.into_iter().zip(b).map(|(a, b)| a.into_iter().zip(b).map(|(a, b)| a + *b).collect()).collect()
}

/// What attention of a graph transformer is computed of, with attributes `e` whose projection `W e` is added to keys and
/// values: by way of `W^T q` and `W^T g`, as kernels have it.
pub(crate) struct Transformer<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) heads: usize,
    pub(crate) q: &'a Matrix,
    pub(crate) k: &'a Matrix,
    pub(crate) v: &'a Matrix,
    /// Attributes, and the weight of a row a channel.
    pub(crate) edge: Option<[&'a Matrix; 2]>,
    /// The first dropout of a step, and its share.
    pub(crate) dropout: Option<(StepData, f32)>,
    pub(crate) upstream: &'a Matrix,
}

impl Transformer<'_> {
    /// The output and the gradients of queries, keys, values and, where there are some, attributes and their weight.
    pub(crate) fn results(&self) -> Vec<Rows> {
        let [num_src, num_dst] = [self.graph.num_src(), self.graph.num_dst()].map(|n| n as usize);
        let (width, attributes) = (self.q.cols(), self.edge.map_or(0, |[attr, _]| attr.cols()));
        let channels = width / self.heads;
        let factor = Exact::rounded(1.0 / (channels as f64).sqrt(), 0.0);
        let room = |rows: usize, cols: usize| vec![vec![Sum::default(); cols]; rows];
        let mut output = vec![vec![Exact::default(); width]; num_dst];
        let mut grad_q = output.clone();
        let (mut grad_k, mut grad_v) = (room(num_src, width), room(num_src, width));
        let (mut grad_attr, mut grad_weight) =
            (room(self.graph.num_edges() as usize, attributes), room(width, attributes));
        let attr = |k: usize, d: usize| self.edge.map_or(Exact::default(), |[attr, _]| Exact::of(attr.row(k)[d]));
        let weight = |c: usize, d: usize| self.edge.map_or(Exact::default(), |[_, weight]| Exact::of(weight.row(c)[d]));
        for i in 0..num_dst {
            for head in 0..self.heads {
                let features = head * channels..(head + 1) * channels;
                let row = self.graph.offsets()[i] as usize..self.graph.offsets()[i + 1] as usize;
                let source = |k: usize| self.graph.columns()[k] as usize;
                let [q, g] = [self.q, self.upstream].map(|m| move |c: usize| Exact::of(m.row(i)[c]));
                let folded = |x: &dyn Fn(usize) -> Exact| -> Vec<Exact> {
                    (0..attributes).map(|d| over_channels(features.clone().map(|c| x(c) * weight(c, d)))).collect()
                };
                let (q_folded, g_folded) = (folded(&q), folded(&g));
                let product = |x: &dyn Fn(usize) -> Exact, x_folded: &[Exact], of: &Matrix, k: usize| {
                    let of_channels = features.clone().map(|c| x(c) * Exact::of(of.row(source(k))[c]));
                    let of_attributes = x_folded.iter().enumerate().map(|(d, &x)| x * attr(k, d));
                    over_channels(of_channels.chain(of_attributes))
                };
                // In units of log 2 or not: a multiplication more.
                let score = |k: usize| product(&q, &q_folded, self.k, k) * factor * Exact::of(1.0);
                let kept = |k: usize| kept(self.dropout.as_ref(), self.graph, k, head);
                let along = |k: usize| product(&g, &g_folded, self.v, k);
                let softmax = Softmax::of(row.clone().map(score));
                let summed = |weights: &[Exact], of: &dyn Fn(usize) -> Exact| {
                    over_edges(row.clone().zip(weights).map(|(k, &a)| a * of(k)))
                };
                let passed =
                    |shares: &[Exact]| -> Vec<Exact> { row.clone().zip(shares).map(|(k, &a)| a * kept(k)).collect() };
                let of_value = |c: usize| move |k: usize| Exact::of(self.v.row(source(k))[c]);
                let of_attr = |d: usize| move |k: usize| attr(k, d);
                let weights = passed(&softmax.shares);
                let sums: Vec<Exact> = (0..attributes).map(|d| summed(&weights, &of_attr(d))).collect();
                for c in features.clone() {
                    let projected = over_channels(sums.iter().enumerate().map(|(d, &sum)| sum * weight(c, d)));
                    output[i][c] = summed(&weights, &of_value(c)) + projected;
                }
                let rounded = passed(&softmax.rounded_shares());
                let of_channels = features.clone().map(|c| g(c) * summed(&rounded, &of_value(c)));
                let of_attributes = g_folded.iter().enumerate().map(|(d, &g)| g * summed(&rounded, &of_attr(d)));
                let delta = over_channels(of_channels.chain(of_attributes));
                let delta = softmax.moved(delta, row.clone().map(|k| kept(k) * along(k)));
                let again: Vec<Exact> = row.clone().map(|k| softmax.share_again(score(k))).collect();
                let by_score: Vec<Exact> =
                    row.clone().zip(&again).map(|(k, &a)| a * (kept(k) * along(k) - delta) * factor).collect();
                let by_value = passed(&again);
                let by_attr: Vec<Exact> = (0..attributes).map(|d| summed(&by_score, &of_attr(d))).collect();
                for c in features.clone() {
                    let projected = over_channels(by_attr.iter().enumerate().map(|(d, &sum)| sum * weight(c, d)));
                    grad_q[i][c] = summed(&by_score, &|k| Exact::of(self.k.row(source(k))[c])) + projected;
                    for d in 0..attributes {
                        grad_weight[c][d].add(q(c) * by_attr[d]);
                        grad_weight[c][d].add(g(c) * sums[d]);
                    }
                }
                for ((k, &d), &passed) in row.clone().zip(&by_score).zip(&by_value) {
                    for c in features.clone() {
                        grad_k[source(k)][c].add(d * q(c));
                        grad_v[source(k)][c].add(passed * g(c));
                    }
                    for (n, (&q, &g)) in q_folded.iter().zip(&g_folded).enumerate() {
                        grad_attr[k][n].add(d * q);
                        grad_attr[k][n].add(passed * g);
                    }
                }
            }
        }
        let totals = |rows: Vec<Vec<Sum>>| -> Rows {
            rows.into_iter().map(|row| row.into_iter().map(Sum::total).collect()).collect()
        };
        let mut results = vec![output, grad_q, totals(grad_k), totals(grad_v)];
        if attributes > 0 {
            results.extend([totals(grad_attr), totals(grad_weight)]);
        }
        results
    }
}
