use crate::backend::{BackendError, Tensor};

/// `out[to + (r, c)] = x[from + (r, c)]` for a block of `shape` rows and columns; what lies outside the block stays.
#[derive(Debug)]
pub struct BlockCopy<'a> {
    /// Where the block comes from.
    pub x: &'a Tensor,
    /// Its first row and column there.
    pub from: [usize; 2],
    /// Where it goes.
    pub out: &'a Tensor,
    /// Its first row and column there.
    pub to: [usize; 2],
    /// Its rows and columns.
    pub shape: [usize; 2],
}

/// Blocks of columns side by side: `x_ib` are the `C` columns of block `b` in row `i` of a matrix `[rows, blocks * C]`.
/// `weight` is `[rows, blocks]`.
pub trait BlockKernels {
    /// Runs [`BlockCopy`].
    ///
    /// # Safety
    /// All tensors are of this device, and the block lies within both.
    ///
    /// # Errors
    /// What the device reports; [`BackendError::TooLarge`] where a block that starts below the first row is of a matrix
    /// that passes the binding limit.
    unsafe fn copy_block(&self, args: &BlockCopy<'_>) -> Result<(), BackendError>;

    /// `out_ib = weight_ib x_i`, and `+ y_ib` where given: from `[rows, C]` to `[rows, blocks * C]`.
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn spread_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError>;

    /// `out_i = sum over b of weight_ib x_ib`, and `+ y_i` where given: from `[rows, blocks * C]` to `[rows, C]`, the
    /// transpose of [`BlockKernels::spread_blocks`].
    ///
    /// # Safety
    /// All tensors are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn merge_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError>;
}
