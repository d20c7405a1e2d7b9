use super::{CpuBackend, Input, Output, threads};
use crate::backend::{
    BackendError, Tensor,
    kernels::{BlockCopy, BlockKernels},
};

impl BlockKernels for CpuBackend {
    unsafe fn copy_block(&self, args: &BlockCopy<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "copy_block";
        let x = Input::new(args.x, KERNEL)?;
        let mut out = Output::new(args.out, KERNEL)?;
        let ([rows, cols], stride) = (args.shape, out.stride);
        let rows = &mut out.all()[args.to[0] * stride..][..rows * stride];
        let work = rows.len();
        threads::for_each_row(rows, stride, work, |r, out| {
            out[args.to[1]..][..cols].copy_from_slice(&x.row(args.from[0] + r)[args.from[1]..][..cols]);
        });
        Ok(())
    }

    unsafe fn spread_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "spread_blocks";
        let (x, weight, y) = (Input::new(x, KERNEL)?, Input::new(weight, KERNEL)?, Input::maybe(y, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words(), |i, out| {
            for (b, (out, weight)) in out.chunks_exact_mut(x.cols.max(1)).zip(weight.row(i)).enumerate() {
                out.iter_mut().zip(x.row(i)).for_each(|(o, x)| *o = weight * x);
                if let Some(y) = &y {
                    out.iter_mut().zip(&y.row(i)[b * x.cols..]).for_each(|(o, y)| *o += y);
                }
            }
        });
        Ok(())
    }

    unsafe fn merge_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "merge_blocks";
        let work = x.words();
        let (x, weight, y) = (Input::new(x, KERNEL)?, Input::new(weight, KERNEL)?, Input::maybe(y, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(work, |i, out| {
            out.fill(0.0);
            for (x, weight) in x.row(i).chunks_exact(out.len().max(1)).zip(weight.row(i)) {
                out.iter_mut().zip(x).for_each(|(o, x)| *o += weight * x);
            }
            if let Some(y) = &y {
                out.iter_mut().zip(y.row(i)).for_each(|(o, y)| *o += y);
            }
        });
        Ok(())
    }
}
