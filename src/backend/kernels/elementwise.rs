use super::DropoutMask;
use crate::backend::{BackendError, DeviceGraph, Tensor};

/// A function of one number whose derivative can be read off its value.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Unary {
    /// `max(x, 0)`.
    Relu,
    /// `x` where positive, else `slope * x`; the slope must be positive.
    LeakyRelu(f32),
    /// `x` where positive, else `alpha * (exp(x) - 1)`; alpha must be positive.
    Elu(f32),
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / x` where positive, else 0.
    Inverse,
    /// `x^(-1/2)` where positive, else 0: a degree into GCN's normalisation.
    InverseSqrt,
}

impl Unary {
    /// The function.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            // Not `x.max(0.0)`, which turns NaN into 0 and hides it.
            Self::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::LeakyRelu(slope) => {
                if x > 0.0 {
                    x
                } else {
                    slope * x
                }
            }
            Self::Elu(alpha) => {
                if x > 0.0 {
                    x
                } else {
                    alpha * x.exp_m1()
                }
            }
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Inverse => {
                if x > 0.0 {
                    1.0 / x
                } else {
                    0.0
                }
            }
            Self::InverseSqrt => {
                if x > 0.0 {
                    1.0 / x.sqrt()
                } else {
                    0.0
                }
            }
        }
    }

    /// The derivative, from the value `y` of the function.
    pub fn derivative(self, y: f32) -> f32 {
        match self {
            Self::Relu => {
                if y > 0.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::LeakyRelu(slope) => {
                if y > 0.0 {
                    1.0
                } else {
                    slope
                }
            }
            Self::Elu(alpha) => {
                if y > 0.0 {
                    1.0
                } else {
                    y + alpha
                }
            }
            Self::Sigmoid => y * (1.0 - y),
            Self::Tanh => 1.0 - y * y,
            Self::Inverse => -y * y,
            Self::InverseSqrt => -0.5 * y * y * y,
        }
    }

    /// The slope or alpha, 0 for functions without one.
    pub fn parameter(self) -> f32 {
        match self {
            Self::LeakyRelu(p) | Self::Elu(p) => p,
            Self::Relu | Self::Sigmoid | Self::Tanh | Self::Inverse | Self::InverseSqrt => 0.0,
        }
    }
}

/// Functions entry by entry; all tensors of a call have one shape.
pub trait ElementwiseKernels {
    /// `out = f(x)`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn unary(&self, f: Unary, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out = g * f'(y)`, where `y = f(x)`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn unary_grad(&self, f: Unary, y: &Tensor, g: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out[r, c] = f(x[r, c]) / (1 - p)` where the mask keeps `(r, c)`, else 0.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn unary_dropout(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        x: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// `out = g / (1 - p) * f'((1 - p) y)` where the mask keeps an entry, else 0; `y` is the result of
    /// [`ElementwiseKernels::unary_dropout`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn unary_dropout_grad(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        y: &Tensor,
        g: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// `out = a + b`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn add(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out = a * b`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn mul(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out = a * x`, and `+ b * y` where given, with numbers `a` and `b`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn combine(&self, a: f32, x: &Tensor, y: Option<(f32, &Tensor)>, out: &Tensor) -> Result<(), BackendError>;

    /// `out[r, c] = x[r, c] + row[0, c]`; `row` is `[1, cols]`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn add_row(&self, x: &Tensor, row: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out += x`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn add_assign(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// `out = (offset + factor) * x`, and `+ y` where given; `factor` is `[1, 1]`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn scale_add(
        &self,
        offset: f32,
        factor: &Tensor,
        x: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// `out[r, c] = x[r, c] / (1 - p)` where the mask keeps `(r, c)`, else 0; see [`DropoutMask`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn dropout(&self, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;

    /// The same for the stored entries of a sparse matrix: `values[k]` stands in row `i` and column `j` of `pattern`, and meets the fate
    /// that the entry `(i, j)` of a dense matrix would.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn dropout_sparse(
        &self,
        mask: &DropoutMask<'_>,
        pattern: &DeviceGraph,
        values: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError>;
}
