use crate::backend::{BackendError, Tensor};

/// The step between half and full storage.
pub trait CastKernels {
    /// `out = x` for two tensors of one shape, one of which is stored in 32 bits and the other in half of that. Halves
    /// are read exactly; to a half, numbers are rounded to nearest even, what is too large for an f16 to infinity.
    ///
    /// # Safety
    /// All tensors are of this device, their shapes are equal, and exactly one is of 32-bit numbers.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn cast(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;
}
