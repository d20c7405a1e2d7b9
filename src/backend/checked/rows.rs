use super::Checked;
use crate::backend::{Device, Indices, Tensor, kernels::Family};

impl Device {
    /// Runs [`RowKernels::row_dot`](crate::backend::kernels::RowKernels::row_dot).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn row_dot(&self, a: &Tensor, b: &Tensor, divisor: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("row_dot");
        check.features(a.shape(), &[("a", a), ("b", b)])?;
        check.maybe("the divisor", divisor, [a.rows(), 1])?;
        check.tensor("the output", out, [a.rows(), 1])?;
        let wide = check.widen(Family::Rows, a.cols() > 1);
        let (a, b) = (wide.input(a)?, wide.input(b)?);
        // SAFETY: both factors have one shape, and there is one divisor and output a row.
        unsafe { self.backend().row_dot(&a, &b, divisor, out) }
    }

    /// Runs [`RowKernels::l2_normalize`](crate::backend::kernels::RowKernels::l2_normalize).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn l2_normalize(&self, x: &Tensor, epsilon: f32, out: &Tensor) -> Checked {
        let check = self.check("l2_normalize");
        check.features(x.shape(), &[("x", x), ("the output", out)])?;
        let wide = check.widen(Family::Rows, x.cols() > 1);
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: both tensors have one shape.
        unsafe { self.backend().l2_normalize(&x, epsilon, &out) }?;
        wide.store()
    }

    /// Runs [`RowKernels::l2_normalize_grad`](crate::backend::kernels::RowKernels::l2_normalize_grad).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn l2_normalize_grad(&self, x: &Tensor, g: &Tensor, epsilon: f32, out: &Tensor) -> Checked {
        let check = self.check("l2_normalize_grad");
        check.features(x.shape(), &[("x", x), ("the gradient", g), ("the output", out)])?;
        let wide = check.widen(Family::Rows, x.cols() > 1);
        let (x, g, out) = (wide.input(x)?, wide.input(g)?, wide.output(out)?);
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().l2_normalize_grad(&x, &g, epsilon, &out) }?;
        wide.store()
    }

    /// Runs [`RowKernels::argmax`](crate::backend::kernels::RowKernels::argmax).
    ///
    /// # Errors
    /// If there is not one output a row, or there are no columns, or what the device reports.
    pub fn argmax(&self, x: &Tensor, out: &Indices) -> Checked {
        let check = self.check("argmax");
        check.feature("x", x, [x.rows(), x.cols().max(1)])?;
        check.indices("the output", out, x.rows())?;
        let wide = check.widen(Family::Rows, x.cols() > 1);
        let x = wide.input(x)?;
        // SAFETY: there is one output a row, and a first column to start from.
        unsafe { self.backend().argmax(&x, out) }
    }
}
