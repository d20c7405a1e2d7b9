use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, Tensor,
    kernels::{BlockCopy, BlockKernels},
};

impl BlockKernels for WgpuBackend {
    unsafe fn copy_block(&self, args: &BlockCopy<'_>) -> Result<(), BackendError> {
        let ([rows, cols], x, out) = (args.shape, args.x, args.out);
        let launch = |rows: usize| {
            Dispatch::new(Variant::new(Kernel::BlockCopy))
                .param("tasks", rows * cols)
                .param("cols", cols)
                .param("x_stride", x.stride())
                .param("out_stride", out.stride())
                .param("from_row", args.from[0])
                .param("from_col", args.from[1])
                .param("to_row", args.to[0])
                .param("to_col", args.to[1])
                .threads(rows * cols)
        };
        // Ranges start at multiples of 64 rows, on both sides only where both blocks start with the first row.
        if args.from[0] > 0 || args.to[0] > 0 {
            return self.run(launch(rows).tensor("x", x).tensor("out", out));
        }
        for rows in row_slices(rows, &[x.stride(), out.stride()], self.capabilities.max_binding_bytes) {
            let launch = launch(rows.len());
            self.run(launch.rows("x", x, rows.start, rows.len()).rows("out", out, rows.start, rows.len()))?;
        }
        Ok(())
    }

    unsafe fn spread_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        self.weighted_blocks(Kernel::BlockSpread, x.cols(), x, weight, y, out)
    }

    unsafe fn merge_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        self.weighted_blocks(Kernel::BlockMerge, out.cols(), x, weight, y, out)
    }
}

impl WgpuBackend {
    /// A function of each row and its weights, `cols` being the columns of a block.
    fn weighted_blocks(
        &self,
        kernel: Kernel,
        cols: usize,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let strides = [x.stride(), out.stride(), weight.stride()];
        for rows in row_slices(out.rows(), &strides, self.capabilities.max_binding_bytes) {
            let (first, count) = (rows.start, rows.len());
            let launch = Dispatch::new(Variant::new(kernel))
                .param("tasks", count * out.cols())
                .param("cols", cols)
                .param("blocks", weight.cols())
                .param("x_stride", x.stride())
                .param("weight_stride", weight.stride())
                .param("out_stride", out.stride())
                .rows("x", x, first, count)
                .rows("weight", weight, first, count)
                .maybe_rows(Flag::WithY, "y", y, first, count)
                .rows("out", out, first, count);
            self.run(launch.threads(count * out.cols()))?;
        }
        Ok(())
    }
}
