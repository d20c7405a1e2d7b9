use super::Checked;
use crate::backend::{
    Device, Tensor,
    kernels::{BlockCopy, Family},
};

impl Device {
    /// Runs [`BlockCopy`].
    ///
    /// # Errors
    /// If the block does not lie within both matrices, or what the device reports.
    pub fn copy_block(&self, args: &BlockCopy<'_>) -> Checked {
        let check = self.check("copy_block");
        for (what, tensor, first) in [("the source", args.x, args.from), ("the target", args.out, args.to)] {
            check.feature(what, tensor, tensor.shape())?;
            for (side, extent) in tensor.shape().into_iter().enumerate() {
                let end = first[side].saturating_add(args.shape[side]);
                check.argument("the end of a block", end > extent, end, format_args!("at most {extent}"))?;
            }
        }
        let wide = check.widen(Family::Blocks, args.x.cols() > 1 && args.out.cols() > 1);
        let (x, out) = (wide.input(args.x)?, wide.update(args.out)?);
        let args = BlockCopy { x: &x, out: &out, ..*args };
        // SAFETY: the block lies within both matrices.
        unsafe { self.backend().copy_block(&args) }?;
        wide.store()
    }

    /// Runs [`BlockKernels::spread_blocks`](crate::backend::kernels::BlockKernels::spread_blocks).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn spread_blocks(&self, x: &Tensor, weight: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("spread_blocks");
        let ([rows, cols], blocks) = (x.shape(), weight.cols());
        check.feature("x", x, [rows, cols])?;
        check.tensor("the weights", weight, [rows, blocks])?;
        check.maybe_feature("y", y, [rows, blocks * cols])?;
        check.feature("the output", out, [rows, blocks * cols])?;
        let wide = check.widen(Family::Blocks, cols.is_multiple_of(4));
        let (x, y, out) = (wide.input(x)?, wide.maybe_input(y)?, wide.output(out)?);
        // SAFETY: there is one weight a row and block, and the columns are those of the blocks.
        unsafe { self.backend().spread_blocks(&x, weight, y.as_deref(), &out) }?;
        wide.store()
    }

    /// Runs [`BlockKernels::merge_blocks`](crate::backend::kernels::BlockKernels::merge_blocks).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn merge_blocks(&self, x: &Tensor, weight: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("merge_blocks");
        let ([rows, cols], blocks) = (out.shape(), weight.cols());
        check.feature("x", x, [rows, blocks * cols])?;
        check.tensor("the weights", weight, [rows, blocks])?;
        check.maybe_feature("y", y, [rows, cols])?;
        check.feature("the output", out, [rows, cols])?;
        let wide = check.widen(Family::Blocks, cols.is_multiple_of(4));
        let (x, y, out) = (wide.input(x)?, wide.maybe_input(y)?, wide.output(out)?);
        // SAFETY: there is one weight a row and block, and the columns are those of the blocks.
        unsafe { self.backend().merge_blocks(&x, weight, y.as_deref(), &out) }?;
        wide.store()
    }
}
