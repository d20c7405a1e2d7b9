//! Benchmark graphs that anyone can make again, bit for bit, so that two programs can be timed on the same work.

use super::{
    formulas::{communities, grid, rmat, skewed},
    random::splitmix64,
    simple::simple_graph,
};
use crate::graph::{Graph, GraphError};

/// The recipe of a benchmark graph: a pure function of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchmarkGraph {
    /// The name.
    pub name: &'static str,
    /// Number of nodes.
    pub nodes: u32,
    /// Edges drawn before reverse edges are added, self loops dropped and parallel edges merged.
    pub drawn_edges: u64,
    /// What must come out, where it has been measured.
    pub expected: Option<Expected>,
    formula: Formula,
    /// Whether the reverse of every edge is added.
    both: bool,
    /// Node `v` becomes `(a * v + 1) mod nodes`, which destroys the locality of ids; `None` leaves them.
    scatter: Option<u64>,
}

/// What a generated graph is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Number of edges.
    pub edges: u32,
    /// The largest in-degree.
    pub max_in_degree: u32,
    /// The [`checksum`] of the graph.
    pub checksum: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Formula {
    Rmat { seed: u64 },
    Communities { size: u64, inside: u64, seed: u64 },
    Skewed { seed: u64 },
    Grid { width: u64, height: u64 },
}

const fn expected(edges: u32, max_in_degree: u32, checksum: u64) -> Option<Expected> {
    Some(Expected { edges, max_in_degree, checksum })
}

/// All benchmark graphs.
///
/// `arxiv-like`, `hubs`, `products-like` and `reddit-like` have a heavy tail of degrees. `products-skewed` stands for sampling work:
/// no node is without edges. `roads` is regular with perfect locality and `roads-shuffled` the same graph with none; `blocks` is
/// locally dense and `blocks-shuffled` the same graph before reordering. `papers-like` takes tens of gigabytes of memory.
pub const BENCHMARK_GRAPHS: &[BenchmarkGraph] = &[
    BenchmarkGraph {
        name: "tiny",
        nodes: 1_000,
        drawn_edges: 5_000,
        expected: expected(4_118, 183, 0xa474_d14f_a565_6634),
        formula: Formula::Rmat { seed: 1 },
        both: false,
        scatter: None,
    },
    BenchmarkGraph {
        name: "arxiv-directed",
        nodes: 169_343,
        drawn_edges: 1_200_000,
        expected: expected(1_153_750, 7_158, 0x4ff5_cefc_dbdc_c3bc),
        formula: Formula::Rmat { seed: 2 },
        both: false,
        scatter: None,
    },
    BenchmarkGraph {
        name: "arxiv-like",
        nodes: 169_343,
        drawn_edges: 1_200_000,
        expected: expected(2_251_932, 11_655, 0x2bc5_1f98_a927_5b9b),
        formula: Formula::Rmat { seed: 2 },
        both: true,
        scatter: Some(100_003),
    },
    BenchmarkGraph {
        name: "hubs",
        nodes: 46_563,
        drawn_edges: 10_700_000,
        expected: expected(12_150_556, 25_219, 0xf7f6_c526_ec96_05e0),
        formula: Formula::Rmat { seed: 5 },
        both: true,
        scatter: Some(10_007),
    },
    BenchmarkGraph {
        name: "roads",
        nodes: 1_000_000,
        drawn_edges: 1_998_000,
        expected: expected(3_996_000, 4, 0x2f1b_648e_fe3e_08bd),
        formula: Formula::Grid { width: 1_000, height: 1_000 },
        both: true,
        scatter: None,
    },
    BenchmarkGraph {
        name: "roads-shuffled",
        nodes: 1_000_000,
        drawn_edges: 1_998_000,
        expected: expected(3_996_000, 4, 0x44bc_72f7_217d_5c34),
        formula: Formula::Grid { width: 1_000, height: 1_000 },
        both: true,
        scatter: Some(618_033),
    },
    BenchmarkGraph {
        name: "blocks",
        nodes: 131_072,
        drawn_edges: 6_000_000,
        expected: expected(9_247_114, 100, 0x0406_1649_94bd_6722),
        formula: Formula::Communities { size: 128, inside: 224, seed: 6 },
        both: true,
        scatter: None,
    },
    BenchmarkGraph {
        name: "blocks-shuffled",
        nodes: 131_072,
        drawn_edges: 6_000_000,
        expected: expected(9_247_114, 100, 0x3f42_9c30_7c3b_0c3f),
        formula: Formula::Communities { size: 128, inside: 224, seed: 6 },
        both: true,
        scatter: Some(81_001),
    },
    BenchmarkGraph {
        name: "products-like",
        nodes: 2_449_029,
        drawn_edges: 62_000_000,
        expected: expected(116_078_478, 163_562, 0xa4e9_cce3_7659_8947),
        formula: Formula::Rmat { seed: 3 },
        both: true,
        scatter: Some(1_000_003),
    },
    BenchmarkGraph {
        name: "products-skewed",
        nodes: 2_449_029,
        drawn_edges: 62_000_000,
        expected: expected(123_995_448, 38_913, 0xee8d_bda6_2753_9f2c),
        formula: Formula::Skewed { seed: 8 },
        both: true,
        scatter: Some(1_000_003),
    },
    BenchmarkGraph {
        name: "reddit-like",
        nodes: 232_965,
        drawn_edges: 57_000_000,
        expected: expected(75_814_870, 97_568, 0x4ff0_6ae9_8fe9_a9ba),
        formula: Formula::Rmat { seed: 4 },
        both: true,
        scatter: Some(100_003),
    },
    BenchmarkGraph {
        name: "papers-like",
        nodes: 111_059_956,
        drawn_edges: 1_615_685_872,
        expected: None,
        formula: Formula::Rmat { seed: 7 },
        both: true,
        scatter: Some(100_000_007),
    },
];

/// Generates the benchmark graph of that name: square, without self loops or parallel edges, columns ascending in each row.
///
/// ```
/// use hopwise::graph::generate;
///
/// let graph = generate::benchmark("tiny")?;
/// assert_eq!((graph.num_dst(), graph.num_edges()), (1_000, 4_118));
/// assert_eq!(generate::checksum(&graph), 0xa474d14fa5656634);
/// # Ok::<(), hopwise::graph::GraphError>(())
/// ```
///
/// # Errors
/// If there is no such graph, or not the memory for it.
pub fn benchmark(name: &str) -> Result<Graph, GraphError> {
    let graph = BENCHMARK_GRAPHS.iter().find(|g| g.name == name).ok_or_else(|| {
        let names: Vec<_> = BENCHMARK_GRAPHS.iter().map(|g| g.name).collect();
        GraphError::Generator(format!("no benchmark graph is named {name:?}: choose from {}", names.join(", ")))
    })?;
    graph.generate()
}

impl BenchmarkGraph {
    /// Generates the graph, as [`benchmark()`] does.
    ///
    /// # Errors
    /// If there is not the memory for it.
    pub fn generate(&self) -> Result<Graph, GraphError> {
        let n = u64::from(self.nodes);
        match self.formula {
            Formula::Rmat { seed } => self.collect(rmat(n, seed)),
            Formula::Communities { size, inside, seed } => self.collect(communities(n, size, inside, seed)),
            Formula::Skewed { seed } => self.collect(skewed(n, seed)),
            Formula::Grid { width, height } => self.collect(grid(width, height)),
        }
    }

    fn collect(&self, edge: impl Fn(u64) -> (u64, u64) + Sync) -> Result<Graph, GraphError> {
        let rename = |v: u64| self.scatter.map_or(v, |a| (a * v + 1) % u64::from(self.nodes)) as u32;
        simple_graph(self.nodes, self.drawn_edges, self.both, |i| {
            let (src, dst) = edge(i);
            (rename(src), rename(dst))
        })
    }
}

/// A number that depends on every row offset and every column, and on their order: proof that two programs hold the same graph.
///
/// `x ^ (y << 1)` where `x` is the exclusive or of [`splitmix64`]`(k * 2^32 + columns[k])` over all `k`, and `y` the same over the
/// row offsets.
pub fn checksum(graph: &Graph) -> u64 {
    let hash = |values: &[u32]| {
        values.iter().enumerate().fold(0, |sum, (k, &value)| sum ^ splitmix64(((k as u64) << 32) + u64::from(value)))
    };
    hash(graph.columns()) ^ (hash(graph.offsets()) << 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graphs of this name and of its variants come out as written down.
    fn check(stem: &str) {
        for recipe in BENCHMARK_GRAPHS.iter().filter(|g| g.name.starts_with(stem)) {
            let graph = recipe.generate().unwrap();
            let out = Expected {
                edges: graph.num_edges(),
                max_in_degree: graph.in_degrees().max().unwrap_or(0),
                checksum: checksum(&graph),
            };
            assert_eq!((graph.num_src(), graph.num_dst()), (recipe.nodes, recipe.nodes), "{}", recipe.name);
            assert_eq!(Some(out), recipe.expected, "{}", recipe.name);
        }
    }

    #[test]
    fn the_small_rmat_graphs_match_their_checksums() {
        check("tiny");
        check("arxiv");
    }

    #[test]
    fn hubs_matches_its_checksum() {
        check("hubs");
    }

    #[test]
    fn roads_match_their_checksums() {
        check("roads");
    }

    #[test]
    fn blocks_match_their_checksums() {
        check("blocks");
    }

    /// `cargo test --release --lib -- --ignored the_large`: up to a minute on two cores.
    #[test]
    #[ignore = "1 GB of memory and up to a minute in a release build"]
    fn the_large_graphs_match_their_checksums() {
        check("products");
        check("reddit");
    }

    #[test]
    fn no_two_nodes_are_renamed_to_the_same() {
        fn gcd(a: u64, b: u64) -> u64 {
            if b == 0 { a } else { gcd(b, a % b) }
        }
        for g in BENCHMARK_GRAPHS {
            assert!(g.scatter.is_none_or(|a| gcd(a, u64::from(g.nodes)) == 1), "{}", g.name);
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let out = benchmark("arxiv").unwrap_err().to_string();
        assert!(out.contains("\"arxiv\"") && out.contains("arxiv-like") && out.contains("blocks"), "{out}");
    }
}
