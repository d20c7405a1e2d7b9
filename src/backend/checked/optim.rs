use super::Checked;
use crate::backend::{
    Buffer, Device, Tensor,
    kernels::{AdamUpdate, ScaleUpdate},
};

// Every buffer holds more words than the step's state or the loss' scale has.
impl Device {
    /// Runs [`AdamUpdate`].
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn adam(&self, args: &AdamUpdate<'_>) -> Checked {
        let tensors = [("the parameter", args.w), ("the gradient", args.g), ("m", args.m), ("v", args.v)];
        self.check("adam").alike(args.w.shape(), &tensors)?;
        // SAFETY: all tensors have one shape; see above for the buffers.
        unsafe { self.backend().adam(args) }
    }

    /// Runs [`OptimKernels::find_overflow`](crate::backend::kernels::OptimKernels::find_overflow).
    ///
    /// # Errors
    /// What the device reports.
    pub fn find_overflow(&self, g: &Tensor, scale: &Buffer) -> Checked {
        self.check("find_overflow").tensor("the gradient", g, g.shape())?;
        // SAFETY: the tensor is of this device; see above for the buffer.
        unsafe { self.backend().find_overflow(g, scale) }
    }

    /// Runs [`ScaleUpdate`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn update_scale(&self, args: &ScaleUpdate<'_>) -> Checked {
        // SAFETY: see above for the buffer.
        unsafe { self.backend().update_scale(args) }
    }
}
