use crate::backend::{BackendError, Buffer, Tensor};

/// One step of Adam for one parameter (Kingma and Ba, 2015), as PyTorch defines it:
/// `g += decay * w` (Adam) or `w -= rate * decay * w` (AdamW, Loshchilov and Hutter, 2019); `m = beta1 m + (1 - beta1) g`; `v = beta2 v + (1 - beta2) g^2`;
/// `w -= rate / c1 * m / (sqrt(v) / c2 + epsilon)`, with the rate and the corrections `c1`, `c2` read from [`super::StepData`].
#[derive(Debug)]
pub struct AdamUpdate<'a> {
    /// A buffer that holds [`super::StepData`].
    pub state: &'a Buffer,
    /// The parameter; updated.
    pub w: &'a Tensor,
    /// Its gradient.
    pub g: &'a Tensor,
    /// First moment; updated.
    pub m: &'a Tensor,
    /// Second moment; updated.
    pub v: &'a Tensor,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// Keeps the denominator from zero.
    pub epsilon: f32,
    /// The weight decay.
    pub weight_decay: f32,
    /// Whether the decay acts on the weights (AdamW) rather than on the gradient.
    pub decoupled: bool,
}

/// Parameter updates.
pub trait OptimKernels {
    /// Runs [`AdamUpdate`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn adam(&self, args: &AdamUpdate<'_>) -> Result<(), BackendError>;
}
