use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Kernel, Variant},
};
use crate::backend::{BackendError, Tensor, kernels::HeadKernels};

impl HeadKernels for WgpuBackend {
    unsafe fn extend_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.heads_by_rows(Kernel::HeadExtend, heads, x.cols() / heads, Some(weight), x, out)
    }

    unsafe fn fold_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.heads_by_rows(Kernel::HeadFold, heads, out.cols() / heads, Some(weight), x, out)
    }

    unsafe fn head_blocks(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let launch = head_launch(Kernel::HeadBlocks, heads, out.rows() / heads, None, x, out);
        self.run(launch.tensor("x", x).tensor("out", out).threads(out.rows() * out.cols()))
    }

    unsafe fn mean_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.heads_by_rows(Kernel::HeadMean, heads, out.cols(), None, x, out)
    }

    unsafe fn spread_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.heads_by_rows(Kernel::HeadSpread, heads, x.cols(), None, x, out)
    }
}

/// What all launches have in common; without a weight there are as many attributes as the output has columns.
fn head_launch<'a>(
    kernel: Kernel,
    heads: usize,
    channels: usize,
    weight: Option<&'a Tensor>,
    x: &Tensor,
    out: &Tensor,
) -> Dispatch<'a> {
    let dispatch = Dispatch::new(Variant::new(kernel))
        .param("tasks", out.rows() * out.cols())
        .param("heads", heads)
        .param("channels", channels)
        .param("attributes", weight.unwrap_or(out).cols())
        .param("weight_stride", weight.map_or(0, Tensor::stride))
        .param("x_stride", x.stride())
        .param("out_stride", out.stride());
    match weight {
        Some(weight) => dispatch.tensor("weight", weight),
        None => dispatch,
    }
}

impl WgpuBackend {
    /// A function of each row, in ranges of rows that fit a binding.
    fn heads_by_rows(
        &self,
        kernel: Kernel,
        heads: usize,
        channels: usize,
        weight: Option<&Tensor>,
        x: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        for rows in row_slices(out.rows(), &[x.stride(), out.stride()], self.capabilities.max_binding_bytes) {
            let part = out.head_rows(rows.len());
            let launch = head_launch(kernel, heads, channels, weight, x, &part)
                .rows("x", x, rows.start, rows.len())
                .rows("out", out, rows.start, rows.len());
            self.run(launch.threads(part.rows() * part.cols()))?;
        }
        Ok(())
    }
}
