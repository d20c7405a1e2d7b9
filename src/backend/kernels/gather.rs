use crate::backend::{BackendError, Indices, Tensor};

/// Rows moved by number.
pub trait GatherKernels {
    /// `out[r] = x[rows[r]]`, or `fill` throughout where `rows[r]` is [`crate::graph::NO_EDGE`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gather_rows(&self, x: &Tensor, rows: &Indices, fill: f32, out: &Tensor) -> Result<(), BackendError>;

    /// `out[rows[r]] = x[r]`, skipping [`crate::graph::NO_EDGE`]; no row may be named twice. Rows that are not named keep what they hold.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn scatter_rows(&self, x: &Tensor, rows: &Indices, out: &Tensor) -> Result<(), BackendError>;
}
