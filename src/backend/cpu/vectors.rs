//! Loops that several families share, over slices, so that none checks bounds inside.

/// `sum of x_c y_c`, in order.
#[inline]
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// `out_c += factor x_c`.
#[inline]
pub(super) fn add_scaled(out: &mut [f32], factor: f32, x: &[f32]) {
    out.iter_mut().zip(x).for_each(|(o, x)| *o += factor * x);
}

/// Turns the scores of a row's edges, all heads of an edge side by side, into the softmax of each head over the edges.
/// `logsumexp` has one entry a head: the logarithm of the sum of `exp(score)`, 0 without edges.
pub(super) fn softmax_of_heads(scores: &mut [f32], logsumexp: &mut [f32]) {
    let heads = logsumexp.len();
    let mut largest = vec![f32::NEG_INFINITY; heads];
    for edge in scores.chunks_exact(heads) {
        largest.iter_mut().zip(edge).for_each(|(m, s)| *m = m.max(*s));
    }
    let mut totals = vec![0.0f32; heads];
    for edge in scores.chunks_exact_mut(heads) {
        for ((weight, largest), total) in edge.iter_mut().zip(&largest).zip(&mut totals) {
            *weight = (*weight - largest).exp();
            *total += *weight;
        }
    }
    // Large logarithms are rounded: weights are divided by the sum instead.
    for edge in scores.chunks_exact_mut(heads) {
        edge.iter_mut().zip(&totals).for_each(|(weight, total)| *weight /= total);
    }
    for ((out, largest), total) in logsumexp.iter_mut().zip(&largest).zip(&totals) {
        *out = if *total > 0.0 { largest + total.ln() } else { 0.0 };
    }
}
