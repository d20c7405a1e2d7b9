//! Families that are still to come.

use super::CudaBackend;
use crate::backend::{BackendError, DeviceGraph, Indices, Tensor, kernels::*};

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

impl GateKernels for CudaBackend {
    unsafe fn gate(&self, _args: &Gate<'_>) -> Result<(), BackendError> {
        missing("gate")
    }
    unsafe fn gate_grad(&self, _args: &GateBackward<'_>) -> Result<(), BackendError> {
        missing("gate_grad")
    }
    unsafe fn gate_weight(&self, _u: &Tensor, _t: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("gate_weight")
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

impl HeadKernels for CudaBackend {
    unsafe fn extend_heads(
        &self,
        _heads: usize,
        _x: &Tensor,
        _weight: &Tensor,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("extend_heads")
    }
    unsafe fn fold_heads(
        &self,
        _heads: usize,
        _x: &Tensor,
        _weight: &Tensor,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("fold_heads")
    }
    unsafe fn head_blocks(&self, _heads: usize, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("head_blocks")
    }
    unsafe fn mean_heads(&self, _heads: usize, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("mean_heads")
    }
    unsafe fn spread_heads(&self, _heads: usize, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("spread_heads")
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

impl SddmmKernels for CudaBackend {
    unsafe fn sddmm(&self, _args: &Sddmm<'_>) -> Result<(), BackendError> {
        missing("sddmm")
    }
}

impl SoftmaxKernels for CudaBackend {
    unsafe fn edge_softmax(
        &self,
        _graph: &DeviceGraph,
        _score: &Tensor,
        _scale: f32,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("edge_softmax")
    }
    unsafe fn edge_softmax_grad(
        &self,
        _graph: &DeviceGraph,
        _weight: &Tensor,
        _grad: &Tensor,
        _scale: f32,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("edge_softmax_grad")
    }
}

impl TransformerKernels for CudaBackend {
    unsafe fn transformer(&self, _args: &TransformerForward<'_>) -> Result<(), BackendError> {
        missing("transformer")
    }
    unsafe fn transformer_grad(&self, _args: &TransformerBackward<'_>) -> Result<(), BackendError> {
        missing("transformer_grad")
    }
}
