use super::Graph;

/// Counts and degrees of a graph, as listed: repeated edges and self loops count.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphStats {
    /// Source nodes.
    pub num_src: u32,
    /// Destination nodes.
    pub num_dst: u32,
    /// Edges.
    pub num_edges: u32,
    /// The largest in-degree.
    pub max_in_degree: u32,
    /// The largest out-degree.
    pub max_out_degree: u32,
    /// Edges per destination.
    pub mean_in_degree: f64,
    /// Destinations without in-edges.
    pub zero_in_degree: u32,
    /// Nodes with neither in- nor out-edges. Where sources and destinations are different sets, those of both sides.
    pub isolated: u32,
    /// Edges from a node to itself; 0 where sources and destinations are different sets.
    pub self_loops: u32,
    /// Repeated (source, destination) pairs beyond the first.
    pub duplicates: u32,
    /// Destinations by [`degree_bucket`] of their in-degree.
    pub in_degree_histogram: [u32; 33],
}

/// The bucket of a degree in a histogram by powers of two: 0 for 0, and `b` for degrees in `2^(b-1) .. 2^b`.
pub fn degree_bucket(degree: u32) -> usize {
    (u32::BITS - degree.leading_zeros()) as usize
}

impl GraphStats {
    pub(super) fn of(graph: &Graph) -> Self {
        let (num_src, num_dst, num_edges) = (graph.num_src(), graph.num_dst(), graph.num_edges());
        let mut out_degree = vec![0u32; num_src as usize];
        graph.columns().iter().for_each(|&j| out_degree[j as usize] += 1);

        let (mut self_loops, mut duplicates, mut isolated_rows) = (0, 0, 0);
        let mut in_degree_histogram = [0; 33];
        let mut row = Vec::new();
        for i in 0..num_dst {
            row.clear();
            row.extend_from_slice(
                &graph.columns()[graph.offsets()[i as usize] as usize..graph.offsets()[i as usize + 1] as usize],
            );
            row.sort_unstable();
            duplicates += row.windows(2).filter(|w| w[0] == w[1]).count() as u32;
            self_loops += if graph.is_square() { row.iter().filter(|&&j| j == i).count() as u32 } else { 0 };
            in_degree_histogram[degree_bucket(row.len() as u32)] += 1;
            isolated_rows += u32::from(row.is_empty() && (!graph.is_square() || out_degree[i as usize] == 0));
        }
        let isolated_columns =
            if graph.is_square() { 0 } else { out_degree.iter().filter(|&&d| d == 0).count() as u32 };
        Self {
            num_src,
            num_dst,
            num_edges,
            max_in_degree: graph.in_degrees().max().unwrap_or(0),
            max_out_degree: out_degree.iter().copied().max().unwrap_or(0),
            mean_in_degree: if num_dst == 0 { 0.0 } else { f64::from(num_edges) / f64::from(num_dst) },
            zero_in_degree: in_degree_histogram[0],
            isolated: isolated_rows + isolated_columns,
            self_loops,
            duplicates,
            in_degree_histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::EdgeList;

    #[test]
    fn counts_what_is_listed() {
        let edges = EdgeList::square(6, vec![0, 0, 1, 2, 5, 0], vec![1, 1, 2, 2, 5, 1]).unwrap();
        let graph = Graph::from_edges(&edges);
        let s = graph.stats();
        assert_eq!((s.max_in_degree, s.max_out_degree, s.zero_in_degree), (3, 3, 3));
        assert_eq!((s.isolated, s.self_loops, s.duplicates), (2, 2, 2), "3 and 4 are isolated, 5 has its loop");
        assert_eq!(s.in_degree_histogram[..4], [3, 1, 2, 0]);
        assert_eq!(s.mean_in_degree, 1.0);
    }

    #[test]
    fn the_two_sides_of_a_rectangular_graph_are_different_nodes() {
        let graph = Graph::from_edges(&EdgeList::new(4, 3, vec![0, 1], vec![0, 0]).unwrap());
        assert_eq!((graph.stats().isolated, graph.stats().self_loops), (4, 0));
    }
}
