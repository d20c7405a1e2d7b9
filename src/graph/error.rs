use crate::matrix::MatrixError;

/// Why a graph cannot be built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Two arrays that describe the same edges differ in length.
    #[error("{what} has {got} entries, but there are {expected} {of}: list one {unit} per entry")]
    Length {
        /// The array that is off.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length it must have.
        expected: usize,
        /// What is counted by `expected`.
        of: &'static str,
        /// What one entry stands for.
        unit: &'static str,
    },
    /// A node id lies outside the graph.
    #[error(
        "edge {edge} has {end} {id}, but the graph has {count} {end} nodes (ids 0 to {}): renumber the nodes or raise the node count",
        i64::from(*count) - 1
    )]
    NodeOutOfRange {
        /// Position of the edge in the list.
        edge: usize,
        /// `source` or `destination`.
        end: &'static str,
        /// The id found.
        id: u32,
        /// Nodes on that side.
        count: u32,
    },
    /// More edges or nodes than 32-bit offsets can number.
    #[error(
        "{what} is {requested}, but device offsets are 32-bit and hold at most {limit}: split the graph or sample from it"
    )]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// The count.
        requested: u64,
        /// The largest count.
        limit: u64,
    },
    /// Row offsets that do not describe the columns.
    #[error(
        "row offset {index} is {value}, but offsets must start at 0, never fall and end at the number of edges ({edges})"
    )]
    Offsets {
        /// Position in the offsets.
        index: usize,
        /// The offset found there.
        value: u64,
        /// Number of edges.
        edges: usize,
    },
    /// An operation that needs as many sources as destinations.
    #[error("{operation} needs a square graph, but this one has {num_src} sources and {num_dst} destinations")]
    NotSquare {
        /// The operation.
        operation: &'static str,
        /// Sources.
        num_src: u32,
        /// Destinations.
        num_dst: u32,
    },
    /// A weight that has no meaning.
    #[error("edge {edge} has weight {value}: weights must be finite numbers")]
    Weight {
        /// Position of the edge in the list.
        edge: usize,
        /// The weight found.
        value: f32,
    },
    /// Offsets that do not share out all nodes among small graphs.
    #[error(
        "small-graph offset {index} is {value}, but offsets must start at 0, never fall and end at the number of nodes ({nodes})"
    )]
    SmallGraphOffsets {
        /// Position in the offsets.
        index: usize,
        /// The offset found there.
        value: u64,
        /// Number of nodes.
        nodes: u32,
    },
    /// A small graph that is not there.
    #[error("small graph {id} was asked for, but there are {graphs} (0 to {})", *graphs as i64 - 1)]
    NoSuchGraph {
        /// The graph asked for.
        id: u32,
        /// How many there are.
        graphs: usize,
    },
    /// An edge between two graphs that were to be apart.
    #[error(
        "the edge {from} -> {to} leads to small graph {graph} from another one: graphs of a set share no edges, check their offsets"
    )]
    BetweenGraphs {
        /// Its source.
        from: u32,
        /// Its destination.
        to: u32,
        /// The small graph of the destination.
        graph: u32,
    },
    /// A list of nodes that does not name each of them once.
    #[error(
        "position {position} of the order has node {node}, which is not one of {nodes} nodes or stands there a second time: list every node once"
    )]
    Order {
        /// Position in the order.
        position: usize,
        /// The node found there.
        node: u32,
        /// Number of nodes.
        nodes: usize,
    },
    /// A generator was asked for something that does not exist.
    #[error("{0}")]
    Generator(String),
    /// Edge attributes that do not form a matrix.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}
