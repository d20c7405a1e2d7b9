//! A graph's arrays on the device, each copied when a kernel first asks for it.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    WgpuBackend,
    topology::{Topology, TopologyKey},
};
use crate::{
    backend::{BackendError, DeviceGraph, Direction, Indices},
    plan::row_order,
};

/// What the backend keeps for a graph.
#[derive(Debug, Default)]
pub(super) struct ResidentGraph {
    arrays: Mutex<HashMap<(Direction, Array), Indices>>,
    light: Mutex<HashMap<SliceKey, Indices>>,
    heavy: Mutex<HashMap<SliceKey, Option<HeavyRows>>>,
    topologies: Mutex<HashMap<TopologyKey, Arc<Topology>>>,
    attention: Mutex<HashMap<AttentionKey, AttentionGraph>>,
}

/// Direction, edges a segment, and the rows of the slice.
type SliceKey = (Direction, u32, Range<usize>);

/// An array of a compressed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Array {
    Offsets,
    Columns,
    /// Of the transpose: columns, with the highest bit set where one has more edges than a byte tells apart.
    TaggedColumns,
    /// The row of each edge.
    Rows,
    /// Where an edge of the transpose stands in edge order.
    Positions,
}

/// The rows of a slice that are summed in segments.
#[derive(Clone, Debug)]
pub(super) struct HeavyRows {
    /// (first edge, one past the last, row in the slice, 0) of each segment.
    pub(super) segments: Indices,
    pub(super) num_segments: usize,
    /// (row in the slice, first segment, one past last, 0) of each heavy row.
    pub(super) rows: Indices,
    pub(super) num_rows: usize,
}

/// How the edges of a graph are cut into tasks of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cut {
    /// Rows, and segments of this many edges of rows that have more.
    Rows(Direction, u32),
    /// This many edges, in edge order.
    Ranges(u32),
}

/// What the kernels of attention read of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AttentionKey {
    pub(super) cut: Cut,
    /// Whether edges have attributes, which are found by their places in edge order.
    pub(super) attributes: bool,
    /// Whether edges are dropped, by the user's numbers.
    pub(super) dropout: bool,
}

/// A graph as the kernels of attention read it, all of it in one binding: tasks of (row, first edge, one past the last, row of the result), then
/// the edges.
#[derive(Clone, Debug)]
pub(super) struct AttentionGraph {
    pub(super) words: Indices,
    /// Tasks that are whole rows, or ranges; those of heavy rows come before.
    pub(super) num_light: usize,
    pub(super) heavy: Option<HeavyRows>,
    pub(super) columns_at: usize,
    /// The rows of edges cut into ranges; else, by source, the places of edges in edge order.
    pub(super) others_at: usize,
    pub(super) ids_at: usize,
}

impl AttentionGraph {
    pub(super) fn first_light(&self) -> usize {
        self.heavy.as_ref().map_or(0, |heavy| heavy.num_segments)
    }
}

impl WgpuBackend {
    pub(super) fn attention_graph(
        &self,
        graph: &DeviceGraph,
        key: AttentionKey,
    ) -> Result<AttentionGraph, BackendError> {
        let resident = self.resident(graph)?;
        let mut cache = resident.attention.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(attention) = cache.get(&key) {
            return Ok(attention.clone());
        }
        let attention = resident.cut_for_attention(graph, key)?;
        cache.insert(key, attention.clone());
        Ok(attention)
    }

    pub(super) fn resident(&self, graph: &DeviceGraph) -> Result<Arc<ResidentGraph>, BackendError> {
        graph.resident(|| Ok(ResidentGraph::default()))
    }
}

fn tagged_columns(graph: &DeviceGraph) -> Vec<u32> {
    let offsets = graph.offsets(Direction::Forward);
    let edges = |column: u32| offsets[column as usize + 1] - offsets[column as usize];
    let tagged = |&column: &u32| column | u32::from(edges(column) > 0x100) << 31;
    graph.columns(Direction::Transposed).iter().map(tagged).collect()
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
            Array::TaggedColumns => Indices::new(device, &tagged_columns(graph), "tagged edge columns")?,
            Array::Rows => Indices::new(device, &graph.host().rows(), "edge rows")?,
            Array::Positions => graph.positions_by_source()?,
        };
        arrays.insert((direction, array), indices.clone());
        Ok(indices)
    }

    /// The edges as attention reads them.
    pub(super) fn topology(&self, graph: &DeviceGraph, key: TopologyKey) -> Result<Arc<Topology>, BackendError> {
        let mut topologies = self.topologies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(topology) = topologies.get(&key) {
            return Ok(topology.clone());
        }
        let topology = Arc::new(Topology::new(graph, &key)?);
        topologies.insert(key, topology.clone());
        Ok(topology)
    }

    /// (first edge, one past the last, row in the slice, 0) of the rows in `slice` of at most `segment` edges.
    pub(super) fn light_rows(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        segment: u32,
        slice: &Range<usize>,
    ) -> Result<Indices, BackendError> {
        let mut cache = self.light.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (direction, segment, slice.clone());
        if let Some(light) = cache.get(&key) {
            return Ok(light.clone());
        }
        let offsets = graph.offsets(direction);
        let mut tasks = Vec::with_capacity(4 * slice.len());
        let mut take = |row: usize| {
            let (first, last) = (offsets[row], offsets[row + 1]);
            if slice.contains(&row) && last - first <= segment {
                tasks.extend([first, last, (row - slice.start) as u32, 0]);
            }
        };
        match row_order(offsets) {
            Some(order) => order.into_iter().for_each(|row| take(row as usize)),
            None => slice.clone().for_each(take),
        }
        let light = Indices::new(graph.device(), &tasks, "rows as tasks")?;
        cache.insert(key, light.clone());
        Ok(light)
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
        let (mut segments, mut rows) = (Vec::new(), Vec::new());
        for row in slice.clone().filter(|&r| offsets[r + 1] - offsets[r] > segment) {
            let (first, in_slice) = (segments.len() as u32 / 4, (row - slice.start) as u32);
            for start in (offsets[row]..offsets[row + 1]).step_by(segment as usize) {
                segments.extend([start, start.saturating_add(segment).min(offsets[row + 1]), in_slice, 0]);
            }
            rows.extend([in_slice, first, segments.len() as u32 / 4, 0]);
        }
        let heavy = if rows.is_empty() {
            None
        } else {
            Some(HeavyRows {
                segments: Indices::new(graph.device(), &segments, "edge segments")?,
                num_segments: segments.len() / 4,
                rows: Indices::new(graph.device(), &rows, "heavy rows")?,
                num_rows: rows.len() / 4,
            })
        };
        cache.insert(key, heavy.clone());
        Ok(heavy)
    }

    fn cut_for_attention(&self, graph: &DeviceGraph, key: AttentionKey) -> Result<AttentionGraph, BackendError> {
        let AttentionKey { cut, attributes, dropout } = key;
        let host = graph.host();
        let (mut words, mut num_light, mut heavy) = (Vec::new(), 0, None);
        let direction = match cut {
            Cut::Rows(direction, segment) => {
                let (offsets, rows) = (graph.offsets(direction), graph.dims(direction).0);
                heavy = self.heavy_rows(graph, direction, segment, &(0..rows))?;
                let is_heavy = |r: usize| offsets[r + 1] - offsets[r] > segment;
                let mut segments = 0;
                for r in (0..rows).filter(|&r| is_heavy(r)) {
                    for first in (offsets[r]..offsets[r + 1]).step_by(segment as usize) {
                        words.extend([r as u32, first, first.saturating_add(segment).min(offsets[r + 1]), segments]);
                        segments += 1;
                    }
                }
                let order = row_order(offsets).unwrap_or_else(|| (0..rows as u32).collect());
                for r in order.into_iter().map(|r| r as usize).filter(|&r| !is_heavy(r)) {
                    words.extend([r as u32, offsets[r], offsets[r + 1], r as u32]);
                    num_light += 1;
                }
                direction
            }
            Cut::Ranges(range) => {
                for first in (0..host.num_edges().max(1)).step_by(range as usize) {
                    words.extend([0, first, first.saturating_add(range).min(host.num_edges()), num_light as u32]);
                    num_light += 1;
                }
                Direction::Forward
            }
        };
        let columns_at = words.len();
        words.extend(graph.columns(direction));
        if words.len() == columns_at {
            // Kernels read an edge ahead of asking whether there is one.
            words.push(0);
        }
        let others_at = words.len();
        match (cut, direction) {
            (Cut::Ranges(_), _) => words.extend(host.rows()),
            (_, Direction::Transposed) if attributes => words.extend(&host.transpose().positions),
            _ => {}
        }
        let ids_at = words.len();
        match direction {
            _ if !dropout => {}
            Direction::Forward => words.extend(host.edge_ids()),
            Direction::Transposed => {
                words.extend(host.transpose().positions.iter().map(|&k| host.edge_ids()[k as usize]));
            }
        }
        let words = Indices::new(graph.device(), &words, "graph of attention")?;
        Ok(AttentionGraph { words, num_light, heavy, columns_at, others_at, ids_at })
    }
}
