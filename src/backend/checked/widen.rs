use std::{borrow::Cow, cell::RefCell};

use super::{Check, Checked};
use crate::backend::{BackendError, DType, Tensor, kernels::Family};

/// Gives a kernel 32-bit copies of the halves that its backend does not take, and takes its results back.
///
/// What is written is rounded once, at the end: the same bits as from a kernel that computes in 32 bits and stores
/// halves itself.
pub(super) struct Widen {
    native: bool,
    /// 32-bit outputs, and the tensors that they are to be stored in.
    stores: RefCell<Vec<(Tensor, Tensor)>>,
}

impl Check<'_> {
    /// For the features that were checked; `aligned` as in [`Backend::takes`](crate::backend::Backend::takes).
    pub(super) fn widen(&self, family: Family, aligned: bool) -> Widen {
        let dtype = self.dtype.get().unwrap_or_default();
        let native = !dtype.is_half() || self.device.backend().takes(family, dtype, aligned);
        Widen { native, stores: RefCell::default() }
    }
}

impl Widen {
    /// A tensor that the kernel reads.
    pub(super) fn input<'t>(&self, tensor: &'t Tensor) -> Result<Cow<'t, Tensor>, BackendError> {
        if self.native {
            return Ok(Cow::Borrowed(tensor));
        }
        tensor.to_dtype(DType::F32, "widened features").map(Cow::Owned)
    }

    /// As [`Widen::input`], where there is one.
    pub(super) fn maybe_input<'t>(&self, tensor: Option<&'t Tensor>) -> Result<Option<Cow<'t, Tensor>>, BackendError> {
        tensor.map(|t| self.input(t)).transpose()
    }

    /// A tensor that the kernel writes throughout.
    pub(super) fn output<'t>(&self, tensor: &'t Tensor) -> Result<Cow<'t, Tensor>, BackendError> {
        if self.native || !tensor.dtype().is_half() {
            return Ok(Cow::Borrowed(tensor));
        }
        let wide = Tensor::uninit(tensor.device(), tensor.rows(), tensor.cols(), "widened results")?;
        self.stores.borrow_mut().push((wide.clone(), tensor.clone()));
        Ok(Cow::Owned(wide))
    }

    /// A tensor of which the kernel reads or leaves what it does not write.
    pub(super) fn update<'t>(&self, tensor: &'t Tensor) -> Result<Cow<'t, Tensor>, BackendError> {
        let wide = self.output(tensor)?;
        if matches!(wide, Cow::Owned(_)) {
            tensor.device().cast(tensor, &wide)?;
        }
        Ok(wide)
    }

    /// Stores the results.
    pub(super) fn store(self) -> Checked {
        self.stores.into_inner().iter().try_for_each(|(wide, tensor)| tensor.device().cast(wide, tensor))
    }
}
