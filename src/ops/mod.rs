//! Differentiable operations over tensors, each with its gradient beside it.
//!
//! A [`Tape`] records what is computed from [`Var`]s; [`Tape::backward`] runs it in reverse. One tape serves one step. Shapes are checked here,
//! once, so that kernels need not.

mod activation;
mod arithmetic;
mod attention;
mod blocks;
mod cast;
mod dropout;
mod error;
mod gat;
mod gate;
mod gather;
mod gatv2;
mod gine;
mod heads;
mod linear;
mod loss;
mod messages;
mod norm;
mod normalize;
mod reduce;
mod sddmm;
mod softmax;
mod spmm;
mod step;
mod tape;
mod transformer;

pub use activation::{activation, dropped_activation};
pub use arithmetic::{add, add_row, combine, head_rows, mul, scale_add};
pub use attention::{AttentionOptions, EdgeAttention};
pub use blocks::{column_range, concat_columns, merge_blocks, spread_blocks, stack_blocks};
pub use cast::to_dtype;
pub use dropout::{dropout, dropout_sparse};
pub use error::OpError;
pub use gat::{gat, gat_with_plans};
pub use gate::gate;
pub use gather::{RowSelection, gather_edges, gather_rows, loop_attributes, scatter_rows};
pub use gatv2::{gatv2, gatv2_with_plans};
pub use gine::gine;
pub use heads::mean_heads;
pub use linear::{linear, linear_typed, transpose};
pub use loss::{ClassTargets, MultiTargets, binary_cross_entropy, cross_entropy};
pub use messages::edge_messages;
pub use norm::{ColumnMoments, batch_norm, layer_norm, normalize_columns};
pub use normalize::l2_normalize;
pub use reduce::{ReducePlanner, reduce, reduce_with_plan, softmax_aggregation, softmax_aggregation_with_plan};
pub use sddmm::{edge_dot, gather_destinations, gather_sources};
pub use softmax::edge_softmax;
pub use spmm::{SpmmInput, degree, spmm, spmm_with_plan};
pub use step::StepState;
pub use tape::{Gradients, Tape, Var};
pub use transformer::{AttentionInput, transformer, transformer_with_plan};
