use super::{Check, Checked};
use crate::backend::{
    Device, Tensor,
    kernels::{ColumnNorm, ColumnNormBackward, Family, OwnMoments, RowNorm, RowNormBackward},
};

impl Device {
    /// Runs [`NormKernels::column_moments`](crate::backend::kernels::NormKernels::column_moments).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn column_moments(&self, x: &Tensor, center: &Tensor, weight: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("column_moments");
        check.feature("x", x, x.shape())?;
        check.maybe_feature("the weight", weight, x.shape())?;
        check.alike([1, x.cols()], &[("the center", center), ("the output", out)])?;
        let wide = check.widen(Family::Norm, x.cols() > 1);
        let (x, weight) = (wide.input(x)?, wide.maybe_input(weight)?);
        // SAFETY: there is one center and output a column, and one weight an entry.
        unsafe { self.backend().column_moments(&x, center, weight.as_deref(), out) }
    }

    /// Runs [`ColumnNorm`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn column_norm(&self, args: &ColumnNorm<'_>) -> Checked {
        let check = self.check("column_norm");
        check.features(args.x.shape(), &[("x", args.x), ("the output", args.out)])?;
        let columns = [("the mean", args.mean), ("the inverse deviation", args.inverse_deviation)];
        check.alike([1, args.x.cols()], &columns)?;
        check.affine(args.affine, args.x.cols())?;
        let wide = check.widen(Family::Norm, args.x.cols() > 1);
        let (x, out) = (wide.input(args.x)?, wide.output(args.out)?);
        let args = ColumnNorm { x: &x, out: &out, ..*args };
        // SAFETY: both matrices have one shape, and there is one of everything else a column.
        unsafe { self.backend().column_norm(&args) }?;
        wide.store()
    }

    /// Runs [`ColumnNormBackward`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn column_norm_grad(&self, args: &ColumnNormBackward<'_>) -> Checked {
        let check = self.check("column_norm_grad");
        let row = [1, args.g.cols()];
        check.features(args.g.shape(), &[("the gradient", args.g), ("the output", args.out)])?;
        check.tensor("the inverse deviation", args.inverse_deviation, row)?;
        check.maybe("the weight", args.weight, row)?;
        if let Some(own) = args.own {
            check.feature("x", own.x, args.g.shape())?;
            let sums = [("the gradient's sums", own.g_sum), ("the products' sums", own.product_sum)];
            check.tensor("the mean", own.mean, row)?;
            check.alike(row, &sums)?;
        }
        let wide = check.widen(Family::Norm, args.g.cols() > 1);
        let (g, x) = (wide.input(args.g)?, wide.maybe_input(args.own.map(|own| own.x))?);
        let out = wide.output(args.out)?;
        let own = args.own.zip(x.as_deref()).map(|(own, x)| OwnMoments { x, ..own });
        let args = ColumnNormBackward { g: &g, own, out: &out, ..*args };
        // SAFETY: all matrices have one shape, and there is one of everything else a column.
        unsafe { self.backend().column_norm_grad(&args) }?;
        wide.store()
    }

    /// Runs [`RowNorm`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn row_norm(&self, args: &RowNorm<'_>) -> Checked {
        let check = self.check("row_norm");
        check.features(args.x.shape(), &[("x", args.x), ("the output", args.out)])?;
        check.affine(args.affine, args.x.cols())?;
        let wide = check.widen(Family::Norm, args.x.cols() > 1);
        let (x, out) = (wide.input(args.x)?, wide.output(args.out)?);
        let args = RowNorm { x: &x, out: &out, ..*args };
        // SAFETY: both matrices have one shape, and there is one weight and bias a column.
        unsafe { self.backend().row_norm(&args) }?;
        wide.store()
    }

    /// Runs [`RowNormBackward`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn row_norm_grad(&self, args: &RowNormBackward<'_>) -> Checked {
        let check = self.check("row_norm_grad");
        let matrices = [("x", args.x), ("the gradient", args.g), ("x's gradient", args.grad_x)];
        check.features(args.x.shape(), &matrices)?;
        check.maybe("the scaled gradient", args.scaled, args.x.shape())?;
        check.maybe("the weight", args.weight, [1, args.x.cols()])?;
        let wide = check.widen(Family::Norm, args.x.cols() > 1);
        let (x, g, grad_x) = (wide.input(args.x)?, wide.input(args.g)?, wide.output(args.grad_x)?);
        let args = RowNormBackward { x: &x, g: &g, grad_x: &grad_x, ..*args };
        // SAFETY: all matrices have one shape, and there is one weight a column.
        unsafe { self.backend().row_norm_grad(&args) }?;
        wide.store()
    }
}

impl Check<'_> {
    /// A weight and a bias a column.
    fn affine(&self, affine: Option<[&Tensor; 2]>, cols: usize) -> Checked {
        affine.map_or(Ok(()), |[weight, bias]| self.alike([1, cols], &[("the weight", weight), ("the bias", bias)]))
    }
}
