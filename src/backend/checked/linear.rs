use super::Checked;
use crate::backend::{
    Device, Tensor,
    kernels::{Family, Gemm},
};

impl Device {
    /// Runs [`Gemm`]. Each matrix is of 32-bit numbers or of halves of one type.
    ///
    /// # Errors
    /// If the shapes do not fit each other, or what the device reports.
    pub fn gemm(&self, args: &Gemm<'_>) -> Checked {
        let check = self.check("gemm");
        let (m, n, k) = args.dims();
        check.argument("the number of transposed factors", args.transpose_a && args.transpose_b, "2", "at most 1")?;
        check.argument("a bias of an added product", args.accumulate && args.bias.is_some(), "given", "none")?;
        let shape = |rows, cols, transposed| if transposed { [cols, rows] } else { [rows, cols] };
        check.mixed("a", args.a, shape(m, k, args.transpose_a))?;
        check.mixed("b", args.b, shape(k, n, args.transpose_b))?;
        check.maybe("the bias", args.bias, [1, n])?;
        check.mixed("the output", args.out, [m, n])?;
        let wide = check.widen(Family::Linear, args.a.cols() > 1 && args.b.cols() > 1 && n > 1);
        let (a, b) = (wide.input(args.a)?, wide.input(args.b)?);
        let out = if args.accumulate { wide.update(args.out)? } else { wide.output(args.out)? };
        let args = Gemm { a: &a, b: &b, out: &out, ..*args };
        // SAFETY: the factors' inner sizes agree, and the output has the outer ones.
        unsafe { self.backend().gemm(&args) }?;
        wide.store()
    }

    /// Runs [`LinearKernels::column_sums`](crate::backend::kernels::LinearKernels::column_sums). Sums have 32 bits.
    ///
    /// # Errors
    /// If the widths differ, or what the device reports.
    pub fn column_sums(&self, x: &Tensor, out: &Tensor, accumulate: bool) -> Checked {
        let check = self.check("column_sums");
        check.feature("x", x, x.shape())?;
        check.tensor("the output", out, [1, x.cols()])?;
        let wide = check.widen(Family::Linear, x.cols() > 1);
        let x = wide.input(x)?;
        // SAFETY: there is one output a column.
        unsafe { self.backend().column_sums(&x, out, accumulate) }
    }

    /// Runs [`LinearKernels::transpose`](crate::backend::kernels::LinearKernels::transpose).
    ///
    /// # Errors
    /// If the shapes do not mirror each other, or what the device reports.
    pub fn transpose(&self, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("transpose");
        check.feature("x", x, x.shape())?;
        check.feature("the output", out, [x.cols(), x.rows()])?;
        let wide = check.widen(Family::Linear, x.cols() > 1 && x.rows() > 1);
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: the shapes mirror each other.
        unsafe { self.backend().transpose(&x, &out) }?;
        wide.store()
    }
}
