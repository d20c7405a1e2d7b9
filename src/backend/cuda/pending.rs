//! Families that are still to come.

use super::CudaBackend;
use crate::backend::{BackendError, Tensor, kernels::*};

fn missing(what: &str) -> Result<(), BackendError> {
    Err(BackendError::Driver(format!("{what} is not there yet")))
}

impl BlockKernels for CudaBackend {
    unsafe fn copy_block(&self, _args: &BlockCopy<'_>) -> Result<(), BackendError> {
        missing("copy_block")
    }
    unsafe fn spread_blocks(
        &self,
        _x: &Tensor,
        _weight: &Tensor,
        _y: Option<&Tensor>,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("spread_blocks")
    }
    unsafe fn merge_blocks(
        &self,
        _x: &Tensor,
        _weight: &Tensor,
        _y: Option<&Tensor>,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("merge_blocks")
    }
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

impl NormKernels for CudaBackend {
    unsafe fn column_moments(
        &self,
        _x: &Tensor,
        _center: &Tensor,
        _weight: Option<&Tensor>,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("column_moments")
    }
    unsafe fn column_norm(&self, _args: &ColumnNorm<'_>) -> Result<(), BackendError> {
        missing("column_norm")
    }
    unsafe fn column_norm_grad(&self, _args: &ColumnNormBackward<'_>) -> Result<(), BackendError> {
        missing("column_norm_grad")
    }
    unsafe fn row_norm(&self, _args: &RowNorm<'_>) -> Result<(), BackendError> {
        missing("row_norm")
    }
    unsafe fn row_norm_grad(&self, _args: &RowNormBackward<'_>) -> Result<(), BackendError> {
        missing("row_norm_grad")
    }
}
