use super::Checked;
use crate::backend::{DType, Device, Tensor};

impl Device {
    /// Runs [`CastKernels::cast`](crate::backend::kernels::CastKernels::cast); [`Tensor::to_dtype`] takes any two types.
    ///
    /// # Errors
    /// If the shapes differ, if not exactly one of the tensors is of 32-bit numbers, or what the device reports.
    pub fn cast(&self, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("cast");
        check.shape("x", x, x.shape())?;
        check.shape("the output", out, x.shape())?;
        let expected = if x.dtype().is_half() { DType::F32 } else { DType::F16 };
        check.stored("the output", out, expected, x.dtype().is_half() == out.dtype().is_half())?;
        // SAFETY: the shapes are equal, and one of the tensors is of 32-bit numbers.
        unsafe { self.backend().cast(x, out) }
    }
}
