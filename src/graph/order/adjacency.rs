use std::ops::Range;

use super::ROWS_A_PIECE;
use crate::graph::{Graph, parallel};

/// Who is next to whom, whatever the direction: neighbours ascending, each with the number of edges between the two. Loops
/// are left out.
pub(super) struct Adjacency {
    offsets: Vec<usize>,
    neighbours: Vec<(u32, u32)>,
}

impl Adjacency {
    pub(super) fn of(graph: &Graph) -> Self {
        let nodes = graph.num_dst() as usize;
        let transpose = graph.transpose();
        let sources = |node: usize| &graph.columns()[range(graph.offsets(), node)];
        let destinations = |node: usize| &transpose.columns[range(&transpose.offsets, node)];
        Self::build(nodes, |node, list| {
            let others = sources(node).iter().chain(destinations(node)).filter(|&&other| other as usize != node);
            list.extend(others.map(|&other| (other, 1)));
        })
    }

    /// The adjacency in which `list` tells the neighbours of each node, in any order and with repetitions.
    pub(super) fn build(nodes: usize, list: impl Fn(usize, &mut Vec<(u32, u32)>) + Sync) -> Self {
        let parts = parallel::map_ranges(nodes, ROWS_A_PIECE, |rows| {
            let (mut ends, mut neighbours) = (Vec::with_capacity(rows.len()), Vec::new());
            let mut listed = Vec::new();
            for row in rows {
                listed.clear();
                list(row, &mut listed);
                parallel::sort(&mut listed);
                for same in listed.chunk_by(|a, b| a.0 == b.0) {
                    let weight = same.iter().fold(0u32, |sum, (_, weight)| sum.saturating_add(*weight));
                    neighbours.push((same[0].0, weight));
                }
                ends.push(neighbours.len());
            }
            (ends, neighbours)
        });
        let mut all = Self { offsets: Vec::with_capacity(nodes + 1), neighbours: Vec::new() };
        all.neighbours.reserve_exact(parts.iter().map(|(_, neighbours)| neighbours.len()).sum());
        all.offsets.push(0);
        for (ends, neighbours) in parts {
            let start = all.neighbours.len();
            all.offsets.extend(ends.iter().map(|end| start + end));
            all.neighbours.extend(neighbours);
        }
        all
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn neighbours(&self, node: u32) -> &[(u32, u32)] {
        &self.neighbours[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    pub(super) fn degree(&self, node: u32) -> usize {
        self.neighbours(node).len()
    }
}

fn range(offsets: &[u32], row: usize) -> Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}
