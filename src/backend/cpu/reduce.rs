use std::ops::Range;

use super::{CpuBackend, Input, Output, threads};
use crate::{
    backend::{
        BackendError, Direction,
        kernels::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, ReduceKernels, Statistic},
        row_stride,
    },
    graph::NO_EDGE,
};

/// Features that are reduced at a time, on the stack.
const BLOCK: usize = 16;

/// What is known of a row, for a block of features.
#[derive(Clone, Copy)]
struct State {
    sum: [f32; BLOCK],
    square: [f32; BLOCK],
    minimum: Extreme,
    maximum: Extreme,
    /// Of the entries that are not 0.
    product: [f32; BLOCK],
    zeros: [f32; BLOCK],
    /// The largest exponent of a softmax, and the sums of the weights relative to it and of the weighted entries.
    peak: [f32; BLOCK],
    weight: [f32; BLOCK],
    weighted: [f32; BLOCK],
}

/// The smallest or largest entries so far and their positions in edge order.
#[derive(Clone, Copy)]
struct Extreme {
    value: [f32; BLOCK],
    edge: [u32; BLOCK],
}

impl Extreme {
    const NONE: Self = Self { value: [0.0; BLOCK], edge: [NO_EDGE; BLOCK] };

    /// Takes the entries of edge `k` that are `better`; the first edge and a NaN are better than what is none.
    fn take(&mut self, k: u32, x: &[f32], better: impl Fn(f32, f32) -> bool) {
        for ((value, edge), &x) in self.value.iter_mut().zip(&mut self.edge).zip(x) {
            if *edge == NO_EDGE || better(x, *value) || (x.is_nan() && !value.is_nan()) {
                (*value, *edge) = (x, k);
            }
        }
    }
}

impl State {
    fn of<'a>(parts: Ingredients, t: f32, edges: impl Iterator<Item = (u32, &'a [f32])> + Clone) -> Self {
        let mut state = Self {
            sum: [0.0; BLOCK],
            square: [0.0; BLOCK],
            minimum: Extreme::NONE,
            maximum: Extreme::NONE,
            product: [1.0; BLOCK],
            zeros: [0.0; BLOCK],
            peak: [f32::NEG_INFINITY; BLOCK],
            weight: [0.0; BLOCK],
            weighted: [0.0; BLOCK],
        };
        if parts.softmax {
            for (_, x) in edges.clone() {
                state.peak.iter_mut().zip(x).for_each(|(peak, x)| *peak = peak.max(t * x));
            }
        }
        for (k, x) in edges {
            if parts.sums {
                state.sum.iter_mut().zip(x).for_each(|(s, x)| *s += x);
            }
            if parts.squares {
                state.square.iter_mut().zip(x).for_each(|(s, x)| *s += x * x);
            }
            if parts.minimum {
                state.minimum.take(k, x, |new, old| new < old);
            }
            if parts.maximum {
                state.maximum.take(k, x, |new, old| new > old);
            }
            if parts.product {
                for ((product, zeros), &x) in state.product.iter_mut().zip(&mut state.zeros).zip(x) {
                    if x == 0.0 {
                        *zeros += 1.0;
                    } else {
                        *product *= x;
                    }
                }
            }
            if parts.softmax {
                for (c, &x) in x.iter().enumerate() {
                    let weight = (t * x - state.peak[c]).exp();
                    state.weight[c] += weight;
                    state.weighted[c] += weight * x;
                }
            }
        }
        state
    }

    fn statistic(&self, statistic: Statistic, degree: f32, c: usize) -> f32 {
        let mean = self.sum[c] / degree;
        let variance = self.square[c] / degree - mean * mean;
        match statistic {
            Statistic::Sum => self.sum[c],
            Statistic::Mean => mean,
            Statistic::Min => self.minimum.value[c],
            Statistic::Max => self.maximum.value[c],
            Statistic::Var => variance,
            Statistic::Std if variance <= Statistic::SMALLEST_VARIANCE => 0.0,
            Statistic::Std => variance.sqrt(),
            Statistic::Product if self.zeros[c] > 0.0 => 0.0,
            Statistic::Product => self.product[c],
            Statistic::Softmax if self.weight[c] == 0.0 => 0.0,
            Statistic::Softmax => self.weighted[c] / self.weight[c],
        }
    }
}

fn blocks(features: usize) -> impl Iterator<Item = Range<usize>> {
    (0..features).step_by(BLOCK).map(move |first| first..(first + BLOCK).min(features))
}

/// Where each statistic of a set starts in a row of the output.
fn columns_of(statistics: &[Statistic], features: usize) -> impl Iterator<Item = (Statistic, usize)> {
    statistics.iter().enumerate().map(move |(a, &statistic)| (statistic, a * features))
}

impl ReduceKernels for CpuBackend {
    unsafe fn reduce(&self, args: &Reduce<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "reduce";
        let x = Input::new(args.x, KERNEL)?;
        let mut out = Output::new(args.out, KERNEL)?;
        let t = args.temperature.map(|t| Input::new(t, KERNEL)).transpose()?.map_or(1.0, |t| t.at(0));
        let mut kept = args.kept.map(|kept| Output::new(kept, KERNEL)).transpose()?;
        let (offsets, columns) = (args.graph.offsets(Direction::Forward), args.graph.columns(Direction::Forward));
        let (features, parts) = (args.x.cols(), Ingredients::of(args.statistics));
        let work = columns.len() * features;
        let out_stride = out.stride;
        let kept_stride = kept.as_ref().map_or(0, |kept| kept.stride);
        let kept = kept.as_mut().map_or([].as_mut_slice(), |kept| kept.all());
        threads::for_each_row_of_two((out.all(), out_stride), (kept, kept_stride), work, |i, out, kept| {
            let edges = offsets[i]..offsets[i + 1];
            let degree = edges.len().max(1) as f32;
            for block in blocks(features) {
                let messages = edges.clone().map(|k| (k, &x.row(columns[k as usize] as usize)[block.clone()]));
                let state = State::of(parts, t, messages);
                for (statistic, at) in columns_of(args.statistics, features) {
                    for (c, out) in out[at..][block.clone()].iter_mut().enumerate() {
                        *out = state.statistic(statistic, degree, c);
                    }
                }
                if kept.is_empty() {
                    continue;
                }
                let mut rest = kept.chunks_mut(row_stride(features));
                let mut keep = |wanted: bool, value: &dyn Fn(usize) -> f32| {
                    if let Some(part) = wanted.then(|| rest.next()).flatten() {
                        part[block.clone()].iter_mut().enumerate().for_each(|(c, kept)| *kept = value(c));
                    }
                };
                keep(parts.squares, &|c| state.statistic(Statistic::Mean, degree, c));
                keep(parts.minimum, &|c| f32::from_bits(state.minimum.edge[c]));
                keep(parts.maximum, &|c| f32::from_bits(state.maximum.edge[c]));
                keep(parts.product, &|c| state.product[c]);
                keep(parts.product, &|c| state.zeros[c]);
                keep(parts.softmax, &|c| state.peak[c] + state.weight[c].ln());
            }
        });
        Ok(())
    }

    unsafe fn reduce_coefficients(&self, args: &ReduceCoefficients<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "reduce_coefficients";
        let (g, out) = (Input::new(args.g, KERNEL)?, Input::maybe(args.out, KERNEL)?);
        let kept = Input::maybe(args.kept, KERNEL)?;
        let offsets = args.graph.offsets(Direction::Forward);
        let parts = Ingredients::of(args.statistics);
        let features = args.g.cols() / args.statistics.len();
        let stride = row_stride(features);
        let work = args.g.words();
        Output::new(args.coefficients, KERNEL)?.for_each_row(work, |i, coefficients| {
            let (g, out) = (g.row(i), out.as_ref().map_or([].as_slice(), |out| out.row(i)));
            let degree = (offsets[i + 1] - offsets[i]).max(1) as f32;
            for c in 0..features {
                let kept = |part: usize| kept.as_ref().map_or(0.0, |kept| kept.row(i)[part * stride + c]);
                let (mut a, mut b, mut minimum, mut maximum) = (0.0, 0.0, 0.0, 0.0);
                let (mut others, mut of_zero) = (0.0, 0.0);
                for (statistic, at) in columns_of(args.statistics, features) {
                    let g = g[at + c];
                    match statistic {
                        Statistic::Sum => a += g,
                        Statistic::Mean => a += g / degree,
                        Statistic::Min => minimum = g,
                        Statistic::Max => maximum = g,
                        Statistic::Var => b += 2.0 * g / degree,
                        Statistic::Std if out[at + c] == 0.0 => {}
                        Statistic::Std => b += g / (degree * out[at + c]),
                        Statistic::Product if kept(1) == 0.0 => others = g * kept(0),
                        Statistic::Product if kept(1) == 1.0 => of_zero = g * kept(0),
                        Statistic::Product | Statistic::Softmax => {}
                    }
                }
                if parts.squares {
                    a -= b * kept(0);
                }
                let all = [
                    (parts.sums, a),
                    (parts.squares, b),
                    (parts.minimum, minimum),
                    (parts.maximum, maximum),
                    (parts.product, others),
                    (parts.product, of_zero),
                    (parts.softmax, g[c]),
                    (parts.softmax, kept(0)),
                    (parts.softmax, out.get(c).copied().unwrap_or_default()),
                ];
                let present = all.into_iter().filter(|(present, _)| *present);
                for (part, (_, value)) in present.enumerate() {
                    coefficients[part * stride + c] = value;
                }
            }
        });
        Ok(())
    }

    unsafe fn reduce_grad(&self, args: &ReduceGradient<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "reduce_grad";
        let (x, coefficients) = (Input::maybe(args.x, KERNEL)?, Input::new(args.coefficients, KERNEL)?);
        let kept = Input::maybe(args.kept, KERNEL)?;
        let (offsets, columns) = (args.graph.offsets(Direction::Transposed), args.graph.columns(Direction::Transposed));
        let positions = &args.graph.host().transpose().positions;
        let (features, parts) = (args.grad_x.cols(), Ingredients::of(args.statistics));
        let stride = row_stride(features);
        let t = args.temperature.map(|t| Input::new(t, KERNEL)).transpose()?.map_or(1.0, |t| t.at(0));
        let mut grad_x = Output::new(args.grad_x, KERNEL)?;
        let mut slope = args.slope.map(|slope| Output::new(slope, KERNEL)).transpose()?;
        let slope = slope.as_mut().map_or([].as_mut_slice(), |slope| slope.all());
        let work = columns.len() * args.coefficients.cols();
        let row = grad_x.stride;
        threads::for_each_row_of_two((grad_x.all(), row), (slope, row), work, |j, grad_x, slope| {
            let grad_x = &mut grad_x[..features];
            grad_x.fill(0.0);
            slope.fill(0.0);
            let x = x.as_ref().map_or([].as_slice(), |x| x.row(j));
            for k in offsets[j] as usize..offsets[j + 1] as usize {
                let i = columns[k] as usize;
                let mut sides = coefficients.row(i).chunks(stride);
                if let Some(a) = parts.sums.then(|| sides.next()).flatten() {
                    grad_x.iter_mut().zip(a).for_each(|(grad, a)| *grad += a);
                }
                if let Some(b) = parts.squares.then(|| sides.next()).flatten() {
                    grad_x.iter_mut().zip(b).zip(x).for_each(|((grad, b), x)| *grad += b * x);
                }
                if parts.product {
                    let (others, of_zero) = coefficients.row(i).split_at(stride);
                    for (c, (grad, &x)) in grad_x.iter_mut().zip(x).enumerate() {
                        *grad += if x == 0.0 { of_zero[c] } else { others[c] / x };
                    }
                    continue;
                }
                if parts.softmax {
                    let (g, rest) = coefficients.row(i).split_at(stride);
                    for (c, (grad, &x)) in grad_x.iter_mut().zip(x).enumerate() {
                        let (share, away) = ((t * x - rest[c]).exp(), x - rest[stride + c]);
                        *grad += g[c] * share * (1.0 + t * away);
                        if let Some(slope) = slope.get_mut(c) {
                            *slope += g[c] * share * away * away;
                        }
                    }
                    continue;
                }
                let kept = kept.as_ref().map_or([].as_slice(), |kept| kept.row(i));
                let arguments = kept.chunks(stride).skip(usize::from(parts.squares));
                for (g, arguments) in sides.zip(arguments) {
                    for ((grad, g), argument) in grad_x.iter_mut().zip(g).zip(&arguments[..features]) {
                        if argument.to_bits() == positions[k] {
                            *grad += g;
                        }
                    }
                }
            }
        });
        Ok(())
    }
}
