use crate::backend::{BackendError, DeviceGraph, Tensor};

/// `out_k = row_scale_i * column_scale_j * <a_i, b_j>` for every edge `k` from `j` to `i`: the gradient of [`super::Spmm`] towards its
/// edge weights, `a` being the gradient of its output and `b` its input.
#[derive(Debug)]
pub struct Sddmm<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// `[num_dst, features]`.
    pub a: &'a Tensor,
    /// `[num_src, features]`.
    pub b: &'a Tensor,
    /// `[num_dst, 1]`.
    pub row_scale: Option<&'a Tensor>,
    /// `[num_src, 1]`.
    pub column_scale: Option<&'a Tensor>,
    /// `[edges, 1]`, in edge order.
    pub out: &'a Tensor,
}

/// Sampled dense-dense products: one number an edge.
pub trait SddmmKernels {
    /// Runs [`Sddmm`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn sddmm(&self, args: &Sddmm<'_>) -> Result<(), BackendError>;
}
