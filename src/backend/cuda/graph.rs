//! A graph's arrays on the device, each copied when a kernel first asks for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, runtime::DevicePtr};
use crate::{
    backend::{BackendError, DeviceGraph, Direction, Indices},
    plan::row_order,
};

/// `Graph` of `cuda/graph.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct GraphArgs {
    pub(super) offsets: DevicePtr,
    pub(super) columns: DevicePtr,
    pub(super) positions: DevicePtr,
    pub(super) edge_ids: DevicePtr,
    pub(super) segments: DevicePtr,
    pub(super) segment_rows: DevicePtr,
    pub(super) heavy: DevicePtr,
    pub(super) order: DevicePtr,
    pub(super) rows: u32,
    pub(super) segment: u32,
    pub(super) num_segments: u32,
    pub(super) num_heavy: u32,
}

impl GraphArgs {
    /// Segments of heavy rows, and all rows.
    pub(super) fn num_tasks(&self) -> u64 {
        u64::from(self.num_segments) + u64::from(self.rows)
    }
}

/// What the backend keeps for a graph.
#[derive(Debug, Default)]
struct ResidentGraph {
    arrays: Mutex<HashMap<(Direction, Array), Indices>>,
    heavy: Mutex<HashMap<(Direction, u32), Option<HeavyRows>>>,
    order: Mutex<HashMap<Direction, Option<Indices>>>,
    longest: Mutex<HashMap<Direction, u32>>,
}

/// An array of a compressed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Array {
    Offsets,
    Columns,
    /// The row of each edge, in edge order.
    Rows,
    /// The user's number of each edge.
    EdgeIds,
    /// See [`CudaBackend::edge_tags`].
    Tags,
}

/// The rows that are done in segments.
#[derive(Clone, Debug)]
struct HeavyRows {
    /// First edge and one past the last of each segment.
    segments: Indices,
    segment_rows: Indices,
    /// Row, first segment, one past the last, 0.
    rows: Indices,
}

impl CudaBackend {
    /// The graph in a direction, rows of more than `segment` edges cut into segments of that many.
    pub(super) fn graph(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        segment: u32,
    ) -> Result<GraphArgs, BackendError> {
        let resident = resident(graph)?;
        let heavy = resident.heavy(graph, direction, segment)?;
        let mut args = GraphArgs {
            offsets: self.indices(&resident.array(graph, direction, Array::Offsets)?)?,
            columns: self.indices(&resident.array(graph, direction, Array::Columns)?)?,
            rows: graph.dims(direction).0 as u32,
            segment,
            ..GraphArgs::zeroed()
        };
        if direction == Direction::Transposed {
            args.positions = self.indices(&graph.positions_by_source()?)?;
        }
        if let Some(order) = resident.order(graph, direction)? {
            args.order = self.indices(&order)?;
        }
        if let Some(heavy) = heavy {
            args.segments = self.indices(&heavy.segments)?;
            args.segment_rows = self.indices(&heavy.segment_rows)?;
            args.heavy = self.indices(&heavy.rows)?;
            args.num_segments = heavy.segment_rows.len() as u32;
            args.num_heavy = heavy.rows.len() as u32 / 4;
        }
        Ok(args)
    }

    /// The user's number of each edge, in the order of the direction's edges: what dropout hashes.
    pub(super) fn edge_ids(&self, graph: &DeviceGraph, direction: Direction) -> Result<DevicePtr, BackendError> {
        self.indices(&resident(graph)?.array(graph, direction, Array::EdgeIds)?)
    }

    /// Edges of the longest row.
    pub(super) fn longest_row(&self, graph: &DeviceGraph, direction: Direction) -> Result<u32, BackendError> {
        let resident = resident(graph)?;
        let mut longest = resident.longest.lock().unwrap_or_else(PoisonError::into_inner);
        let search = || graph.offsets(direction).windows(2).map(|edges| edges[1] - edges[0]).max().unwrap_or(0);
        Ok(*longest.entry(direction).or_insert_with(search))
    }

    /// What tells the edges of the transpose from others of their destination, two to a word: 8 bits of the position in edge
    /// order, and whether that is not enough.
    pub(super) fn edge_tags(&self, graph: &DeviceGraph) -> Result<DevicePtr, BackendError> {
        self.indices(&resident(graph)?.array(graph, Direction::Transposed, Array::Tags)?)
    }

    /// The destination of each edge, in edge order.
    pub(super) fn edge_rows(&self, graph: &DeviceGraph) -> Result<DevicePtr, BackendError> {
        self.indices(&resident(graph)?.array(graph, Direction::Forward, Array::Rows)?)
    }
}

fn edge_tags(graph: &DeviceGraph) -> Vec<u32> {
    let offsets = graph.offsets(Direction::Forward);
    let edges = graph.columns(Direction::Transposed).iter().zip(&graph.host().transpose().positions);
    let tags: Vec<u32> = edges
        .map(|(&row, &position)| {
            let edges = offsets[row as usize + 1] - offsets[row as usize];
            position & 0xff | u32::from(edges > 0x100) << 8
        })
        .collect();
    tags.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |second| second << 16)).collect()
}

fn resident(graph: &DeviceGraph) -> Result<Arc<ResidentGraph>, BackendError> {
    graph.resident(|| Ok(ResidentGraph::default()))
}

impl ResidentGraph {
    fn array(&self, graph: &DeviceGraph, direction: Direction, array: Array) -> Result<Indices, BackendError> {
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(indices) = arrays.get(&(direction, array)) {
            return Ok(indices.clone());
        }
        let (device, host) = (graph.device(), graph.host());
        let indices = match (array, direction) {
            (Array::Offsets, _) => Indices::new(device, graph.offsets(direction), "row offsets")?,
            (Array::Columns, _) => Indices::new(device, graph.columns(direction), "edge columns")?,
            (Array::Rows, _) => Indices::new(device, &host.rows(), "edge rows")?,
            (Array::Tags, _) => Indices::new(device, &edge_tags(graph), "tags of edges")?,
            (Array::EdgeIds, Direction::Forward) => Indices::new(device, host.edge_ids(), "edge ids")?,
            (Array::EdgeIds, Direction::Transposed) => {
                let ids: Vec<u32> = host.transpose().positions.iter().map(|&k| host.edge_ids()[k as usize]).collect();
                Indices::new(device, &ids, "edge ids by source")?
            }
        };
        arrays.insert((direction, array), indices.clone());
        Ok(indices)
    }

    /// The order that rows are done in, if not their own.
    fn order(&self, graph: &DeviceGraph, direction: Direction) -> Result<Option<Indices>, BackendError> {
        let mut orders = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(order) = orders.get(&direction) {
            return Ok(order.clone());
        }
        let order = row_order(graph.offsets(direction));
        let order = order.map(|order| Indices::new(graph.device(), &order, "order of rows")).transpose()?;
        orders.insert(direction, order.clone());
        Ok(order)
    }

    /// The rows of more than `segment` edges, if any.
    fn heavy(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        segment: u32,
    ) -> Result<Option<HeavyRows>, BackendError> {
        let mut cache = self.heavy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heavy) = cache.get(&(direction, segment)) {
            return Ok(heavy.clone());
        }
        let offsets = graph.offsets(direction);
        let (mut segments, mut segment_rows, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (row, edges) in offsets.windows(2).enumerate().filter(|(_, edges)| edges[1] - edges[0] > segment) {
            let first = segment_rows.len() as u32;
            for start in (edges[0]..edges[1]).step_by(segment as usize) {
                segments.extend([start, start.saturating_add(segment).min(edges[1])]);
                segment_rows.push(row as u32);
            }
            rows.extend([row as u32, first, segment_rows.len() as u32, 0]);
        }
        let device = graph.device();
        let heavy = if rows.is_empty() {
            None
        } else {
            Some(HeavyRows {
                segments: Indices::new(device, &segments, "edge segments")?,
                segment_rows: Indices::new(device, &segment_rows, "rows of edge segments")?,
                rows: Indices::new(device, &rows, "heavy rows")?,
            })
        };
        cache.insert((direction, segment), heavy.clone());
        Ok(heavy)
    }
}
