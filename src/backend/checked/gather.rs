use super::Checked;
use crate::backend::{Device, Indices, Tensor, kernels::Family};

impl Device {
    /// Runs [`GatherKernels::gather_rows`](crate::backend::kernels::GatherKernels::gather_rows).
    ///
    /// # Errors
    /// If a row does not exist or the shapes do not fit, or what the device reports.
    pub fn gather_rows(&self, x: &Tensor, rows: &Indices, fill: f32, out: &Tensor) -> Checked {
        let check = self.check("gather_rows");
        check.feature("x", x, x.shape())?;
        check.rows_exist(rows, x.rows())?;
        check.feature("the output", out, [rows.len(), x.cols()])?;
        let wide = check.widen(Family::Gather, x.cols() > 1);
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: every row named exists, and there is one output row for each.
        unsafe { self.backend().gather_rows(&x, rows, fill, &out) }?;
        wide.store()
    }

    /// Runs [`GatherKernels::scatter_rows`](crate::backend::kernels::GatherKernels::scatter_rows).
    ///
    /// # Errors
    /// If a row does not exist or the shapes do not fit, or what the device reports.
    pub fn scatter_rows(&self, x: &Tensor, rows: &Indices, out: &Tensor) -> Checked {
        let check = self.check("scatter_rows");
        check.feature("x", x, [rows.len(), out.cols()])?;
        check.rows_exist(rows, out.rows())?;
        check.feature("the output", out, out.shape())?;
        let wide = check.widen(Family::Gather, x.cols() > 1);
        let (x, out) = (wide.input(x)?, wide.update(out)?);
        // SAFETY: every row named exists, and there is one input row for each.
        unsafe { self.backend().scatter_rows(&x, rows, &out) }?;
        wide.store()
    }
}
