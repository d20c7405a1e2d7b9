//! The kernel families: what each computes, on which shapes. A backend implements every trait here.
//!
//! Shapes are written `[rows, cols]`; `i` is a destination, `j` a source, `k` an edge in edge order. All sums run in 32-bit floats in an
//! order that depends on nothing but the shapes and the plan, so that two runs on one device give the same bits.

mod blocks;
mod cast;
mod elementwise;
mod gat;
mod gate;
mod gather;
mod gatv2;
mod gine;
mod heads;
mod linear;
mod loss;
mod norm;
mod optim;
mod random;
mod reduce;
mod rows;
mod sddmm;
mod softmax;
mod spmm;
mod transformer;

pub use blocks::{BlockCopy, BlockKernels};
pub use cast::CastKernels;
pub use elementwise::{ElementwiseKernels, Unary};
pub use gat::{Gat, GatBackward, GatKernels};
pub use gate::{Gate, GateBackward, GateKernels};
pub use gather::GatherKernels;
pub use gatv2::{EdgeTerm, Gatv2, Gatv2Backward, Gatv2Kernels};
pub use gine::{GineBackward, GineForward, GineKernels};
pub use heads::HeadKernels;
pub use linear::{Gemm, LinearKernels};
pub use loss::LossKernels;
pub use norm::{ColumnNorm, ColumnNormBackward, NormKernels, OwnMoments, RowNorm, RowNormBackward};
pub use optim::{AdamUpdate, LossScale, OptimKernels, ScaleUpdate};
pub(crate) use random::DropoutKey;
pub use random::{DropoutMask, StepData, dropout_keeps, dropout_threshold};
pub use reduce::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, ReduceKernels, Statistic};
pub use rows::RowKernels;
pub use sddmm::{Sddmm, SddmmKernels};
pub use softmax::SoftmaxKernels;
pub use spmm::{Spmm, SpmmKernels};
pub use transformer::{Attention, SpareInput, TransformerBackward, TransformerForward, TransformerKernels};

/// The families whose kernels compute with features, which may be stored in halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// [`BlockKernels`].
    Blocks,
    /// [`ElementwiseKernels`].
    Elementwise,
    /// [`GatKernels`].
    Gat,
    /// [`GateKernels`].
    Gate,
    /// [`GatherKernels`].
    Gather,
    /// [`Gatv2Kernels`].
    Gatv2,
    /// [`GineKernels`].
    Gine,
    /// [`HeadKernels`].
    Heads,
    /// [`LinearKernels`].
    Linear,
    /// [`NormKernels`].
    Norm,
    /// [`ReduceKernels`].
    Reduce,
    /// [`RowKernels`].
    Rows,
    /// [`SddmmKernels`].
    Sddmm,
    /// [`SpmmKernels`].
    Spmm,
    /// [`TransformerKernels`].
    Transformer,
}
