use super::Checked;
use crate::backend::{
    Device, Tensor,
    kernels::{Family, Gate, GateBackward},
};

impl Device {
    /// Runs [`Gate`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn gate(&self, args: &Gate<'_>) -> Checked {
        let check = self.check("gate");
        let [rows, cols] = args.x.shape();
        check.features([rows, cols], &[("x", args.x), ("r", args.r), ("the output", args.out)])?;
        check.tensor("the weight", args.weight, [1, 3 * cols])?;
        check.tensor("the gates", args.b, [rows, 1])?;
        let wide = check.widen(Family::Gate, cols > 1);
        let (x, r, out) = (wide.input(args.x)?, wide.input(args.r)?, wide.output(args.out)?);
        let args = Gate { x: &x, r: &r, out: &out, ..*args };
        // SAFETY: all matrices have one shape, with one gate a row and three weights a column.
        unsafe { self.backend().gate(&args) }?;
        wide.store()
    }

    /// Runs [`GateBackward`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn gate_grad(&self, args: &GateBackward<'_>) -> Checked {
        let check = self.check("gate_grad");
        let [rows, cols] = args.x.shape();
        let matrices = [("x", args.x), ("r", args.r), ("the gradient", args.g), ("x's gradient", args.grad_x)];
        check.features([rows, cols], &matrices)?;
        check.feature("r's gradient", args.grad_r, [rows, cols])?;
        check.tensor("the weight", args.weight, [1, 3 * cols])?;
        check.alike([rows, 1], &[("the gates", args.b), ("the slopes", args.z)])?;
        let wide = check.widen(Family::Gate, cols > 1);
        let (x, r, g) = (wide.input(args.x)?, wide.input(args.r)?, wide.input(args.g)?);
        let (grad_x, grad_r) = (wide.output(args.grad_x)?, wide.output(args.grad_r)?);
        let args = GateBackward { x: &x, r: &r, g: &g, grad_x: &grad_x, grad_r: &grad_r, ..*args };
        // SAFETY: all matrices have one shape, with one gate and slope a row and three weights a column.
        unsafe { self.backend().gate_grad(&args) }?;
        wide.store()
    }

    /// Runs [`GateKernels::gate_weight`](crate::backend::kernels::GateKernels::gate_weight).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn gate_weight(&self, u: &Tensor, t: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("gate_weight");
        check.alike([1, u.cols()], &[("u", u), ("t", t)])?;
        check.tensor("the output", out, [1, 3 * u.cols()])?;
        // SAFETY: both rows have one width, and the output is three times as wide.
        unsafe { self.backend().gate_weight(u, t, out) }
    }
}
