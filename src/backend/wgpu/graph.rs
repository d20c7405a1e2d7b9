//! A graph's arrays on the device, each copied when a kernel first asks for it.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use super::WgpuBackend;
use crate::backend::{BackendError, DeviceGraph, Direction, Indices};

/// What the backend keeps for a graph.
#[derive(Debug, Default)]
pub(super) struct ResidentGraph {
    arrays: Mutex<HashMap<(Direction, Array), Indices>>,
    heavy: Mutex<HashMap<HeavyKey, Option<HeavyRows>>>,
}

/// Direction, edges a segment, and the rows of the slice.
type HeavyKey = (Direction, u32, Range<usize>);

/// An array of a compressed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Array {
    Offsets,
    Columns,
    /// The row of each edge.
    Rows,
    /// Where an edge of the transpose stands in edge order.
    Positions,
}

/// The rows of a slice that are summed in segments.
#[derive(Clone, Debug)]
pub(super) struct HeavyRows {
    /// (first, one past last) edge of each segment.
    pub(super) segments: Indices,
    pub(super) num_segments: usize,
    /// The row in the slice of each segment.
    pub(super) segment_rows: Indices,
    /// (row in the slice, first segment, one past last, 0) of each heavy row.
    pub(super) rows: Indices,
    pub(super) num_rows: usize,
}

impl WgpuBackend {
    pub(super) fn resident(&self, graph: &DeviceGraph) -> Result<Arc<ResidentGraph>, BackendError> {
        graph.resident(|| Ok(ResidentGraph::default()))
    }
}

impl ResidentGraph {
    pub(super) fn array(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        array: Array,
    ) -> Result<Indices, BackendError> {
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(indices) = arrays.get(&(direction, array)) {
            return Ok(indices.clone());
        }
        let device = graph.device();
        let indices = match array {
            Array::Offsets => Indices::new(device, graph.offsets(direction), "row offsets")?,
            Array::Columns => Indices::new(device, graph.columns(direction), "edge columns")?,
            Array::Rows => Indices::new(device, &graph.host().rows(), "edge rows")?,
            Array::Positions => graph.positions_by_source()?,
        };
        arrays.insert((direction, array), indices.clone());
        Ok(indices)
    }

    /// The rows in `slice` of more than `segment` edges, if any.
    pub(super) fn heavy_rows(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        segment: u32,
        slice: &Range<usize>,
    ) -> Result<Option<HeavyRows>, BackendError> {
        let mut cache = self.heavy.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (direction, segment, slice.clone());
        if let Some(heavy) = cache.get(&key) {
            return Ok(heavy.clone());
        }
        let offsets = graph.offsets(direction);
        let (mut segments, mut segment_rows, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for row in slice.clone().filter(|&r| offsets[r + 1] - offsets[r] > segment) {
            let first = segments.len() as u32 / 2;
            for start in (offsets[row]..offsets[row + 1]).step_by(segment as usize) {
                segments.extend([start, start.saturating_add(segment).min(offsets[row + 1])]);
                segment_rows.push((row - slice.start) as u32);
            }
            rows.extend([(row - slice.start) as u32, first, segments.len() as u32 / 2, 0]);
        }
        let heavy = if rows.is_empty() {
            None
        } else {
            Some(HeavyRows {
                segments: Indices::new(graph.device(), &segments, "edge segments")?,
                num_segments: segments.len() / 2,
                segment_rows: Indices::new(graph.device(), &segment_rows, "rows of edge segments")?,
                rows: Indices::new(graph.device(), &rows, "heavy rows")?,
                num_rows: rows.len() / 4,
            })
        };
        cache.insert(key, heavy.clone());
        Ok(heavy)
    }
}
