use super::{Check, Checked};
use crate::backend::{Device, Indices, Tensor};

impl Device {
    /// Runs [`LossKernels::cross_entropy`](crate::backend::kernels::LossKernels::cross_entropy).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn cross_entropy(
        &self,
        x: &Tensor,
        labels: &Indices,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Checked {
        let check = self.check("cross_entropy");
        check.loss(x, weight, losses, grad)?;
        check.indices("the labels", labels, x.rows())?;
        // SAFETY: there is one label, weight and loss a row; kernels clamp labels past the last class.
        unsafe { self.backend().cross_entropy(x, labels, weight, losses, grad) }
    }

    /// Runs [`LossKernels::binary_cross_entropy`](crate::backend::kernels::LossKernels::binary_cross_entropy).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn binary_cross_entropy(
        &self,
        x: &Tensor,
        targets: &Tensor,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Checked {
        let check = self.check("binary_cross_entropy");
        check.loss(x, weight, losses, grad)?;
        check.tensor("the targets", targets, x.shape())?;
        // SAFETY: there is one target an entry, and one weight and loss a row.
        unsafe { self.backend().binary_cross_entropy(x, targets, weight, losses, grad) }
    }
}

impl Check<'_> {
    /// What all losses ask for; rows without columns have none.
    fn loss(&self, x: &Tensor, weight: &Tensor, losses: &Tensor, grad: &Tensor) -> Checked {
        self.tensor("x", x, [x.rows(), x.cols().max(1)])?;
        self.tensor("the weights", weight, [x.rows(), 1])?;
        self.tensor("the losses", losses, [x.rows(), 1])?;
        self.tensor("the gradient", grad, x.shape())
    }
}
