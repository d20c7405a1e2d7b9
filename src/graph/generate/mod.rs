//! Graphs made from a formula.
//!
//! - [`benchmark()`]: the benchmark graphs, the same bit for bit on every machine, proven by [`checksum`].
//! - [`karate()`]: Zachary's karate club, the smallest graph with known communities.
//! - [`PlantedPartition`]: communities with informative features, for examples and tests of learning.
//! - [`SplitMix`]: the random numbers behind them.

mod benchmark;
mod formulas;
mod karate;
mod random;
mod sbm;
mod simple;

pub use benchmark::{BENCHMARK_GRAPHS, BenchmarkGraph, Expected, benchmark, checksum};
pub use karate::karate;
pub use random::{SplitMix, splitmix64};
pub use sbm::PlantedPartition;
