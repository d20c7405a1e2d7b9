use std::sync::OnceLock;

use super::{EdgeList, GraphError, GraphStats, edges::check_edge_count, invalid_offset};
use crate::matrix::Matrix;

/// A validated rectangular graph in compressed rows: row `i` (a destination) gathers from `columns[offsets[i]..offsets[i + 1]]` (its sources).
///
/// Within a row the edges stand in the order in which the user listed them; *edge order* means this order of all rows one after the
/// other, and it is the order of every per-edge array given to a kernel. [`Graph::edge_ids`] leads back to the user's list.
#[derive(Debug)]
pub struct Graph {
    num_src: u32,
    offsets: Vec<u32>,
    columns: Vec<u32>,
    edge_ids: Vec<u32>,
    transpose: OnceLock<Transpose>,
    stats: OnceLock<GraphStats>,
}

/// The same edges by source: row `j` lists the destinations that node `j` sends to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// Row offsets, `num_src + 1` of them.
    pub offsets: Vec<u32>,
    /// Destination of each edge.
    pub columns: Vec<u32>,
    /// Position of each edge in the edge order of the graph: the permutation from one form to the other.
    pub positions: Vec<u32>,
}

impl Graph {
    /// Compresses a list of edges. Weights and attributes stay with the list: bring them along with [`Graph::to_edge_order`].
    pub fn from_edges(edges: &EdgeList) -> Self {
        let (offsets, edge_ids) = group_by(edges.dst(), edges.num_dst());
        let columns = edge_ids.iter().map(|&e| edges.src()[e as usize]).collect();
        Self::from_valid(edges.num_src(), offsets, columns, edge_ids)
    }

    /// Takes compressed rows as they are; edge ids are the positions.
    ///
    /// # Errors
    /// If the offsets do not start at 0, fall, or do not end at the number of columns; if a column is not below `num_src`; or if the
    /// counts do not fit 32 bits.
    pub fn from_csr(num_src: u32, offsets: Vec<u32>, columns: Vec<u32>) -> Result<Self, GraphError> {
        check_edge_count(columns.len() as u64)?;
        if offsets.len() as u64 > u64::from(u32::MAX) {
            return Err(GraphError::TooLarge {
                what: "the number of destinations",
                requested: offsets.len() as u64 - 1,
                limit: u64::from(u32::MAX) - 1,
            });
        }
        if let Some((index, value)) = invalid_offset(&offsets, columns.len()) {
            return Err(GraphError::Offsets { index, value, edges: columns.len() });
        }
        if let Some(edge) = columns.iter().position(|&c| c >= num_src) {
            return Err(GraphError::NodeOutOfRange { edge, end: "source", id: columns[edge], count: num_src });
        }
        let edge_ids = (0..columns.len() as u32).collect();
        Ok(Self::from_valid(num_src, offsets, columns, edge_ids))
    }

    pub(super) fn from_valid(num_src: u32, offsets: Vec<u32>, columns: Vec<u32>, edge_ids: Vec<u32>) -> Self {
        Self { num_src, offsets, columns, edge_ids, transpose: OnceLock::new(), stats: OnceLock::new() }
    }

    /// Number of sources (columns).
    pub fn num_src(&self) -> u32 {
        self.num_src
    }

    /// Number of destinations (rows).
    pub fn num_dst(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// Number of edges.
    pub fn num_edges(&self) -> u32 {
        self.columns.len() as u32
    }

    /// Whether sources and destinations are equally many.
    pub fn is_square(&self) -> bool {
        self.num_src == self.num_dst()
    }

    pub(super) fn check_square(&self, operation: &'static str) -> Result<(), GraphError> {
        if self.is_square() {
            return Ok(());
        }
        Err(GraphError::NotSquare { operation, num_src: self.num_src(), num_dst: self.num_dst() })
    }

    /// Row offsets, `num_dst + 1` of them.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Source of each edge, in edge order.
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The user's id of each edge, in edge order: its position in the list that the graph was built from.
    pub fn edge_ids(&self) -> &[u32] {
        &self.edge_ids
    }

    /// In-degree of destination `i`.
    ///
    /// # Panics
    /// If there is no destination `i`.
    pub fn in_degree(&self, i: u32) -> u32 {
        self.offsets[i as usize + 1] - self.offsets[i as usize]
    }

    /// In-degree of each destination.
    pub fn in_degrees(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.offsets.windows(2).map(|w| w[1] - w[0])
    }

    /// Destination of each edge, in edge order.
    pub fn rows(&self) -> Vec<u32> {
        let mut rows = Vec::with_capacity(self.columns.len());
        for (i, d) in self.in_degrees().enumerate() {
            rows.extend(std::iter::repeat_n(i as u32, d as usize));
        }
        rows
    }

    /// The edges by source, made on the first call and kept.
    pub fn transpose(&self) -> &Transpose {
        self.transpose.get_or_init(|| {
            let (offsets, positions) = group_by(&self.columns, self.num_src);
            let rows = self.rows();
            let columns = positions.iter().map(|&k| rows[k as usize]).collect();
            Transpose { offsets, columns, positions }
        })
    }

    /// Counts and degrees, made on the first call and kept.
    pub fn stats(&self) -> &GraphStats {
        self.stats.get_or_init(|| GraphStats::of(self))
    }

    /// Rows of a per-edge matrix, from the user's listing into edge order.
    ///
    /// # Errors
    /// If `listed` does not have a row for every edge id.
    pub fn to_edge_order(&self, listed: &Matrix) -> Result<Matrix, GraphError> {
        self.check_rows(listed)?;
        Ok(listed.select_rows(&self.edge_ids))
    }

    /// Rows of a per-edge matrix, from edge order back into the user's listing.
    ///
    /// # Errors
    /// If `ordered` does not have a row for every edge, or the edge ids are not those of a plain list (self loops were added).
    pub fn to_listed_order(&self, ordered: &Matrix) -> Result<Matrix, GraphError> {
        self.check_rows(ordered)?;
        let mut position = vec![0u32; self.edge_ids.len()];
        for (k, &e) in self.edge_ids.iter().enumerate() {
            position[e as usize] = k as u32;
        }
        Ok(ordered.select_rows(&position))
    }

    fn check_rows(&self, matrix: &Matrix) -> Result<(), GraphError> {
        let edges = self.columns.len();
        // A graph with replaced loops numbers the new ones past the user's list: its per-edge data is made by gathering.
        if matrix.rows() == edges && self.edge_ids.iter().all(|&e| (e as usize) < edges) {
            return Ok(());
        }
        Err(GraphError::Length {
            what: "the per-edge matrix",
            got: matrix.rows(),
            expected: edges,
            of: "listed edges",
            unit: "edge",
        })
    }
}

/// Groups `0..keys.len()` by key with a counting sort that keeps the order within a group: the group offsets and the sorted positions.
pub(super) fn group_by(keys: &[u32], groups: u32) -> (Vec<u32>, Vec<u32>) {
    let mut offsets = vec![0u32; groups as usize + 1];
    for &k in keys {
        offsets[k as usize + 1] += 1;
    }
    for i in 0..groups as usize {
        offsets[i + 1] += offsets[i];
    }
    let mut next = offsets.clone();
    let mut sorted = vec![0u32; keys.len()];
    for (position, &k) in keys.iter().enumerate() {
        sorted[next[k as usize] as usize] = position as u32;
        next[k as usize] += 1;
    }
    (offsets, sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 sources, 2 destinations; the edge 1 -> 0 is listed twice and row 1 comes first in the list.
    fn rectangular() -> Graph {
        Graph::from_edges(&EdgeList::new(3, 2, vec![2, 1, 0, 1], vec![1, 0, 0, 0]).unwrap())
    }

    #[test]
    fn rows_keep_the_order_of_the_list() {
        let g = rectangular();
        assert_eq!(g.offsets(), [0, 3, 4]);
        assert_eq!(g.columns(), [1, 0, 1, 2]);
        assert_eq!(g.edge_ids(), [1, 2, 3, 0]);
        assert_eq!(g.rows(), [0, 0, 0, 1]);
    }

    #[test]
    fn the_transpose_leads_back() {
        let g = rectangular();
        let t = g.transpose();
        assert_eq!(t.offsets, [0, 1, 3, 4]);
        assert_eq!(t.columns, [0, 0, 0, 1]);
        assert_eq!(t.positions, [1, 0, 2, 3]);
    }

    #[test]
    fn per_edge_data_goes_there_and_back() {
        let g = rectangular();
        let listed = Matrix::new(4, 1, vec![0.0, 1.0, 2.0, 3.0]).unwrap();
        let ordered = g.to_edge_order(&listed).unwrap();
        assert_eq!(ordered.data(), [1.0, 2.0, 3.0, 0.0]);
        assert_eq!(g.to_listed_order(&ordered).unwrap(), listed);
        assert!(g.to_edge_order(&Matrix::zeros(3, 1)).is_err());
    }

    #[test]
    fn broken_rows_are_refused() {
        assert!(Graph::from_csr(3, vec![0, 2, 2], vec![0, 2]).is_ok());
        assert!(Graph::from_csr(0, vec![0], vec![]).is_ok());
        for (offsets, index) in [(vec![], 0), (vec![1, 2], 0), (vec![0, 2, 1, 2], 2), (vec![0, 1], 1), (vec![0, 3], 1)]
        {
            assert!(
                matches!(Graph::from_csr(3, offsets.clone(), vec![0, 2]), Err(GraphError::Offsets { index: i, .. }) if i == index),
                "{offsets:?}"
            );
        }
        assert!(matches!(
            Graph::from_csr(2, vec![0, 1], vec![2]),
            Err(GraphError::NodeOutOfRange { edge: 0, id: 2, count: 2, .. })
        ));
    }
}
