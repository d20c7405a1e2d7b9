use super::Checked;
use crate::backend::{Device, Tensor, kernels::Family};

impl Device {
    /// Runs [`HeadKernels::extend_heads`](crate::backend::kernels::HeadKernels::extend_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn extend_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("extend_heads");
        let channels = check.heads(heads, x.cols())?;
        check.feature("x", x, x.shape())?;
        check.tensor("the weight", weight, [heads * channels, weight.cols()])?;
        check.feature("the output", out, [x.rows(), heads * (channels + weight.cols())])?;
        let wide = check.widen(Family::Heads, channels.is_multiple_of(4));
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: the columns are those of the heads, before and after.
        unsafe { self.backend().extend_heads(heads, &x, weight, &out) }?;
        wide.store()
    }

    /// Runs [`HeadKernels::fold_heads`](crate::backend::kernels::HeadKernels::fold_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn fold_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("fold_heads");
        let channels = check.heads(heads, out.cols())?;
        check.feature("x", x, [out.rows(), heads * (channels + weight.cols())])?;
        check.tensor("the weight", weight, [heads * channels, weight.cols()])?;
        check.feature("the output", out, out.shape())?;
        let wide = check.widen(Family::Heads, channels.is_multiple_of(4));
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: the columns are those of the heads, before and after.
        unsafe { self.backend().fold_heads(heads, &x, weight, &out) }?;
        wide.store()
    }

    /// Runs [`HeadKernels::head_blocks`](crate::backend::kernels::HeadKernels::head_blocks).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn head_blocks(&self, heads: usize, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("head_blocks");
        let channels = check.heads(heads, out.rows())?;
        check.tensor("x", x, [out.rows(), heads * (channels + out.cols())])?;
        check.tensor("the output", out, out.shape())?;
        // SAFETY: the rows and columns are those of the heads.
        unsafe { self.backend().head_blocks(heads, x, out) }
    }

    /// Runs [`HeadKernels::mean_heads`](crate::backend::kernels::HeadKernels::mean_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn mean_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("mean_heads");
        let channels = check.heads(heads, x.cols())?;
        check.feature("x", x, x.shape())?;
        check.feature("the output", out, [x.rows(), channels])?;
        let wide = check.widen(Family::Heads, channels.is_multiple_of(4));
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: the columns are those of the heads.
        unsafe { self.backend().mean_heads(heads, &x, &out) }?;
        wide.store()
    }

    /// Runs [`HeadKernels::spread_heads`](crate::backend::kernels::HeadKernels::spread_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn spread_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("spread_heads");
        let channels = check.heads(heads, out.cols())?;
        check.feature("x", x, [out.rows(), channels])?;
        check.feature("the output", out, out.shape())?;
        let wide = check.widen(Family::Heads, channels.is_multiple_of(4));
        let (x, out) = (wide.input(x)?, wide.output(out)?);
        // SAFETY: the columns are those of the heads.
        unsafe { self.backend().spread_heads(heads, &x, &out) }?;
        wide.store()
    }
}
