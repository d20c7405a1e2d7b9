//! The edges of a graph as attention reads them: tasks and edges in one array, since a kernel binds eight at most.

use crate::{
    backend::{BackendError, DeviceGraph, Direction, Indices},
    plan::row_order,
};

/// Which arrays, and how rows are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TopologyKey {
    pub(super) direction: Direction,
    /// Edges that a row may have before it is cut, and that its segments have.
    pub(super) segment: u32,
    /// Whether an edge comes with its position in edge order.
    pub(super) positions: bool,
    /// Whether an edge comes with the user's number.
    pub(super) ids: bool,
}

/// Three words a task (first edge, one past the last, row): whole rows, then segments of heavy rows; then one to three
/// words an edge.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) words: Indices,
    pub(super) num_rows: usize,
    pub(super) num_segments: usize,
    pub(super) edges_at: usize,
    pub(super) heavy: Option<HeavyTasks>,
}

/// (row, first segment, one past the last, 0) of each heavy row.
#[derive(Debug)]
pub(super) struct HeavyTasks {
    pub(super) rows: Indices,
    pub(super) num_rows: usize,
}

impl Topology {
    pub(super) const TASK_WORDS: usize = 3;

    pub(super) fn new(graph: &DeviceGraph, key: &TopologyKey) -> Result<Self, BackendError> {
        let offsets = graph.offsets(key.direction);
        let (mut tasks, mut segments, mut heavy) = (Vec::new(), Vec::new(), Vec::new());
        let order = row_order(offsets).unwrap_or_else(|| (0..offsets.len() as u32 - 1).collect());
        for row in order {
            let (first, end) = (offsets[row as usize], offsets[row as usize + 1]);
            if end - first <= key.segment {
                tasks.extend([first, end, row]);
            }
        }
        for (row, ends) in offsets.windows(2).enumerate() {
            let (first, end) = (ends[0], ends[1]);
            if end - first <= key.segment {
                continue;
            }
            let first_segment = (segments.len() / Self::TASK_WORDS) as u32;
            for start in (first..end).step_by(key.segment as usize) {
                segments.extend([start, start.saturating_add(key.segment).min(end), row as u32]);
            }
            heavy.extend([row as u32, first_segment, (segments.len() / Self::TASK_WORDS) as u32, 0]);
        }
        let (num_rows, num_segments) = (tasks.len() / Self::TASK_WORDS, segments.len() / Self::TASK_WORDS);
        let mut words = tasks;
        words.append(&mut segments);
        let edges_at = words.len();
        if graph.columns(key.direction).is_empty() {
            // Kernels read an edge ahead of asking whether there is one.
            words.push(0);
        }
        let host = graph.host();
        for (k, &column) in graph.columns(key.direction).iter().enumerate() {
            let position = match key.direction {
                Direction::Forward => k as u32,
                Direction::Transposed => host.transpose().positions[k],
            };
            words.push(column);
            words.extend(key.positions.then_some(position));
            words.extend(key.ids.then(|| host.edge_ids()[position as usize]));
        }
        let heavy = if heavy.is_empty() {
            None
        } else {
            let rows = Indices::new(graph.device(), &heavy, "heavy rows")?;
            Some(HeavyTasks { rows, num_rows: heavy.len() / 4 })
        };
        let words = Indices::new(graph.device(), &words, "edges of attention")?;
        Ok(Self { words, num_rows, num_segments, edges_at, heavy })
    }
}
