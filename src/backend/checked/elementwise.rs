use super::Checked;
use crate::backend::{
    Device, DeviceGraph, Tensor,
    kernels::{DropoutMask, Family, Unary},
};

impl Device {
    /// Runs [`ElementwiseKernels::unary`](crate::backend::kernels::ElementwiseKernels::unary).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn unary(&self, f: Unary, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("unary");
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let out = wide.output(out)?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().unary(f, &x, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::unary_grad`](crate::backend::kernels::ElementwiseKernels::unary_grad).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn unary_grad(&self, f: Unary, y: &Tensor, g: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("unary_grad");
        check.features(out.shape(), &[("y", y), ("the gradient", g), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let y = wide.input(y)?;
        let g = wide.input(g)?;
        let out = wide.output(out)?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().unary_grad(f, &y, &g, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::unary_dropout`](crate::backend::kernels::ElementwiseKernels::unary_dropout).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn unary_dropout(&self, f: Unary, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("unary_dropout");
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let out = wide.output(out)?;
        // SAFETY: both tensors have one shape; every buffer holds more words than the step's state has.
        unsafe { self.backend().unary_dropout(f, mask, &x, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::unary_dropout_grad`](crate::backend::kernels::ElementwiseKernels::unary_dropout_grad).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn unary_dropout_grad(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        y: &Tensor,
        g: &Tensor,
        out: &Tensor,
    ) -> Checked {
        let check = self.check("unary_dropout_grad");
        check.features(out.shape(), &[("y", y), ("the gradient", g), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let y = wide.input(y)?;
        let g = wide.input(g)?;
        let out = wide.output(out)?;
        // SAFETY: all tensors have one shape; every buffer holds more words than the step's state has.
        unsafe { self.backend().unary_dropout_grad(f, mask, &y, &g, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::add`](crate::backend::kernels::ElementwiseKernels::add).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn add(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("add");
        check.features(out.shape(), &[("a", a), ("b", b), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let a = wide.input(a)?;
        let b = wide.input(b)?;
        let out = wide.output(out)?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().add(&a, &b, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::mul`](crate::backend::kernels::ElementwiseKernels::mul).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn mul(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("mul");
        check.features(out.shape(), &[("a", a), ("b", b), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let a = wide.input(a)?;
        let b = wide.input(b)?;
        let out = wide.output(out)?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().mul(&a, &b, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::combine`](crate::backend::kernels::ElementwiseKernels::combine).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn combine(&self, a: f32, x: &Tensor, y: Option<(f32, &Tensor)>, out: &Tensor) -> Checked {
        let check = self.check("combine");
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        check.maybe_feature("y", y.map(|(_, y)| y), out.shape())?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let wide_y = wide.maybe_input(y.map(|(_, y)| y))?;
        let y = y.map(|(b, _)| b).zip(wide_y.as_deref());
        let out = wide.output(out)?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().combine(a, &x, y, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::add_row`](crate::backend::kernels::ElementwiseKernels::add_row).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn add_row(&self, x: &Tensor, row: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("add_row");
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        check.tensor("the row", row, [1, x.cols()])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let out = wide.output(out)?;
        // SAFETY: the row is as wide as the matrices, which have one shape.
        unsafe { self.backend().add_row(&x, row, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::add_assign`](crate::backend::kernels::ElementwiseKernels::add_assign).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn add_assign(&self, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("add_assign");
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let out = wide.update(out)?;
        // SAFETY: both tensors have one shape.
        unsafe { self.backend().add_assign(&x, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::scale_add`](crate::backend::kernels::ElementwiseKernels::scale_add).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn scale_add(&self, offset: f32, factor: &Tensor, x: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("scale_add");
        check.tensor("the factor", factor, [1, 1])?;
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        check.maybe_feature("y", y, out.shape())?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let y = wide.maybe_input(y)?;
        let out = wide.output(out)?;
        // SAFETY: the factor is one number and all other tensors have one shape.
        unsafe { self.backend().scale_add(offset, factor, &x, y.as_deref(), &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::dropout`](crate::backend::kernels::ElementwiseKernels::dropout).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn dropout(&self, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("dropout");
        check.features(out.shape(), &[("x", x), ("the output", out)])?;
        let wide = check.widen(Family::Elementwise, out.cols() > 1);
        let x = wide.input(x)?;
        let out = wide.output(out)?;
        // SAFETY: both tensors have one shape; every buffer holds more words than the step's state has.
        unsafe { self.backend().dropout(mask, &x, &out) }?;
        wide.store()
    }

    /// Runs [`ElementwiseKernels::dropout_sparse`](crate::backend::kernels::ElementwiseKernels::dropout_sparse).
    ///
    /// # Errors
    /// If there is not one value an entry, or what the device reports.
    pub fn dropout_sparse(
        &self,
        mask: &DropoutMask<'_>,
        pattern: &DeviceGraph,
        values: &Tensor,
        out: &Tensor,
    ) -> Checked {
        let check = self.check("dropout_sparse");
        check.graph(pattern)?;
        check.alike([pattern.num_edges(), 1], &[("the values", values), ("the output", out)])?;
        // SAFETY: there is one value an entry; every buffer holds more words than the step's state has.
        unsafe { self.backend().dropout_sparse(mask, pattern, values, out) }
    }
}
