use bytemuck::{Pod, Zeroable};

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
    /// A buffer that holds [`LossScale`], where the loss was scaled: `g` is multiplied by its inverse, the corrections are
    /// read from it, and nothing changes if it says to skip.
    pub scale: Option<&'a Buffer>,
}

/// What the gradient of the loss is multiplied with, so that small gradients do not vanish where they are stored as f16
/// (Micikevicius et al., "Mixed Precision Training", ICLR 2018). It lives in device memory, and devices adapt it: nothing
/// is read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct LossScale {
    /// The factor of the next step, a power of two.
    pub scale: f32,
    /// One over the factor that the gradients at hand were made with.
    pub inverse: f32,
    /// Updates since the factor changed.
    pub good_steps: u32,
    /// Updates in all.
    pub updates: u32,
    /// Not 0 if a gradient at hand is not finite.
    pub overflow: u32,
    /// Not 0 if the gradients at hand are of no use.
    pub skip: u32,
    /// `1 - beta1^updates`.
    pub bias_correction1: f32,
    /// `sqrt(1 - beta2^updates)`.
    pub bias_correction2_sqrt: f32,
}

impl LossScale {
    /// Factors stay between 1 and this.
    pub const LARGEST: f32 = 16_777_216.0;
}

/// Decides about a step, once all gradients were looked at with [`OptimKernels::find_overflow`]. After an overflow:
/// `skip`, and half of the factor from now on. Otherwise one more update, its corrections, and twice the factor after
/// every `growth_interval` updates.
#[derive(Debug)]
pub struct ScaleUpdate<'a> {
    /// A buffer that holds [`LossScale`].
    pub scale: &'a Buffer,
    /// The logarithm of the decay of Adam's first moment.
    pub ln_beta1: f32,
    /// The logarithm of the decay of Adam's second moment.
    pub ln_beta2: f32,
    /// Updates between two attempts at a larger factor.
    pub growth_interval: u32,
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

    /// Sets [`LossScale::overflow`] if an entry of `g` is not finite.
    ///
    /// # Safety
    /// The tensor and the buffer, which holds a [`LossScale`], are of this device.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn find_overflow(&self, g: &Tensor, scale: &Buffer) -> Result<(), BackendError>;

    /// Runs [`ScaleUpdate`].
    ///
    /// # Safety
    /// The buffer is of this device.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn update_scale(&self, args: &ScaleUpdate<'_>) -> Result<(), BackendError>;
}
