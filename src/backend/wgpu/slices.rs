//! Cutting matrices that do not fit a binding.

use std::ops::Range;

use super::WgpuBackend;
use crate::backend::{BackendError, Tensor};

/// Slices start at multiples of this many rows, so that every binding starts at a multiple of 256 bytes, single columns included.
const ROW_ALIGN: usize = 64;

/// The largest row ranges for which every tensor of `strides` (in words) fits a binding of `limit` bytes. All of `0..rows` where it does.
pub(super) fn row_slices(rows: usize, strides: &[usize], limit: u64) -> Vec<Range<usize>> {
    let widest = strides.iter().copied().max().unwrap_or(1).max(1);
    let fitting = (limit / (widest as u64 * 4)) as usize;
    if rows <= fitting {
        return std::iter::once(0..rows).collect();
    }
    // A row that alone passes the limit is left to the binding's own check, which says so.
    let step = (fitting / ROW_ALIGN * ROW_ALIGN).max(ROW_ALIGN);
    (0..rows).step_by(step).map(|first| first..(first + step).min(rows)).collect()
}

/// Row ranges of a compressed matrix for which the dense tensors of `strides` and the edges fit a binding.
pub(super) fn edge_slices(offsets: &[u32], strides: &[usize], limit: u64) -> Vec<Range<usize>> {
    // An edge slice may start up to 63 edges early, to be aligned.
    let fitting_edges = (limit / 4) as usize - ROW_ALIGN;
    let mut slices = Vec::new();
    // There is one offset more than there are rows.
    for range in row_slices(offsets.len() - 1, strides, limit - 256) {
        let mut first = range.start;
        while first < range.end || slices.is_empty() {
            let last_edge = offsets[first] as usize + fitting_edges;
            let mut end = first + offsets[first..=range.end].partition_point(|&o| o as usize <= last_edge) - 1;
            if end < range.end {
                end = (end / ROW_ALIGN * ROW_ALIGN).max(first + ROW_ALIGN).min(range.end);
            }
            slices.push(first..end);
            first = end;
            if first >= range.end {
                break;
            }
        }
    }
    slices
}

/// Chunks (of 16 bytes) that a panel of `rows` rows may have to fit a binding.
pub(super) fn panel_chunks(backend: &WgpuBackend, rows: usize) -> Result<usize, BackendError> {
    let limit = backend.capabilities.max_binding_bytes;
    let chunks = limit as usize / (rows.max(1) * 16);
    if chunks > 0 {
        return Ok(chunks);
    }
    Err(BackendError::TooLarge {
        what: format!("16 bytes of features of {rows} nodes"),
        requested: rows as u64 * 16,
        limit,
        remedy: "sample the graph, use a device with larger bindings, or use the cpu backend",
    })
}

/// Whether all of a tensor fits a binding.
pub(super) fn fits(backend: &WgpuBackend, tensor: &Tensor) -> bool {
    tensor.words() as u64 * 4 <= backend.capabilities.max_binding_bytes
}

/// The start of the aligned range that holds word `first`.
pub(super) fn align_down(first: usize) -> usize {
    first / 64 * 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_matrices_are_not_cut() {
        let only = |slices: Vec<Range<usize>>| (slices.len(), slices[0].start, slices[0].end);
        assert_eq!(only(row_slices(1000, &[4, 1], 1 << 20)), (1, 0, 1000));
        assert_eq!(only(row_slices(0, &[4], 1 << 20)), (1, 0, 0));
        assert_eq!(only(edge_slices(&[0], &[4], 1 << 20)), (1, 0, 0));
        assert_eq!(only(edge_slices(&[0, 3, 9], &[4], 1 << 20)), (1, 0, 2));
    }

    #[test]
    fn slices_cover_the_rows_and_fit() {
        let slices = row_slices(1000, &[16, 4], 10_000);
        assert_eq!(slices[..2], [0..128, 128..256]);
        assert_eq!(slices.last().unwrap().end, 1000);
    }

    #[test]
    fn edges_fit_too() {
        // 1,000 rows of 10 edges, bindings of 1,024 + 64 edges.
        let offsets: Vec<u32> = (0..=1000).map(|i| i * 10).collect();
        let slices = edge_slices(&offsets, &[1], 4 * 1088);
        assert_eq!(slices[..2], [0..64, 64..128]);
        assert_eq!((slices.first().unwrap().start, slices.last().unwrap().end), (0, 1000));
        assert!(slices.windows(2).all(|w| w[0].end == w[1].start));
    }
}
