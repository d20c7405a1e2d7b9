//! Graph neural networks on any GPU.

pub mod backend;
pub mod data;
pub mod graph;
mod matrix;
pub mod nn;
pub mod ops;
pub mod plan;

pub use matrix::{Matrix, MatrixError, SparseMatrix};
