use crate::backend::{BackendError, Tensor};

/// `out = h * weight + bias` with `h = (x - mean) * inverse_deviation`, column by column.
#[derive(Debug)]
pub struct ColumnNorm<'a> {
    /// `[rows, cols]`.
    pub x: &'a Tensor,
    /// `[1, cols]`.
    pub mean: &'a Tensor,
    /// `1 / sqrt(variance + epsilon)`, `[1, cols]`.
    pub inverse_deviation: &'a Tensor,
    /// Weight and bias, `[1, cols]` each; 1 and 0 without.
    pub affine: Option<[&'a Tensor; 2]>,
    /// `[rows, cols]`.
    pub out: &'a Tensor,
}

/// The gradient of [`ColumnNorm`] towards `x`: `weight * inverse_deviation * g`, and `g - (sum of g + (x - mean) *
/// inverse_deviation^2 * sum of g (x - mean)) / rows` in the place of `g` where mean and deviation are those of `x`.
#[derive(Debug)]
pub struct ColumnNormBackward<'a> {
    /// The gradient of the output, `[rows, cols]`.
    pub g: &'a Tensor,
    /// `[1, cols]`.
    pub inverse_deviation: &'a Tensor,
    /// `[1, cols]`.
    pub weight: Option<&'a Tensor>,
    /// What there is besides where mean and deviation are those of `x`.
    pub own: Option<OwnMoments<'a>>,
    /// `[rows, cols]`.
    pub out: &'a Tensor,
}

/// See [`ColumnNormBackward`].
#[derive(Clone, Copy, Debug)]
pub struct OwnMoments<'a> {
    /// `[rows, cols]`.
    pub x: &'a Tensor,
    /// `[1, cols]`.
    pub mean: &'a Tensor,
    /// The column sums of `g`, `[1, cols]`.
    pub g_sum: &'a Tensor,
    /// Those of `g (x - mean)`, `[1, cols]`.
    pub product_sum: &'a Tensor,
}

/// `out_r = h_r * weight + bias` with `h_r = (x_r - mean(x_r)) / sqrt(var(x_r) + epsilon)`, row by row.
#[derive(Debug)]
pub struct RowNorm<'a> {
    /// `[rows, cols]`.
    pub x: &'a Tensor,
    /// Weight and bias, `[1, cols]` each; 1 and 0 without.
    pub affine: Option<[&'a Tensor; 2]>,
    /// Added to the variance.
    pub epsilon: f32,
    /// `[rows, cols]`.
    pub out: &'a Tensor,
}

/// The gradient of [`RowNorm`]: `grad_x = (v - mean(v) - h mean(v h)) / sqrt(var(x) + epsilon)` with `v = g * weight`,
/// row by row.
#[derive(Debug)]
pub struct RowNormBackward<'a> {
    /// `[rows, cols]`.
    pub x: &'a Tensor,
    /// The gradient of the output, `[rows, cols]`.
    pub g: &'a Tensor,
    /// `[1, cols]`.
    pub weight: Option<&'a Tensor>,
    /// Added to the variance.
    pub epsilon: f32,
    /// `[rows, cols]`.
    pub grad_x: &'a Tensor,
    /// `g * h`, `[rows, cols]`: its column sums are the gradient of the weight.
    pub scaled: Option<&'a Tensor>,
}

/// Batch normalisation (Ioffe, Szegedy, "Batch Normalization", ICML 2015) and layer normalisation (Ba, Kiros, Hinton,
/// "Layer Normalization", 2016).
pub trait NormKernels {
    /// `out_c = sum over r of weight_rc (x_rc - center_c)`, or of `(x_rc - center_c)^2` without a weight; `x` and
    /// `weight` are `[rows, cols]`, `center` and `out` `[1, cols]`. Long sums are cut and merged in a fixed order.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn column_moments(
        &self,
        x: &Tensor,
        center: &Tensor,
        weight: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// Runs [`ColumnNorm`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn column_norm(&self, args: &ColumnNorm<'_>) -> Result<(), BackendError>;

    /// Runs [`ColumnNormBackward`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn column_norm_grad(&self, args: &ColumnNormBackward<'_>) -> Result<(), BackendError>;

    /// Runs [`RowNorm`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn row_norm(&self, args: &RowNorm<'_>) -> Result<(), BackendError>;

    /// Runs [`RowNormBackward`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn row_norm_grad(&self, args: &RowNormBackward<'_>) -> Result<(), BackendError>;
}
