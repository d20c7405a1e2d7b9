use crate::backend::{BackendError, Tensor};

/// `b_i = sigmoid(<w, (x_i, r_i, x_i - r_i)>)`, `out_i = b_i r_i + (1 - b_i) x_i`.
#[derive(Debug)]
pub struct Gate<'a> {
    /// `[rows, cols]`.
    pub x: &'a Tensor,
    /// `[rows, cols]`.
    pub r: &'a Tensor,
    /// `[1, 3 * cols]`.
    pub weight: &'a Tensor,
    /// `[rows, cols]`.
    pub out: &'a Tensor,
    /// `[rows, 1]`.
    pub b: &'a Tensor,
}

/// With `z_i = <g_i, r_i - x_i> b_i (1 - b_i)`: `grad_x_i = (1 - b_i) g_i + z_i (w_1 + w_3)` and `grad_r_i = b_i g_i +
/// z_i (w_2 - w_3)`.
#[derive(Debug)]
pub struct GateBackward<'a> {
    /// `[rows, cols]`.
    pub x: &'a Tensor,
    /// `[rows, cols]`.
    pub r: &'a Tensor,
    /// `[1, 3 * cols]`.
    pub weight: &'a Tensor,
    /// `[rows, 1]`.
    pub b: &'a Tensor,
    /// `[rows, cols]`: the gradient of `out`.
    pub g: &'a Tensor,
    /// `[rows, cols]`.
    pub grad_x: &'a Tensor,
    /// `[rows, cols]`.
    pub grad_r: &'a Tensor,
    /// `[rows, 1]`.
    pub z: &'a Tensor,
}

/// The gate between a node and its neighbours (Shi et al., "Masked Label Prediction: Unified Message Passing Model for
/// Semi-Supervised Classification", 2021).
pub trait GateKernels {
    /// Runs [`Gate`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gate(&self, args: &Gate<'_>) -> Result<(), BackendError>;

    /// Runs [`GateBackward`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gate_grad(&self, args: &GateBackward<'_>) -> Result<(), BackendError>;

    /// `out = (u, t, u - t)`, the gradient of the weight from `u = z^T x` and `t = z^T r`: from two `[1, cols]` to `[1,
    /// 3 * cols]`.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gate_weight(&self, u: &Tensor, t: &Tensor, out: &Tensor) -> Result<(), BackendError>;
}
