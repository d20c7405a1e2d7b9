//! Graph neural networks on any GPU.

pub mod data;
pub mod graph;
mod matrix;

pub use matrix::{Matrix, MatrixError, SparseMatrix};
