//! Attention of GAT and GATv2 in 64 bits, with bounds on what rounding may do to it in 32.

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
                let largest = edges.iter().map(|e| e.score.value).fold(f64::NEG_INFINITY, f64::max);
                let largest = Exact { value: largest, units: 0.0 };
                let exponentials: Vec<Exact> = edges.iter().map(|e| (e.score - largest).exp()).collect();
                let total = over_edges(exponentials.iter().copied());
                // Of gradients, a = exp(score - logarithm of the sum), whose logarithm is rounded as large as it is.
                let logarithm = largest.value + total.value.ln();
                let logarithm = Exact::rounded(logarithm, total.units / total.value + 8.0 * (1.0 + logarithm.abs()));
                let inverse =
                    Exact { value: 1.0 / total.value, units: (total.units / total.value + 2.0) / total.value };
                let shares: Vec<Exact> = exponentials.iter().map(|&e| e * inverse).collect();
                let value = |j: usize, c: usize| Exact::of(self.values.row(j)[c]);
                let source = |e: &Scored| self.graph.columns()[e.k] as usize;
                let summed = |shares: &[Exact], c: usize| {
                    over_edges(edges.iter().zip(shares).map(|(e, &a)| a * e.kept * value(source(e), c)))
                };
                features.clone().for_each(|c| output[i][c] = summed(&shares, c));
                let g = |c: usize| Exact::of(self.upstream.row(i)[c]);
                let along = |e: &Scored| over_channels(features.clone().map(|c| g(c) * value(source(e), c)));
                // What is rounded in one channel of the output does not depend on the others; what shares are off by is
                // the same in all channels, and moves <g, h> as its derivative says: shares add up to 1.
                let rounded: Vec<Exact> = shares.iter().map(|a| Exact { units: 0.0, ..*a }).collect();
                let mut delta = over_channels(features.clone().map(|c| g(c) * summed(&rounded, c)));
                let of_exponentials: f64 = exponentials.iter().map(|e| e.units).sum();
                delta.units += delta.value.abs() * (2.0 + (total.units - of_exponentials) / total.value);
                delta.units += edges.iter().zip(&exponentials).fold(0.0, |units, (e, exponential)| {
                    let difference = (e.kept * along(e)).value - delta.value;
                    units + exponential.units / total.value * difference.abs()
                });
                for edge in &edges {
                    let j = source(edge);
                    let a = (edge.score - logarithm).exp();
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
        let kept = match &self.dropout {
            Some((state, p)) if dropout_keeps(state, 0, *p, self.graph.edge_ids()[k], head as u32) => {
                Exact::of(1.0 / (1.0 - p))
            }
            Some(_) => Exact::default(),
            None => Exact::of(1.0),
        };
        Scored { k, sums, score, kept }
    }
}

/// The sums of both, entry by entry.
pub(crate) fn added(a: Rows, b: &Rows) -> Rows {
    a.into_iter().zip(b).map(|(a, b)| a.into_iter().zip(b).map(|(a, b)| a + *b).collect()).collect()
}
