//! Sharing out rows, with as many threads as pay.

use crate::graph::Graph;

/// Below this many operations a second thread costs more than it brings. The browser has one thread.
#[cfg(not(target_arch = "wasm32"))]
const SERIAL_WORK: usize = 1 << 17;

/// Threads that work is shared among.
pub(super) fn count() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    return rayon::current_num_threads();
    #[cfg(target_arch = "wasm32")]
    1
}

/// Calls `f(r, row)` for every `stride` long row of `data`; `work` is the number of operations in all.
pub(super) fn for_each_row(data: &mut [f32], stride: usize, work: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if data.is_empty() {
        return;
    }
    #[cfg(not(target_arch = "wasm32"))]
    if work >= SERIAL_WORK {
        use rayon::prelude::*;
        // Several pieces a thread even out rows of unequal length.
        let rows = (data.len() / stride).div_ceil(8 * count()).max(1);
        data.par_chunks_mut(rows * stride).enumerate().for_each(|(chunk, piece)| {
            for (r, row) in piece.chunks_exact_mut(stride).enumerate() {
                f(chunk * rows + r, row);
            }
        });
        return;
    }
    let _ = work;
    data.chunks_exact_mut(stride).enumerate().for_each(|(r, row)| f(r, row));
}

/// Calls `f(r, row, other row)` for every row of two matrices of as many rows, each with its stride; `work` is the number of operations in all.
pub(super) fn for_each_row_pair(
    (data, stride): (&mut [f32], usize),
    (other, other_stride): (&mut [f32], usize),
    work: usize,
    f: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    if data.is_empty() {
        return;
    }
    #[cfg(not(target_arch = "wasm32"))]
    if work >= SERIAL_WORK {
        use rayon::prelude::*;
        let rows = (data.len() / stride).div_ceil(8 * count()).max(1);
        let pieces = data.par_chunks_mut(rows * stride).zip(other.par_chunks_mut(rows * other_stride));
        pieces.enumerate().for_each(|(chunk, (piece, other))| {
            let pairs = piece.chunks_exact_mut(stride).zip(other.chunks_exact_mut(other_stride));
            pairs.enumerate().for_each(|(r, (row, other))| f(chunk * rows + r, row, other));
        });
        return;
    }
    let _ = work;
    let pairs = data.chunks_exact_mut(stride).zip(other.chunks_exact_mut(other_stride));
    pairs.enumerate().for_each(|(r, (row, other))| f(r, row, other));
}

/// Cuts `data` into pieces and calls `f(first, piece)`; `cost` is the number of operations an entry.
pub(super) fn for_each_piece(data: &mut [f32], cost: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    #[cfg(not(target_arch = "wasm32"))]
    if data.len() * cost >= SERIAL_WORK {
        use rayon::prelude::*;
        let len = data.len().div_ceil(8 * count());
        data.par_chunks_mut(len).enumerate().for_each(|(i, piece)| f(i * len, piece));
        return;
    }
    let _ = cost;
    f(0, data);
}

/// Calls `f(k, i, j, entry)` for the entry of every edge `k`, from `j` to `i`; `cost` is the number of operations an edge.
pub(super) fn for_each_edge(
    graph: &Graph,
    data: &mut [f32],
    cost: usize,
    f: impl Fn(usize, usize, usize, &mut f32) + Sync,
) {
    // Edges are shared out evenly; each piece finds its first row by bisection.
    for_each_piece(&mut data[..graph.columns().len()], cost, |first, piece| {
        let mut i = graph.offsets().partition_point(|&o| o as usize <= first).saturating_sub(1);
        for (k, entry) in (first..).zip(piece) {
            while graph.offsets()[i + 1] as usize <= k {
                i += 1;
            }
            f(k, i, graph.columns()[k] as usize, entry);
        }
    });
}

/// Calls `f(block, rows)` for every `len` long block of `data`, the last of which may be shorter.
pub(super) fn for_each_block(data: &mut [f32], len: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    #[cfg(not(target_arch = "wasm32"))]
    if data.len() > len {
        use rayon::prelude::*;
        data.par_chunks_mut(len).enumerate().for_each(|(i, block)| f(i, block));
        return;
    }
    data.chunks_mut(len.max(1)).enumerate().for_each(|(i, block)| f(i, block));
}
