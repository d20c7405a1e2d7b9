//! What gathering costs: bytes, and where they come from.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::graph::{Graph, TileStats};

/// A family of operations over neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Sums.
    Sum,
    /// Minima or maxima with their argument.
    Min,
    /// Mean, minimum, maximum and deviation in one pass.
    Pna,
    /// Attention of GAT.
    Gat,
    /// Attention of GATv2.
    Gatv2,
    /// Attention of the graph transformer.
    Transformer,
}

/// An operation with its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The operation.
    pub operation: Operation,
    /// Whether gradients are computed, too.
    pub backward: bool,
    /// Heads of attention; 1 for all else.
    pub heads: usize,
    /// Features of a head.
    pub width: usize,
    /// Bytes of a feature: 4, or 2 of halves.
    pub feature_bytes: usize,
}

/// Rows of features that an operation gathers an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gathers {
    /// By destination.
    pub forward: f64,
    /// By destination again, for gradients.
    pub by_destination: f64,
    /// By source, for gradients.
    pub by_source: f64,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Sum, Self::Min, Self::Pna, Self::Gat, Self::Gatv2, Self::Transformer];

    /// The rows that its kernels gather. Of the argument of a minimum a byte a feature is read, a quarter of a row, and the
    /// gradient where it matches.
    pub fn gathers(self) -> Gathers {
        let (forward, by_destination, by_source) = match self {
            Self::Sum => (1.0, 0.0, 1.0),
            Self::Min => (1.0, 0.0, 0.25),
            Self::Pna => (1.0, 0.0, 2.5),
            Self::Gat => (1.0, 1.0, 1.0),
            Self::Gatv2 => (1.0, 1.0, 2.0),
            Self::Transformer => (2.0, 2.0, 2.0),
        };
        Gathers { forward, by_destination, by_source }
    }
}

impl Workload {
    /// Bytes of a row of features.
    pub fn row_bytes(&self) -> f64 {
        (self.heads * self.width * self.feature_bytes) as f64
    }

    /// Bytes of gathered rows, if none is saved by a cache.
    pub fn gathered_bytes(&self, edges: u64) -> f64 {
        let Gathers { forward, by_destination, by_source } = self.operation.gathers();
        let rows = if self.backward { forward + by_destination + by_source } else { forward };
        edges as f64 * rows * self.row_bytes()
    }

    /// Bytes of what is read and written once: the graph, and a few matrices of a row a node.
    pub fn streamed_bytes(&self, nodes: u64, edges: u64) -> f64 {
        let (index, matrices) = if self.backward { (12.0, 5.0) } else { (4.0, 2.0) };
        edges as f64 * index + nodes as f64 * matrices * self.row_bytes()
    }
}

/// Where the rows that a graph's edges gather are found.
#[derive(Clone, Debug, PartialEq)]
pub struct Locality {
    nodes: u64,
    edges: u64,
    by_destination: Side,
    by_source: Side,
}

/// The same for one direction.
#[derive(Clone, Debug, PartialEq)]
struct Side {
    /// Edges for each distinct column of 16 rows side by side.
    edges_a_column: f64,
    /// From the most popular columns on: how many there are, and how many edges have one of them.
    popular: Vec<(u64, u64)>,
}

impl Locality {
    /// That of `graph` in its present order. What neighbouring rows have in common is estimated from a sample of them.
    pub fn of(graph: &Graph) -> Self {
        let transpose = graph.transpose();
        let out_degrees = transpose.offsets.windows(2).map(|w| w[1] - w[0]);
        let sampled = |offsets: &[u32], columns: &[u32]| {
            TileStats::sampled_rows(offsets, columns, TileStats::SAMPLE).edges_a_column()
        };
        Self {
            nodes: u64::from(graph.num_src().max(graph.num_dst())),
            edges: u64::from(graph.num_edges()),
            by_destination: Side {
                edges_a_column: sampled(graph.offsets(), graph.columns()),
                popular: popular(out_degrees),
            },
            by_source: Side {
                edges_a_column: sampled(&transpose.offsets, &transpose.columns),
                popular: popular(graph.in_degrees()),
            },
        }
    }

    /// Edges for each distinct column of 16 destinations side by side, 1 to 16: how many of them a gathered row serves
    /// while it is in the nearest cache.
    pub fn edges_a_column(&self) -> f64 {
        self.by_destination.edges_a_column
    }

    /// The same with another value, to ask what an order would bring.
    pub fn with_edges_a_column(&self, edges: f64) -> Self {
        let with = |side: &Side| Side { edges_a_column: edges, popular: side.popular.clone() };
        Self { by_destination: with(&self.by_destination), by_source: with(&self.by_source), ..self.clone() }
    }
}

/// Cumulative numbers of nodes and of their edges, the largest degrees first.
fn popular(degrees: impl Iterator<Item = u32>) -> Vec<(u64, u64)> {
    let mut nodes_of = BTreeMap::<u32, u64>::new();
    degrees.filter(|&degree| degree > 0).for_each(|degree| *nodes_of.entry(degree).or_default() += 1);
    let (mut nodes, mut edges) = (0, 0);
    nodes_of
        .into_iter()
        .rev()
        .map(|(degree, count)| {
            nodes += count;
            edges += count * u64::from(degree);
            (nodes, edges)
        })
        .collect()
}

impl Side {
    /// The share of edges whose column is among so many of the most popular ones.
    fn share_of(&self, columns: f64) -> f64 {
        let Some(&(all, edges)) = self.popular.last() else { return 1.0 };
        if columns >= all as f64 {
            return 1.0;
        }
        let next = self.popular.partition_point(|&(nodes, _)| nodes as f64 <= columns);
        let (nodes, before) = if next == 0 { (0, 0) } else { self.popular[next - 1] };
        let (more_nodes, more) = (self.popular[next].0 - nodes, self.popular[next].1 - before);
        (before as f64 + more as f64 * (columns - nodes as f64) / more_nodes as f64) / edges as f64
    }
}

/// How fast a device is: what the model needs to know, measured once by `hopwise tune --device`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Bytes a second of a copy, read and written.
    pub copy: f64,
    /// Bytes a second of rows gathered from memory.
    pub memory: f64,
    /// Bytes a second of rows gathered from the largest cache.
    pub cache: f64,
    /// Bytes that this cache holds.
    pub cache_bytes: f64,
    /// Seconds that an operation takes on a graph of no size, forward and with gradients.
    pub latency: [f64; 2],
    /// Bytes a second of gathered rows where neighbouring rows share almost all columns, forward and with gradients: what
    /// the nearest cache gives, or the instructions of the kernel.
    pub near: BTreeMap<Operation, [f64; 2]>,
}

/// What an operation would take, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds.
    pub seconds: f64,
    /// Bytes of gathered rows.
    pub gathered: f64,
    /// Of these, those that the nearest cache does not have.
    pub past_near: f64,
    /// Of these, those that come from memory.
    pub from_memory: f64,
    /// Bytes read and written once.
    pub streamed: f64,
    /// What most of the time goes to.
    pub limit: Limit,
}

/// What bounds an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Rows that come from memory.
    Memory,
    /// Rows that come from the largest cache.
    Cache,
    /// The nearest cache, or instructions.
    Near,
    /// Matrices that are read and written once.
    Streams,
    /// Launches.
    Latency,
}

impl DeviceRates {
    /// What `work` would take on a graph; `None` if the operation was not measured.
    pub fn predict(&self, work: &Workload, graph: &Locality) -> Option<Prediction> {
        let pass = usize::from(work.backward);
        let near = self.near.get(&work.operation)?[pass];
        let Gathers { forward, by_destination, by_source } = work.operation.gathers();
        let rows = match work.backward {
            true => [(forward + by_destination, &graph.by_destination), (by_source, &graph.by_source)],
            false => [(forward, &graph.by_destination), (0.0, &graph.by_source)],
        };
        let (mut past_near, mut from_memory) = (0.0, 0.0);
        for (rows, side) in rows {
            let past = graph.edges as f64 * rows * work.row_bytes() / side.edges_a_column;
            past_near += past;
            // The cache holds rows of every matrix that is gathered.
            let columns = self.cache_bytes / (work.row_bytes() * rows.max(1.0));
            from_memory += past * (1.0 - side.share_of(columns));
        }
        let gathered = work.gathered_bytes(graph.edges);
        let streamed = work.streamed_bytes(graph.nodes, graph.edges);
        let (of_memory, of_cache) = (from_memory / self.memory, (past_near - from_memory) / self.cache);
        let (of_near, of_streams, latency) = (gathered / near, streamed / self.copy, self.latency[pass]);
        let seconds = (of_memory + of_cache).max(of_near) + of_streams + latency;
        let far = if of_memory > of_cache { Limit::Memory } else { Limit::Cache };
        let gathers = if of_near > of_memory + of_cache { (of_near, Limit::Near) } else { (of_memory + of_cache, far) };
        let parts = [gathers, (of_streams, Limit::Streams), (latency, Limit::Latency)];
        let (_, limit) = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Prediction { seconds, gathered, past_near, from_memory, streamed, limit })
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.limit {
            Limit::Memory => "most of it for rows that no cache holds",
            Limit::Cache => "most of it for rows that the largest cache holds",
            Limit::Near => "bound by the nearest cache or by instructions, since neighbouring rows share columns",
            Limit::Streams => "most of it for matrices that are read and written once",
            Limit::Latency => "most of it for launches",
        };
        let mb = |bytes: f64| bytes / 1e6;
        write!(
            f,
            "{:.4} ms, {why}: {:.1} MB of rows are gathered, {:.1} of them past the nearest cache, {:.1} from memory, and {:.1} MB \
             are read and written once",
            1e3 * self.seconds,
            mb(self.gathered),
            mb(self.past_near),
            mb(self.from_memory),
            mb(self.streamed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{EdgeList, generate};

    fn rates() -> DeviceRates {
        DeviceRates {
            copy: 4e12,
            memory: 4e12,
            cache: 8e12,
            cache_bytes: 50e6,
            latency: [5e-6, 1e-5],
            near: Operation::ALL.map(|op| (op, [20e12, 20e12])).into(),
        }
    }

    fn work(operation: Operation, backward: bool, width: usize) -> Workload {
        Workload { operation, backward, heads: 1, width, feature_bytes: 4 }
    }

    #[test]
    fn popular_columns_are_counted_first() {
        // Out-degrees 3, 2, 1, 1, 0.
        let edges = EdgeList::square(5, vec![0, 0, 0, 1, 1, 2, 3], vec![0, 1, 2, 3, 4, 0, 1]).unwrap();
        let side = Locality::of(&Graph::from_edges(&edges)).by_destination;
        assert_eq!(side.popular, [(1, 3), (2, 5), (4, 7)]);
        for (columns, edges) in [(0.0, 0.0), (1.0, 3.0), (1.5, 4.0), (3.0, 6.0), (4.0, 7.0), (9.0, 7.0)] {
            assert!((side.share_of(columns) - edges / 7.0).abs() < 1e-12, "{columns} columns");
        }
        assert_eq!(
            Locality::of(&Graph::from_edges(&EdgeList::square(2, vec![], vec![]).unwrap())).by_source.share_of(0.0),
            1.0
        );
    }

    #[test]
    fn what_bounds_a_pass_is_named() {
        let of = |name| Locality::of(&generate::benchmark(name).unwrap());
        let (blocks, shuffled, tiny) = (of("blocks"), of("blocks-shuffled"), of("tiny"));
        let predict = |graph: &Locality, work: Workload| rates().predict(&work, graph).unwrap();
        // 131,072 rows: 34 MB of 64 features fit the cache, 134 MB of 256 do not.
        let near = predict(&blocks, work(Operation::Sum, false, 64));
        assert_eq!(near.limit, Limit::Near);
        assert!(near.to_string().contains("neighbouring rows share columns"), "{near}");
        assert_eq!(predict(&shuffled, work(Operation::Sum, false, 64)).limit, Limit::Cache);
        assert_eq!(predict(&shuffled, work(Operation::Sum, false, 256)).limit, Limit::Memory);
        assert_eq!(predict(&tiny, work(Operation::Sum, true, 1)).limit, Limit::Latency);
        let [near, far] = [&blocks, &shuffled].map(|graph| predict(graph, work(Operation::Gatv2, true, 256)));
        assert_eq!((near.gathered, near.streamed), (far.gathered, far.streamed));
        assert!(near.seconds < far.seconds && near.past_near < far.past_near / 3.0);
        let at_best = predict(&shuffled.with_edges_a_column(16.0), work(Operation::Gatv2, true, 256));
        assert!(at_best.seconds < near.seconds);
    }

    #[test]
    fn gradients_and_halves_count() {
        let sum = work(Operation::Sum, false, 100);
        assert_eq!((sum.gathered_bytes(10), sum.streamed_bytes(2, 10)), (4_000.0, 1_640.0));
        let both = Workload { backward: true, feature_bytes: 2, ..sum };
        assert_eq!((both.gathered_bytes(10), both.streamed_bytes(2, 10)), (4_000.0, 2_120.0));
        let transformer = work(Operation::Transformer, true, 100);
        assert_eq!(transformer.gathered_bytes(10), 24_000.0);
        let without = DeviceRates { near: BTreeMap::new(), ..rates() };
        let graph = Graph::from_edges(&EdgeList::square(2, vec![0], vec![1]).unwrap());
        assert_eq!(without.predict(&sum, &Locality::of(&graph)), None);
    }
}
