use crate::backend::{BackendError, Indices, Tensor};

/// Functions row by row.
pub trait RowKernels {
    /// `out_r = <a_r, b_r> / divisor_r`, 0 where the divisor is 0; `out` and `divisor` are `[rows, 1]`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn row_dot(
        &self,
        a: &Tensor,
        b: &Tensor,
        divisor: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// `out_r = x_r / max(|x_r|, epsilon)` with the Euclidean norm.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn l2_normalize(&self, x: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError>;

    /// The gradient of [`RowKernels::l2_normalize`] towards `x`, given that of its output:
    /// `(g_r - y_r <g_r, y_r>) / |x_r|` where the norm is above `epsilon`, else `g_r / epsilon`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn l2_normalize_grad(&self, x: &Tensor, g: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError>;

    /// The column of the largest entry of each row, the first of equals.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn argmax(&self, x: &Tensor, out: &Indices) -> Result<(), BackendError>;
}
