use crate::backend::{BackendError, Indices, Tensor};

/// Losses with their gradients in one pass over the rows.
///
/// `weight` is `[rows, 1]` and adds up to 1: rows of weight 0 count for nothing and get no gradient. `losses` is `[rows, 1]`; its sum is the loss.
pub trait LossKernels {
    /// `losses_r = weight_r * (log sum_c exp(x_rc) - x_r,label(r))`, `grad_rc = weight_r * (softmax(x_r)_c - [c = label(r)])`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn cross_entropy(
        &self,
        x: &Tensor,
        labels: &Indices,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError>;

    /// With targets `t` of `x`'s shape in 0..1 and `C` columns:
    /// `losses_r = weight_r / C * sum_c (max(x, 0) - x t + log(1 + exp(-|x|)))`, `grad_rc = weight_r / C * (sigmoid(x) - t)`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn binary_cross_entropy(
        &self,
        x: &Tensor,
        targets: &Tensor,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError>;
}
