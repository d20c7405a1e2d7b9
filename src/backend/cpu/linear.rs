use super::{CpuBackend, Input, Output, threads};
use crate::backend::{
    BackendError, Tensor,
    kernels::{Gemm, LinearKernels},
};

impl LinearKernels for CpuBackend {
    unsafe fn gemm(&self, args: &Gemm<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gemm";
        let (m, n, k) = args.dims();
        let (a, b) = (Input::new(args.a, KERNEL)?, Input::new(args.b, KERNEL)?);
        let bias = Input::maybe(args.bias, KERNEL)?;
        let mut out = Output::new(args.out, KERNEL)?;
        let stride = out.stride;
        // Distance between neighbours along a row and along a column of op(a) and op(b).
        let steps = |x: &Input<'_>, transposed: bool| if transposed { (1, x.stride) } else { (x.stride, 1) };
        let ((a_row, a_col), (b_row, b_col)) = (steps(&a, args.transpose_a), steps(&b, args.transpose_b));
        let beta = if args.accumulate || bias.is_some() { 1.0 } else { 0.0 };
        let rows_at_once = if m * n * k < 1 << 18 { m } else { m.div_ceil(4 * threads::count()).next_multiple_of(8) };
        threads::for_each_block(out.all(), rows_at_once.max(1) * stride, |block, out| {
            let rows = out.len() / stride;
            if let Some(bias) = &bias {
                out.chunks_exact_mut(stride).for_each(|row| row[..n].copy_from_slice(bias.row(0)));
            }
            // SAFETY: `out` holds `rows` rows of `stride >= n` floats; `a` holds the rows from `first` on and `b` all of op(b), both with the
            // strides given, since their shapes were checked against `out`'s.
            unsafe {
                let a = a.all().as_ptr().add(if k == 0 { 0 } else { block * rows_at_once * a_row });
                matrixmultiply::sgemm(
                    rows,
                    k,
                    n,
                    1.0,
                    a,
                    a_row as isize,
                    a_col as isize,
                    b.all().as_ptr(),
                    b_row as isize,
                    b_col as isize,
                    beta,
                    out.as_mut_ptr(),
                    stride as isize,
                    1,
                );
            }
        });
        Ok(())
    }

    unsafe fn column_sums(&self, x: &Tensor, out: &Tensor, accumulate: bool) -> Result<(), BackendError> {
        const KERNEL: &str = "column_sums";
        let rows = x.rows();
        let x = Input::new(x, KERNEL)?;
        Output::new(out, KERNEL)?.for_each_row(0, |_, out| {
            if !accumulate {
                out.fill(0.0);
            }
            // Blocks keep the rounding error of long sums small.
            for block in (0..rows).step_by(512) {
                let mut sum = vec![0.0; out.len()];
                for r in block..(block + 512).min(rows) {
                    sum.iter_mut().zip(x.row(r)).for_each(|(s, v)| *s += v);
                }
                out.iter_mut().zip(&sum).for_each(|(o, s)| *o += s);
            }
        });
        Ok(())
    }

    unsafe fn transpose(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "transpose";
        let work = x.words();
        let x = Input::new(x, KERNEL)?;
        Output::new(out, KERNEL)?.for_each_row(work, |r, out| {
            out.iter_mut().enumerate().for_each(|(c, o)| *o = x.memory[c * x.stride + r]);
        });
        Ok(())
    }
}
