use crate::backend::{BackendError, Tensor};

/// `out = op(a) op(b) + bias`, or `out += op(a) op(b)`; `op` transposes where asked, at most one of the two.
#[derive(Debug)]
pub struct Gemm<'a> {
    /// `[m, k]`, or `[k, m]` transposed.
    pub a: &'a Tensor,
    /// Whether `a` is transposed.
    pub transpose_a: bool,
    /// `[k, n]`, or `[n, k]` transposed.
    pub b: &'a Tensor,
    /// Whether `b` is transposed.
    pub transpose_b: bool,
    /// `[1, n]`, added to every row.
    pub bias: Option<&'a Tensor>,
    /// `[m, n]`.
    pub out: &'a Tensor,
    /// Whether the product is added to what `out` holds. Goes without a bias.
    pub accumulate: bool,
}

impl Gemm<'_> {
    /// `(m, n, k)`.
    pub fn dims(&self) -> (usize, usize, usize) {
        let k = if self.transpose_a { self.a.rows() } else { self.a.cols() };
        (self.out.rows(), self.out.cols(), k)
    }
}

/// Dense products.
pub trait LinearKernels {
    /// Runs [`Gemm`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn gemm(&self, args: &Gemm<'_>) -> Result<(), BackendError>;

    /// `out[0, c] = sum over r of x[r, c]`, added to what `out` holds if `accumulate`; `x` is `[rows, cols]`, `out` `[1, cols]`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn column_sums(&self, x: &Tensor, out: &Tensor, accumulate: bool) -> Result<(), BackendError>;

    /// `out[c, r] = x[r, c]`.
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn transpose(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError>;
}
