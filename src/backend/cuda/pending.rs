//! Families that are still to come.

use super::CudaBackend;
use crate::backend::{BackendError, Tensor, kernels::*};

fn missing(what: &str) -> Result<(), BackendError> {
    Err(BackendError::Driver(format!("{what} is not there yet")))
}

impl GatKernels for CudaBackend {
    unsafe fn gat(&self, _args: &Gat<'_>, _h: &Tensor, _logsumexp: &Tensor) -> Result<(), BackendError> {
        missing("gat")
    }
    unsafe fn gat_grad(&self, _args: &GatBackward<'_>) -> Result<(), BackendError> {
        missing("gat_grad")
    }
}

impl Gatv2Kernels for CudaBackend {
    unsafe fn gatv2(&self, _args: &Gatv2<'_>, _h: &Tensor, _logsumexp: &Tensor) -> Result<(), BackendError> {
        missing("gatv2")
    }
    unsafe fn gatv2_grad(&self, _args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        missing("gatv2_grad")
    }
}
