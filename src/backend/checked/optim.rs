use super::Checked;
use crate::backend::{Device, kernels::AdamUpdate};

impl Device {
    /// Runs [`AdamUpdate`].
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn adam(&self, args: &AdamUpdate<'_>) -> Checked {
        let tensors = [("the parameter", args.w), ("the gradient", args.g), ("m", args.m), ("v", args.v)];
        self.check("adam").alike(args.w.shape(), &tensors)?;
        // SAFETY: all tensors have one shape; every buffer holds more words than the step's state has.
        unsafe { self.backend().adam(args) }
    }
}
