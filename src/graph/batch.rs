use super::{Graph, GraphError, invalid_offset};

/// Small graphs side by side in one graph, whose nodes and edges are those of the first, then those of the second, and so on. No edge
/// leads from one to another, so that a layer computes for each what it would compute for that graph alone.
#[derive(Debug)]
pub struct GraphBatch {
    /// The graph of all of them.
    pub graph: Graph,
    /// First node of each small graph, then the number of nodes: graph `g` of the batch has the nodes `offsets[g]..offsets[g + 1]`.
    pub offsets: Vec<u32>,
    /// Which node of the graph that was cut each node is: features are brought along by it.
    pub nodes: Vec<u32>,
    /// Which edge of the graph that was cut each edge is, both in edge order: weights and attributes are brought along by it.
    pub edges: Vec<u32>,
}

impl Graph {
    /// The small graphs `ids` out of the many that this graph consists of, side by side in that order; graph `g` has the nodes
    /// `offsets[g]..offsets[g + 1]`. A graph may be named more than once.
    ///
    /// ```
    /// use hopwise::graph::{EdgeList, Graph};
    ///
    /// // A triangle, and two nodes with an edge.
    /// let all = Graph::from_edges(&EdgeList::square(5, vec![0, 1, 2, 3], vec![1, 2, 0, 4])?);
    /// let batch = all.batch(&[0, 3, 5], &[1, 0])?;
    /// assert_eq!(batch.offsets, [0, 2, 5]);
    /// assert_eq!(batch.nodes, [3, 4, 0, 1, 2]);
    /// assert_eq!(batch.graph.columns(), [0, 4, 2, 3]);
    /// # Ok::<(), hopwise::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// If sources and destinations are different sets of nodes, `offsets` do not cover the nodes, a graph does not exist, an edge of one
    /// of them leads to another graph, or the batch has too many nodes or edges.
    pub fn batch(&self, offsets: &[u32], ids: &[u32]) -> Result<GraphBatch, GraphError> {
        self.check_square("a batch of small graphs")?;
        if let Some((index, value)) = invalid_offset(offsets, self.num_dst() as usize) {
            return Err(GraphError::SmallGraphOffsets { index, value, nodes: self.num_dst() });
        }
        let graphs = offsets.len() - 1;
        if let Some(&id) = ids.iter().find(|&&id| id as usize >= graphs) {
            return Err(GraphError::NoSuchGraph { id, graphs });
        }
        let nodes_of = |id: u32| offsets[id as usize]..offsets[id as usize + 1];
        let edges_of = |id: u32| {
            let nodes = nodes_of(id);
            self.offsets()[nodes.start as usize]..self.offsets()[nodes.end as usize]
        };
        let total = |count: &dyn Fn(u32) -> u32, what| {
            let requested = ids.iter().map(|&id| u64::from(count(id))).sum::<u64>();
            let limit = u64::from(u32::MAX) - 1;
            if requested > limit {
                Err(GraphError::TooLarge { what, requested, limit })
            } else {
                Ok(requested as usize)
            }
        };
        let num_nodes = total(&|id| nodes_of(id).len() as u32, "the number of nodes of a batch")?;
        let num_edges = total(&|id| edges_of(id).len() as u32, "the number of edges of a batch")?;

        let (mut starts, mut row_offsets) = (vec![0], vec![0]);
        let mut nodes = Vec::with_capacity(num_nodes);
        let (mut edges, mut columns) = (Vec::with_capacity(num_edges), Vec::with_capacity(num_edges));
        for &id in ids {
            let (old, start) = (nodes_of(id), nodes.len() as u32);
            for row in old.clone() {
                let row_edges = self.offsets()[row as usize]..self.offsets()[row as usize + 1];
                for k in row_edges {
                    let source = self.columns()[k as usize];
                    if !old.contains(&source) {
                        return Err(GraphError::BetweenGraphs { from: source, to: row, graph: id });
                    }
                    columns.push(source - old.start + start);
                    edges.push(k);
                }
                row_offsets.push(columns.len() as u32);
                nodes.push(row);
            }
            starts.push(nodes.len() as u32);
        }
        let graph = Self::from_csr(num_nodes as u32, row_offsets, columns)?;
        Ok(GraphBatch { graph, offsets: starts, nodes, edges })
    }
}

impl GraphBatch {
    /// Number of small graphs.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The graph whose sources are the nodes and whose destinations are the small graphs, with an edge from each node to its graph:
    /// what is summed over its edges is summed over the nodes of each small graph.
    ///
    /// # Errors
    /// If [`GraphBatch::offsets`] were changed to what does not cover the nodes.
    pub fn members(&self) -> Result<Graph, GraphError> {
        let nodes = self.graph.num_dst();
        if let Some((index, value)) = invalid_offset(&self.offsets, nodes as usize) {
            return Err(GraphError::SmallGraphOffsets { index, value, nodes });
        }
        Graph::from_csr(nodes, self.offsets.clone(), (0..nodes).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::EdgeList;

    /// Graphs of 3, 0, 2 and 1 nodes, with a loop and a repeated edge.
    fn four() -> (Graph, [u32; 5]) {
        let edges = EdgeList::square(6, vec![4, 2, 0, 2, 3, 5], vec![3, 1, 1, 1, 4, 5]).unwrap();
        (Graph::from_edges(&edges), [0, 3, 3, 5, 6])
    }

    #[test]
    fn graphs_stand_side_by_side_in_the_order_asked_for() {
        let (all, offsets) = four();
        let batch = all.batch(&offsets, &[3, 1, 0, 2, 3]).unwrap();
        assert_eq!((batch.len(), batch.offsets.as_slice()), (5, [0, 1, 1, 4, 6, 7].as_slice()));
        assert_eq!(batch.nodes, [5, 0, 1, 2, 3, 4, 5]);
        assert_eq!(batch.graph.offsets(), [0, 1, 1, 4, 4, 5, 6, 7]);
        assert_eq!(batch.graph.columns(), [0, 3, 1, 3, 5, 4, 6]);
        // Edges 2, 0, 2 -> 1 in the order of the list, then 4 -> 3 and 3 -> 4.
        assert_eq!(batch.edges, [5, 0, 1, 2, 3, 4, 5]);
        let members = batch.members().unwrap();
        assert_eq!((members.offsets(), members.num_src()), (batch.offsets.as_slice(), 7));
        assert_eq!(members.columns(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn all_graphs_in_order_are_the_graph_itself() {
        let (all, offsets) = four();
        let batch = all.batch(&offsets, &[0, 1, 2, 3]).unwrap();
        assert_eq!((batch.graph.offsets(), batch.graph.columns()), (all.offsets(), all.columns()));
        let none = all.batch(&offsets, &[]).unwrap();
        assert!(none.is_empty() && none.graph.num_dst() == 0 && none.members().unwrap().num_dst() == 0);
    }

    #[test]
    fn wrong_batches_are_refused_with_their_numbers() {
        let (all, offsets) = four();
        let message = |offsets: &[u32], ids: &[u32]| all.batch(offsets, ids).unwrap_err().to_string();
        assert!(message(&offsets, &[0, 4]).contains("graph 4") && message(&offsets, &[4]).contains("0 to 3"));
        for wrong in [&[][..], &[0, 3], &[1, 6], &[0, 4, 3, 6], &[0, 7, 6]] {
            assert!(matches!(all.batch(wrong, &[0]), Err(GraphError::SmallGraphOffsets { nodes: 6, .. })), "{wrong:?}");
        }
        assert!(message(&[0, 2, 6], &[0]).contains("2 -> 1"), "{}", message(&[0, 2, 6], &[0]));
        let wide = Graph::from_edges(&EdgeList::new(2, 3, vec![], vec![]).unwrap());
        assert!(matches!(wide.batch(&[0, 3], &[0]), Err(GraphError::NotSquare { .. })));
        let mut changed = all.batch(&offsets, &[0]).unwrap();
        changed.offsets[1] = 9;
        assert!(changed.members().is_err());
    }
}
