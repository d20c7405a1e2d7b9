use super::{Graph, GraphError, edges::check_edge_count};

/// Marks a loop that does not stem from an edge of the graph before.
pub const NO_EDGE: u32 = u32::MAX;

/// A graph whose self loops were replaced or taken out, and where its edges come from.
#[derive(Debug)]
pub struct Looped {
    /// The graph: in each row the edges that were no loops, in their order, then the new loop, if any. New loop `i` has the edge id `n + i`,
    /// `n` being one past the largest id before; the others keep theirs.
    pub graph: Graph,
    /// For each edge, its position in the edge order of the graph before. A loop that replaces listed ones stems from the last of
    /// them; a new one from [`NO_EDGE`].
    pub source: Vec<u32>,
}

impl Graph {
    /// Takes every self loop out.
    pub fn without_self_loops(&self) -> Looped {
        let mut source: Vec<u32> = Vec::with_capacity(self.columns().len());
        let mut offsets = vec![0];
        for i in 0..self.num_dst() {
            let row = self.offsets()[i as usize]..self.offsets()[i as usize + 1];
            source.extend(row.filter(|&k| self.columns()[k as usize] != i));
            offsets.push(source.len() as u32);
        }
        let pick = |values: &[u32]| source.iter().map(|&k| values[k as usize]).collect();
        let graph = Self::from_valid(self.num_src(), offsets, pick(self.columns()), pick(self.edge_ids()));
        Looped { graph, source }
    }

    /// Takes every self loop out and puts one in for each of the first `min(num_src, num_dst)` nodes.
    ///
    /// Layers that give loops a weight of their own, or a node's loop the weight it had, read it off [`Looped::source`].
    ///
    /// # Errors
    /// [`GraphError::TooLarge`] if the graph with its loops has too many edges.
    pub fn with_self_loops(&self) -> Result<Looped, GraphError> {
        let loops = self.num_src().min(self.num_dst());
        // Past every id in use: those of a part of a graph, or of one that has loops already, are not 0 to the number of edges.
        let first_id = self.edge_ids().iter().map(|&e| e + 1).max().unwrap_or(0);
        check_edge_count(u64::from(first_id.max(self.num_edges())) + u64::from(loops))?;
        let capacity = self.columns().len() + loops as usize;
        let mut offsets = Vec::with_capacity(self.offsets().len());
        let (mut columns, mut edge_ids, mut source) =
            (Vec::with_capacity(capacity), Vec::with_capacity(capacity), Vec::with_capacity(capacity));
        offsets.push(0);
        for i in 0..self.num_dst() {
            let mut last_loop = NO_EDGE;
            for k in self.offsets()[i as usize]..self.offsets()[i as usize + 1] {
                if self.columns()[k as usize] == i {
                    last_loop = k;
                    continue;
                }
                columns.push(self.columns()[k as usize]);
                edge_ids.push(self.edge_ids()[k as usize]);
                source.push(k);
            }
            if i < loops {
                columns.push(i);
                edge_ids.push(first_id + i);
                source.push(last_loop);
            }
            offsets.push(columns.len() as u32);
        }
        Ok(Looped { graph: Graph::from_valid(self.num_src(), offsets, columns, edge_ids), source })
    }

    /// Of a graph with loops: a graph from the `edges_before` edges that it was made of (sources) to its own edges (destinations). An edge comes from
    /// itself, a loop from all others into its node: means over this graph give loops the mean attributes of the node's edges. `source` is
    /// [`Looped::source`].
    ///
    /// # Errors
    /// If there are too many edges, or `source` is that of another graph.
    pub fn loop_means(&self, source: &[u32], edges_before: u32) -> Result<Self, GraphError> {
        let (mut offsets, mut columns) = (vec![0], Vec::new());
        let rows = self.offsets().windows(2).map(|w| w[0] as usize..w[1] as usize);
        for (i, row) in rows.enumerate() {
            let is_loop = |k: usize| self.columns()[k] as usize == i;
            for k in row.clone() {
                if is_loop(k) {
                    columns.extend(row.clone().filter(|&other| !is_loop(other)).map(|other| source[other]));
                } else {
                    columns.push(source[k]);
                }
                check_edge_count(columns.len() as u64)?;
                offsets.push(columns.len() as u32);
            }
        }
        Self::from_csr(edges_before, offsets, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::EdgeList;

    #[test]
    fn one_loop_a_node_and_the_last_listed_one_counts() {
        // Node 1 lists two loops (edges 1 and 3); node 0 has none.
        let g = Graph::from_edges(&EdgeList::square(3, vec![0, 1, 2, 1], vec![1, 1, 1, 1]).unwrap());
        let looped = g.with_self_loops().unwrap();
        assert_eq!(looped.graph.offsets(), [0, 1, 4, 5]);
        assert_eq!(looped.graph.columns(), [0, 0, 2, 1, 2]);
        assert_eq!(looped.graph.edge_ids(), [4, 0, 2, 5, 6]);
        assert_eq!(looped.source, [NO_EDGE, 0, 2, 3, NO_EDGE]);
        let means = looped.graph.loop_means(&looped.source, 4).unwrap();
        assert_eq!(means.offsets(), [0, 0, 1, 2, 4, 4]);
        assert_eq!(means.columns(), [0, 2, 0, 2]);
    }

    #[test]
    fn loops_are_taken_out_and_ids_kept() {
        let g = Graph::from_edges(&EdgeList::square(3, vec![0, 1, 2, 1], vec![1, 1, 1, 0]).unwrap());
        let derived = g.without_self_loops();
        assert_eq!(derived.graph.offsets(), [0, 1, 3, 3]);
        assert_eq!(derived.graph.columns(), [1, 0, 2]);
        assert_eq!(derived.graph.edge_ids(), [3, 0, 2]);
        assert_eq!(derived.source, [0, 1, 3]);
    }

    #[test]
    fn a_block_gets_loops_for_the_nodes_on_both_sides() {
        let g = Graph::from_edges(&EdgeList::new(4, 2, vec![3, 1], vec![0, 0]).unwrap());
        let looped = g.with_self_loops().unwrap();
        assert_eq!(looped.graph.offsets(), [0, 3, 4]);
        assert_eq!(looped.graph.columns(), [3, 1, 0, 1]);
    }
}
