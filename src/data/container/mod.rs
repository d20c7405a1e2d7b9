//! The project's own container: safetensors (<https://github.com/huggingface/safetensors>), read without parsing.
//!
//! All arrays are tensors, 32-bit unless noted; `E` edges, `N` sources, `M` destinations:
//!
//! | tensor | shape | |
//! |---|---|---|
//! | `edge_index` | `[2, E]` | sources, destinations |
//! | `edge_weight`, `edge_attr` | `[E]`, `[E, A]` | floats |
//! | `x`, or `x_offsets`, `x_indices`, `x_values` | `[N, F]`, or `[N + 1]`, `[nnz]`, `[nnz]` | dense or sparse features |
//! | `y` | `[M]` or, as floats, `[M, C]` | classes or several labels |
//! | `splits.K.train`, `.val`, `.test` | any | the nodes of split `K` |
//! | `node_ids` | `[N]`, 64 bits | |
//! | `graphs.offsets`, `graphs.labels`, `graphs.label_values` | | the last with 64 bits and a sign |
//!
//! What is no array stands in the metadata under the key [`KEY`], as JSON with the version of this layout.

mod read;
#[cfg(test)]
mod tests;
#[cfg(not(target_arch = "wasm32"))]
mod write;

pub(super) use read::{HEAD, is_container, open, read};
#[cfg(not(target_arch = "wasm32"))]
pub use write::save;

/// The key of the metadata, which names the format.
const KEY: &str = "hopwise.dataset";

/// The version of the layout.
const VERSION: u64 = 1;
