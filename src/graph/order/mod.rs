//! Orders of nodes. Where neighbours have numbers near to each other, the rows of features that neighbouring rows gather
//! are the same ones, and the cache has them.

mod adjacency;
mod communities;
mod cuthill_mckee;

use super::{Graph, GraphError, parallel};
use adjacency::Adjacency;

/// Rows that one thread works on at a time.
const ROWS_A_PIECE: usize = 1 << 10;

/// An order of the nodes of a graph: which node stands at each position.
///
/// Everything that belongs to nodes is put in order and back by it:
///
/// ```
/// use hopwise::{Matrix, graph::{EdgeList, Graph, NodeOrder}};
///
/// let graph = Graph::from_edges(&EdgeList::square(4, vec![0, 2, 0, 3], vec![2, 0, 3, 0])?);
/// let features = Matrix::new(4, 1, vec![0.0, 1.0, 2.0, 3.0]).unwrap();
/// let order = NodeOrder::communities(&graph)?;
///
/// let reordered = graph.reordered(&order)?.graph;
/// let in_order = features.select_rows(order.nodes());
/// // What a model computes of these two is brought back row by row.
/// assert_eq!(in_order.select_rows(order.positions()), features);
/// # assert_eq!(reordered.num_edges(), 4);
/// # Ok::<(), hopwise::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOrder {
    nodes: Vec<u32>,
    positions: Vec<u32>,
}

/// A graph whose nodes are numbered by their positions in an order.
#[derive(Debug)]
pub struct ReorderedGraph {
    /// The graph. Its edges keep the order within their row, and the user's ids: ties are decided as before. Dropout draws
    /// other masks, those of features by position, and those of attention for loops that a layer adds.
    pub graph: Graph,
    /// Which edge of the original each edge is, both in edge order: weights and attributes are brought along by it.
    pub edges: Vec<u32>,
}

impl NodeOrder {
    /// The order in which `nodes` lists the nodes.
    ///
    /// # Errors
    /// [`GraphError::Order`] if a node is missing, listed twice or out of range.
    pub fn new(nodes: Vec<u32>) -> Result<Self, GraphError> {
        const NONE: u32 = u32::MAX;
        let mut positions = vec![NONE; nodes.len()];
        for (position, &node) in nodes.iter().enumerate() {
            match positions.get_mut(node as usize) {
                Some(at) if *at == NONE => *at = position as u32,
                _ => return Err(GraphError::Order { position, node, nodes: nodes.len() }),
            }
        }
        Ok(Self { nodes, positions })
    }

    /// By in-degree, the largest first; nodes of equal degree stay in order. Rows that take equally long are done side by
    /// side.
    ///
    /// # Errors
    /// [`GraphError::NotSquare`] where sources and destinations are different sets of nodes.
    pub fn by_degree(graph: &Graph) -> Result<Self, GraphError> {
        graph.check_square("an order by degree")?;
        let mut nodes: Vec<u32> = (0..graph.num_dst()).collect();
        nodes.sort_by_key(|&node| std::cmp::Reverse(graph.in_degree(node)));
        Self::new(nodes)
    }

    /// Reverse Cuthill-McKee over edges in either direction: breadth first from a node at the graph's rim, neighbours of
    /// small degree first, and then backwards. Meshes and road networks get a narrow band.
    ///
    /// Source: "Reducing the bandwidth of sparse symmetric matrices" (Cuthill, McKee, ACM 1969); where to start after
    /// "Computer Solution of Large Sparse Positive Definite Systems" (George, Liu, 1981).
    ///
    /// # Errors
    /// [`GraphError::NotSquare`] where sources and destinations are different sets of nodes.
    pub fn reverse_cuthill_mckee(graph: &Graph) -> Result<Self, GraphError> {
        graph.check_square("reverse Cuthill-McKee")?;
        Self::new(cuthill_mckee::reverse(&Adjacency::of(graph)))
    }

    /// By communities, and communities of communities: nodes join those to which modularity says they belong, level by
    /// level, and what joined early stands together. The same order on every machine and number of threads.
    ///
    /// Source: "Rabbit Order: Just-in-time Parallel Reordering for Fast Graph Analysis" (Arai et al., IPDPS 2016), with
    /// rounds in which every community chooses at once in place of their locks.
    ///
    /// # Errors
    /// [`GraphError::NotSquare`] where sources and destinations are different sets of nodes.
    pub fn communities(graph: &Graph) -> Result<Self, GraphError> {
        graph.check_square("an order by communities")?;
        Self::new(communities::order(Adjacency::of(graph)))
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node at each position: rows selected by it are in order.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The position of each node: rows in order, selected by it, are back in place.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// Nodes by their positions: labelled nodes, and those of splits.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn renumber(&self, nodes: &[u32]) -> Vec<u32> {
        nodes.iter().map(|&node| self.positions[node as usize]).collect()
    }

    /// One value a node, put in order.
    ///
    /// # Panics
    /// If there are fewer values than nodes.
    pub fn arrange<T: Copy>(&self, values: &[T]) -> Vec<T> {
        self.nodes.iter().map(|&node| values[node as usize]).collect()
    }

    /// The reverse of [`NodeOrder::arrange`].
    ///
    /// # Panics
    /// If there are fewer values than nodes.
    pub fn restore<T: Copy>(&self, values: &[T]) -> Vec<T> {
        self.positions.iter().map(|&position| values[position as usize]).collect()
    }
}

impl Graph {
    /// The same graph with its nodes in another order.
    ///
    /// # Errors
    /// [`GraphError::NotSquare`] where sources and destinations are different sets of nodes, [`GraphError::Length`] if the
    /// order is that of more or fewer nodes.
    pub fn reordered(&self, order: &NodeOrder) -> Result<ReorderedGraph, GraphError> {
        self.check_square("reordering")?;
        let nodes = self.num_dst() as usize;
        if order.len() != nodes {
            let (got, expected) = (order.len(), nodes);
            return Err(GraphError::Length { what: "the order", got, expected, of: "nodes", unit: "node" });
        }
        let mut offsets = Vec::with_capacity(nodes + 1);
        offsets.push(0);
        let mut end = 0;
        offsets.extend(order.nodes.iter().map(|&node| {
            end += self.in_degree(node);
            end
        }));
        let edges = parallel::map_ranges(nodes, ROWS_A_PIECE, |rows| {
            let edges_of = |&node: &u32| self.offsets()[node as usize]..self.offsets()[node as usize + 1];
            order.nodes[rows].iter().flat_map(edges_of).collect::<Vec<u32>>()
        })
        .concat();
        let columns = parallel::map(edges.len(), |k| order.positions[self.columns()[edges[k] as usize] as usize]);
        let edge_ids = parallel::map(edges.len(), |k| self.edge_ids()[edges[k] as usize]);
        Ok(ReorderedGraph { graph: Self::from_valid(nodes as u32, offsets, columns, edge_ids), edges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{EdgeList, TileStats, generate};

    type Method = fn(&Graph) -> Result<NodeOrder, GraphError>;
    const METHODS: [(&str, Method); 3] = [
        ("degree", NodeOrder::by_degree),
        ("Cuthill-McKee", NodeOrder::reverse_cuthill_mckee),
        ("communities", NodeOrder::communities),
    ];

    fn random(nodes: u32, edges: u32, seed: u64) -> Graph {
        let mut draw = generate::SplitMix::stream(seed, 0);
        let mut ends = || (0..edges).map(|_| draw.below(nodes)).collect::<Vec<u32>>();
        Graph::from_edges(&EdgeList::square(nodes, ends(), ends()).unwrap())
    }

    /// Edges with their ids, in the original's numbers.
    fn edges(graph: &Graph, node: impl Fn(u32) -> u32) -> Vec<(u32, u32, u32)> {
        let rows = graph.rows();
        let ends = rows.iter().zip(graph.columns()).zip(graph.edge_ids());
        let mut edges: Vec<_> = ends.map(|((&to, &from), &id)| (id, node(from), node(to))).collect();
        edges.sort_unstable();
        edges
    }

    #[test]
    fn a_reordered_graph_has_the_same_edges() {
        for (seed, nodes, count) in
            [(1, 0, 0), (2, 1, 0), (3, 1, 4), (4, 9, 0), (5, 60, 20), (6, 50, 900), (7, 3_000, 9_000)]
        {
            let graph = random(nodes, count, seed);
            for (name, method) in METHODS {
                let order = method(&graph).unwrap();
                let reordered = graph.reordered(&order).unwrap();
                let case = format!("{name}, {nodes} nodes, {count} edges, seed {seed}");
                assert_eq!(edges(&reordered.graph, |p| order.nodes()[p as usize]), edges(&graph, |n| n), "{case}");
                for (row, &node) in order.nodes().iter().enumerate() {
                    let ids = |graph: &Graph, row: usize| {
                        graph.edge_ids()[graph.offsets()[row] as usize..graph.offsets()[row + 1] as usize].to_vec()
                    };
                    assert_eq!(
                        ids(&reordered.graph, row),
                        ids(&graph, node as usize),
                        "{case}: edges keep their order"
                    );
                }
                let brought: Vec<u32> = reordered.edges.iter().map(|&k| graph.edge_ids()[k as usize]).collect();
                assert_eq!(brought, reordered.graph.edge_ids(), "{case}");
            }
        }
    }

    #[test]
    fn values_go_there_and_back() {
        let order = NodeOrder::new(vec![2, 0, 1]).unwrap();
        assert_eq!(order.positions(), [1, 2, 0]);
        assert_eq!(order.arrange(&['a', 'b', 'c']), ['c', 'a', 'b']);
        assert_eq!(order.restore(&['c', 'a', 'b']), ['a', 'b', 'c']);
        assert_eq!(order.renumber(&[0, 0, 2]), [1, 1, 0]);
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for (nodes, position) in [(vec![0, 0], 1), (vec![0, 2], 1), (vec![u32::MAX], 0)] {
            let error = NodeOrder::new(nodes).unwrap_err();
            assert!(matches!(error, GraphError::Order { position: p, .. } if p == position), "{error}");
        }
        let rectangular = Graph::from_edges(&EdgeList::new(3, 2, vec![2], vec![1]).unwrap());
        for (name, method) in METHODS {
            assert!(matches!(method(&rectangular), Err(GraphError::NotSquare { .. })), "{name}");
        }
        let order = NodeOrder::new(vec![1, 0]).unwrap();
        assert!(matches!(random(3, 4, 1).reordered(&order), Err(GraphError::Length { .. })));
        assert!(matches!(rectangular.reordered(&order), Err(GraphError::NotSquare { .. })));
    }

    #[test]
    fn degrees_fall() {
        let graph = random(300, 2_000, 8);
        let reordered = graph.reordered(&NodeOrder::by_degree(&graph).unwrap()).unwrap().graph;
        assert!(reordered.in_degrees().collect::<Vec<_>>().is_sorted_by(|a, b| a >= b));
    }

    /// A grid, its nodes scattered.
    fn scattered_grid(side: u32, by: u32) -> Graph {
        let at = |x: u32, y: u32| ((u64::from(y * side + x) * u64::from(by) + 1) % u64::from(side * side)) as u32;
        let pairs: Vec<(u32, u32)> = (0..side)
            .flat_map(|y| (1..side).flat_map(move |x| [((x - 1, y), (x, y)), ((y, x - 1), (y, x))]))
            .map(|((x, y), (v, w))| (at(x, y), at(v, w)))
            .collect();
        let (one, other): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        let both = EdgeList::square(side * side, [one.clone(), other.clone()].concat(), [other, one].concat());
        Graph::from_edges(&both.unwrap())
    }

    #[test]
    fn cuthill_and_mckee_find_the_band_of_a_grid() {
        let graph = scattered_grid(40, 997);
        let bandwidth = |graph: &Graph| {
            let rows = graph.rows();
            rows.iter().zip(graph.columns()).map(|(&i, &j)| i.abs_diff(j)).max().unwrap()
        };
        assert!(bandwidth(&graph) > 1_000);
        let order = NodeOrder::reverse_cuthill_mckee(&graph).unwrap();
        assert!(bandwidth(&graph.reordered(&order).unwrap().graph) <= 41);
    }

    #[test]
    fn communities_are_found_again() {
        // 128 of 131,072 nodes each, 22.4 % of the tiles full before they were scattered.
        let graph = generate::benchmark("blocks-shuffled").unwrap();
        let order = NodeOrder::communities(&graph).unwrap();
        let stats = TileStats::sampled(&graph.reordered(&order).unwrap().graph, usize::MAX);
        assert!(stats.fill() > 0.20, "{} of the tiles are full", stats.fill());
    }

    #[test]
    #[cfg(not(target_arch = "wasm32"))]
    fn the_number_of_threads_does_not_show() {
        // More rows than a thread takes at a time, and a community of more neighbours than are sorted by one.
        let graph = random(6_000, 90_000, 9);
        for (name, method) in METHODS {
            let make = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| method(&graph)).unwrap()
            };
            let alone = make(1);
            assert!(alone == make(2) && alone == make(5), "{name}");
        }
    }
}
