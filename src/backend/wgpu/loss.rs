use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Kernel, Variant},
};
use crate::backend::{BackendError, Indices, Tensor, kernels::LossKernels};

impl LossKernels for WgpuBackend {
    unsafe fn cross_entropy(
        &self,
        x: &Tensor,
        labels: &Indices,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError> {
        self.loss(Kernel::CrossEntropy, x, weight, losses, grad, |d, first, rows| {
            d.words("labels", labels.buffer(), first, rows)
        })
    }

    unsafe fn binary_cross_entropy(
        &self,
        x: &Tensor,
        targets: &Tensor,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError> {
        self.loss(Kernel::BinaryCrossEntropy, x, weight, losses, grad, |d, first, rows| {
            d.rows("targets", targets, first, rows)
        })
    }
}

impl WgpuBackend {
    fn loss<'a>(
        &self,
        kernel: Kernel,
        x: &'a Tensor,
        weight: &'a Tensor,
        losses: &'a Tensor,
        grad: &'a Tensor,
        bind: impl Fn(Dispatch<'a>, usize, usize) -> Dispatch<'a>,
    ) -> Result<(), BackendError> {
        for rows in row_slices(x.rows(), &[x.stride()], self.capabilities.max_binding_bytes) {
            let (first, count) = (rows.start, rows.len());
            let dispatch = Dispatch::new(Variant::new(kernel))
                .param("rows", count)
                .param("cols", x.cols())
                .param("stride", x.stride())
                .rows("x", x, first, count)
                .rows("weight", weight, first, count)
                .rows("losses", losses, first, count)
                .rows("grad", grad, first, count);
            self.run(bind(dispatch, first, count).threads(count))?;
        }
        Ok(())
    }
}
