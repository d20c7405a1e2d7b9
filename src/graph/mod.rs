//! Graphs in host memory. No device code.
//!
//! A graph is rectangular: `num_dst` rows gather from `num_src` columns. Row = destination, columns = its in-neighbours. A whole graph
//! is the square case; a sampled block lists its targets first among its sources.
//!
//! - [`EdgeList`]: edges in the order in which the user lists them, with optional weights and attributes; where clean-up happens.
//! - [`Graph`]: the validated compressed rows that kernels take, its transpose, and the user's edge ids.
//! - [`GraphBatch`]: many small graphs side by side in one.
//! - [`GraphStats`]: counts and degrees.
//! - [`NodeOrder`]: orders of nodes in which neighbours stand near each other.
//! - [`Tiles`]: edges as small dense blocks.
//! - [`generate`]: graphs made from a formula.

mod batch;
mod csr;
mod edges;
mod error;
pub mod generate;
mod loops;
mod order;
mod parallel;
mod stats;
mod tiles;

pub use batch::GraphBatch;
pub use csr::{Graph, Transpose};
pub use edges::{EdgeList, Merge};
pub use error::GraphError;
pub use loops::{Looped, NO_EDGE};
pub use order::{NodeOrder, ReorderedGraph};
pub use stats::{GraphStats, degree_bucket};
pub use tiles::{TileStats, Tiles};

/// The first offset that breaks the compressed row form (start at 0, never fall, end at `len`), with its value.
pub(crate) fn invalid_offset(offsets: &[u32], len: usize) -> Option<(usize, u64)> {
    let bad = |i: usize| Some((i, u64::from(offsets[i])));
    if offsets.first() != Some(&0) {
        return if offsets.is_empty() { Some((0, 0)) } else { bad(0) };
    }
    if let Some(i) = offsets.windows(2).position(|w| w[1] < w[0] || w[1] as usize > len) {
        return bad(i + 1);
    }
    let last = offsets.len() - 1;
    if offsets[last] as usize == len { None } else { bad(last) }
}
