//! Differentiable operations over tensors, each with its gradient beside it.
//!
//! A [`Tape`] records what is computed from [`Var`]s; [`Tape::backward`] runs it in reverse. One tape serves one step. Shapes are checked here,
//! once, so that kernels need not.

mod activation;
mod arithmetic;
mod attention;
mod dropout;
mod error;
mod gat;
mod gather;
mod gatv2;
mod gine;
mod linear;
mod loss;
mod normalize;
mod spmm;
mod step;
mod tape;

pub use activation::activation;
pub use arithmetic::{add, add_row, head_rows, scale_add};
pub use attention::{AttentionOptions, EdgeAttention};
pub use dropout::{dropout, dropout_sparse};
pub use error::OpError;
pub use gat::{gat, gat_with_plans};
pub use gather::{RowSelection, gather_edges, gather_rows, loop_attributes, scatter_rows};
pub use gatv2::{gatv2, gatv2_with_plans};
pub use gine::gine;
pub use linear::{linear, transpose};
pub use loss::{ClassTargets, MultiTargets, binary_cross_entropy, cross_entropy};
pub use normalize::l2_normalize;
pub use spmm::{SpmmInput, degree, spmm, spmm_with_plan};
pub use step::StepState;
pub use tape::{Gradients, Tape, Var};
