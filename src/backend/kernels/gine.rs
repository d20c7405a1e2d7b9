use std::ops::Range;

use crate::backend::{BackendError, DeviceGraph, Tensor};

/// `out_i = sum over edges k from j to i of max(x_j + e_k, 0)`, for the rows `rows` and their edges.
#[derive(Debug)]
pub struct GineForward<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// The destinations to compute.
    pub rows: Range<u32>,
    /// `[num_src, features]`.
    pub x: &'a Tensor,
    /// `[edges of these rows, features]`, in edge order.
    pub e: &'a Tensor,
    /// `[num_dst, features]`; other rows keep what they hold.
    pub out: &'a Tensor,
}

/// With `m_k = 1` where `x_j + e_k > 0`: `grad_e_k = m_k * g_i` and `grad_x_j = sum over edges k out of j of grad_e_k`, for the sources `rows`
/// and their edges in the order of the transpose.
#[derive(Debug)]
pub struct GineBackward<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// The sources to compute.
    pub rows: Range<u32>,
    /// `[num_src, features]`.
    pub x: &'a Tensor,
    /// `[edges of these rows, features]`, in the order of the transpose; overwritten with `grad_e`.
    pub e: &'a Tensor,
    /// `[num_dst, features]`: the gradient of the output.
    pub g: &'a Tensor,
    /// `[num_src, features]`; other rows keep what they hold.
    pub grad_x: &'a Tensor,
}

/// Sums of rectified messages with edge features (GINE; Hu et al., "Strategies for Pre-training Graph Neural Networks", 2020).
pub trait GineKernels {
    /// Runs [`GineForward`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gine(&self, args: &GineForward<'_>) -> Result<(), BackendError>;

    /// Runs [`GineBackward`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gine_grad(&self, args: &GineBackward<'_>) -> Result<(), BackendError>;
}
