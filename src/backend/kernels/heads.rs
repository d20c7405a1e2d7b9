use crate::backend::{BackendError, Tensor};

/// Heads side by side in a row: `x_ih` are the channels of head `h` in row `i`. A weight `[heads * C, D]` is one `[C,
/// D]` a head.
pub trait HeadKernels {
    /// `out_ih = (x_ih, W_h^T x_ih)`: from `[rows, heads * C]` to `[rows, heads * (C + D)]`, so that `<out_ih, (y, e)>
    /// = <x_ih, y + W_h e>`.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn extend_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out_ih = y_ih + W_h t_ih` of `x_ih = (y_ih, t_ih)`: from `[rows, heads * (C + D)]` to `[rows, heads * C]`, the
    /// transpose of [`HeadKernels::extend_heads`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn fold_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// Of a product `[heads * C, heads * (C + D)]` of all heads with all heads, those of a head with its own last `D`
    /// columns: `[heads * C, D]`.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn head_blocks(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out_i = sum over h of x_ih / heads`: from `[rows, heads * C]` to `[rows, C]`.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn mean_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out_ih = x_i / heads`: from `[rows, C]` to `[rows, heads * C]`.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn spread_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;
}
