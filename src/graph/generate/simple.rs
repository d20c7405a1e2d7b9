//! From drawn edges to a simple graph: no self loops, no parallel edges, columns ascending.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::graph::{
    Graph, GraphError,
    edges::check_edge_count,
    parallel::{for_each, join},
};

/// Edges drawn by one task.
const CHUNK: u64 = 1 << 16;
/// Edges below which rows are sorted by one task.
const GRAIN: usize = 1 << 16;

/// The graph of the edges `draw(0..drawn)`, with the reverse of each if `both`.
///
/// Counts edges by destination, draws them again into their rows, sorts each row. Threads race for the slots of a row, but a sorted
/// row does not tell: the result is the same for any number of threads. Besides the graph this takes one `u32` a drawn edge and two
/// a node.
///
/// # Errors
/// If 32 bits cannot number the drawn edges, or there is no memory for them.
pub(super) fn simple_graph(
    nodes: u32,
    drawn: u64,
    both: bool,
    draw: impl Fn(u64) -> (u32, u32) + Sync,
) -> Result<Graph, GraphError> {
    check_edge_count(if both { drawn.saturating_mul(2) } else { drawn })?;
    let for_each_edge = |visit: &(dyn Fn(u32, u32) + Sync)| {
        for_each(drawn.div_ceil(CHUNK), |chunk| {
            for i in chunk * CHUNK..drawn.min((chunk + 1) * CHUNK) {
                let (src, dst) = draw(i);
                if src != dst {
                    visit(src, dst);
                    if both {
                        visit(dst, src);
                    }
                }
            }
        });
    };

    let mut slots = zeros(u64::from(nodes))?;
    for_each_edge(&|_, dst| {
        slots[dst as usize].fetch_add(1, Relaxed);
    });
    let mut offsets = Vec::with_capacity(slots.len() + 1);
    let mut next = 0;
    for slot in &mut slots {
        offsets.push(next);
        next += std::mem::replace(slot.get_mut(), next);
    }
    offsets.push(next);

    let columns = zeros(u64::from(next))?;
    for_each_edge(&|src, dst| columns[slots[dst as usize].fetch_add(1, Relaxed) as usize].store(src, Relaxed));
    let mut columns: Vec<u32> = columns.into_iter().map(AtomicU32::into_inner).collect();

    let mut kept: Vec<u32> = slots.into_iter().map(AtomicU32::into_inner).collect();
    sort_rows(&offsets, &mut columns, &mut kept);
    let mut end = 0;
    for (offset, &kept) in offsets.iter_mut().zip(&kept) {
        let start = *offset as usize;
        columns.copy_within(start..start + kept as usize, end);
        *offset = end as u32;
        end += kept as usize;
    }
    offsets[nodes as usize] = end as u32;
    columns.truncate(end);
    columns.shrink_to_fit();
    Graph::from_csr(nodes, offsets, columns)
}

fn zeros(len: u64) -> Result<Vec<AtomicU32>, GraphError> {
    let out_of_memory =
        || GraphError::Generator(format!("generating this graph takes {} MB at once: not available", (len * 4) >> 20));
    let len = usize::try_from(len).map_err(|_| out_of_memory())?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(len).map_err(|_| out_of_memory())?;
    zeros.resize_with(len, AtomicU32::default);
    Ok(zeros)
}

/// Sorts each row, moves its distinct columns to its front and writes their number to `kept`. `offsets[0]` is where `columns` begins.
fn sort_rows(offsets: &[u32], columns: &mut [u32], kept: &mut [u32]) {
    let base = offsets[0];
    if kept.len() > 1 && columns.len() > GRAIN {
        // Halve the edges rather than the rows: a hub can hold most of them.
        let middle = offsets.partition_point(|&o| ((o - base) as usize) < columns.len() / 2).clamp(1, kept.len() - 1);
        let (left, right) = columns.split_at_mut((offsets[middle] - base) as usize);
        let (kept_left, kept_right) = kept.split_at_mut(middle);
        join(|| sort_rows(&offsets[..=middle], left, kept_left), || sort_rows(&offsets[middle..], right, kept_right));
        return;
    }
    for (ends, kept) in offsets.windows(2).zip(kept) {
        *kept = sort_distinct(&mut columns[(ends[0] - base) as usize..(ends[1] - base) as usize]);
    }
}

fn sort_distinct(row: &mut [u32]) -> u32 {
    row.sort_unstable();
    let mut kept = 0;
    for k in 0..row.len() {
        if kept == 0 || row[k] != row[kept - 1] {
            row[kept] = row[k];
            kept += 1;
        }
    }
    kept as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: [(u32, u32); 6] = [(2, 0), (1, 1), (1, 0), (2, 0), (0, 2), (3, 2)];

    #[test]
    fn loops_and_parallel_edges_are_gone_and_columns_ascend() {
        let graph = simple_graph(4, 6, false, |i| LISTED[i as usize]).unwrap();
        assert_eq!((graph.offsets(), graph.columns()), ([0, 2, 2, 4, 4].as_slice(), [1, 2, 0, 3].as_slice()));
        let both = simple_graph(4, 6, true, |i| LISTED[i as usize]).unwrap();
        assert_eq!((both.offsets(), both.columns()), ([0, 2, 3, 5, 6].as_slice(), [1, 2, 0, 0, 3, 2].as_slice()));
        assert_eq!(simple_graph(0, 0, true, |_| (0, 0)).unwrap().offsets(), [0]);
    }

    #[test]
    fn what_32_bits_cannot_number_is_refused() {
        let out = simple_graph(1, 1 << 31, true, |_| (0, 0)).unwrap_err();
        assert!(matches!(out, GraphError::TooLarge { requested, .. } if requested == 1 << 32), "{out}");
    }

    #[test]
    #[cfg(not(target_arch = "wasm32"))]
    fn the_number_of_threads_does_not_show() {
        let make = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            // Half of the edges end in one hub, so rows are split unevenly.
            let draw = |i: u64| ((i * 7_919 % 5_003) as u32, if i.is_multiple_of(2) { 17 } else { (i % 4_999) as u32 });
            let graph = pool.install(|| simple_graph(5_003, 400_000, true, draw)).unwrap();
            (graph.offsets().to_vec(), graph.columns().to_vec())
        };
        let alone = make(1);
        assert!(alone == make(2) && alone == make(5));
    }
}
