//! Reading graphs and the data that comes with them. No device code.
//!
//! [`load()`] takes a file, or what the names of a data set's files begin with, recognises the format and returns a [`Dataset`]: the edges
//! exactly as listed, the [`Recipe`] that turns them into the graph for training, features, labels and splits. [`save`] writes the
//! project's own container, which loads back to an equal data set without parsing.
//!
//! | format | recognised by | module |
//! |---|---|---|
//! | Planetoid pickles | the files `PREFIX.x`, `PREFIX.graph`, ... | `planetoid`, `pickle` |
//! | NPZ | zip's first bytes | `npz` |
//! | Matrix Market | `%%MatrixMarket` | `matrix_market` |
//! | edge list: SNAP text, CSV | 2 or 3 columns on every line | `edge_list` |
//! | edges and targets as CSV | the files `PREFIX_edges.csv`, `PREFIX_target.csv` | `edge_list`, `targets` |
//! | adjacency list | lines of varying length | `adjacency` |
//! | METIS | the extension `.graph` or `.metis` | `metis` |
//! | many small graphs (TU) | a line with one number, then one with two | `tu` |
//! | container | safetensors' first bytes | `container` |
//!
//! Any of the text formats may be compressed by gzip. Readers take hostile input: a wrong file is an error that says where and what was
//! expected, and no size claimed by a file is allocated before it is compared with the bytes that are there.

mod adjacency;
mod container;
mod dataset;
mod edge_list;
mod error;
mod format;
mod ids;
mod input;
mod load;
mod matrix_market;
mod metis;
mod npz;
mod pickle;
mod planetoid;
mod targets;
mod tu;

#[cfg(not(target_arch = "wasm32"))]
pub use container::save;
pub use dataset::{Dataset, Features, GraphSet, Labels, Recipe, Split};
pub use error::DataError;
pub use load::{LoadOptions, load};
