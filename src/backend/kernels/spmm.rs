use crate::{
    backend::{BackendError, DeviceGraph, Direction, Tensor},
    plan::SpmmPlan,
};

/// `out_r = row_scale_r * sum over edges k of row r of weight_k * column_scale_c(k) * x_c(k)`.
///
/// Rows are the destinations and columns the sources ([`Direction::Forward`]), or the other way round over the transpose, which is the
/// gradient of the former towards `x` with the two scales exchanged. What is left out counts as 1; the mean has `1 / degree` as row scale, GCN's
/// normalisation `d^(-1/2)` on both sides.
#[derive(Debug)]
pub struct Spmm<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// Which side the rows are.
    pub direction: Direction,
    /// `[columns, features]`.
    pub x: &'a Tensor,
    /// `[edges, 1]`, in edge order whatever the direction.
    pub weight: Option<&'a Tensor>,
    /// `[rows, 1]`.
    pub row_scale: Option<&'a Tensor>,
    /// `[columns, 1]`.
    pub column_scale: Option<&'a Tensor>,
    /// `[rows, features]`.
    pub out: &'a Tensor,
    /// How the work is laid out.
    pub plan: &'a SpmmPlan,
}

/// Sparse-dense products: sums over neighbours.
pub trait SpmmKernels {
    /// Runs [`Spmm`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports; [`BackendError::TooLarge`] where even four columns of `x` pass the binding limit.
    unsafe fn spmm(&self, args: &Spmm<'_>) -> Result<(), BackendError>;
}
