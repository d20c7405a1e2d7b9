use crate::backend::{BackendError, DeviceGraph, Tensor};

/// Softmax over the in-edges of each node, column by column. All tensors are `[edges, columns]`, in edge order.
pub trait SoftmaxKernels {
    /// `out_k = exp(scale s_k - m_i) / sum over edges k' into i of exp(scale s_k' - m_i)`, with `m_i` the largest of the row.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn edge_softmax(
        &self,
        graph: &DeviceGraph,
        score: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// The gradient towards `s`, given the weights `w` that [`SoftmaxKernels::edge_softmax`] gave and their gradient `g`:
    /// `out_k = scale w_k (g_k - sum over edges k' into i of w_k' g_k')`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn edge_softmax_grad(
        &self,
        graph: &DeviceGraph,
        weight: &Tensor,
        grad: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError>;
}
