//! Families that are still to come.

use super::CudaBackend;
use crate::backend::{BackendError, DeviceGraph, Indices, Tensor, kernels::*};

fn missing(what: &str) -> Result<(), BackendError> {
    Err(BackendError::Driver(format!("{what} is not there yet")))
}

impl ElementwiseKernels for CudaBackend {
    unsafe fn unary(&self, _f: Unary, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("unary")
    }
    unsafe fn unary_grad(&self, _f: Unary, _y: &Tensor, _g: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("unary_grad")
    }
    unsafe fn add(&self, _a: &Tensor, _b: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("add")
    }
    unsafe fn mul(&self, _a: &Tensor, _b: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("mul")
    }
    unsafe fn combine(
        &self,
        _a: f32,
        _x: &Tensor,
        _y: Option<(f32, &Tensor)>,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("combine")
    }
    unsafe fn add_row(&self, _x: &Tensor, _row: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("add_row")
    }
    unsafe fn add_assign(&self, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("add_assign")
    }
    unsafe fn scale_add(
        &self,
        _offset: f32,
        _factor: &Tensor,
        _x: &Tensor,
        _y: Option<&Tensor>,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("scale_add")
    }
    unsafe fn dropout(&self, _mask: &DropoutMask<'_>, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("dropout")
    }
    unsafe fn dropout_sparse(
        &self,
        _mask: &DropoutMask<'_>,
        _pattern: &DeviceGraph,
        _values: &Tensor,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("dropout_sparse")
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

impl GatherKernels for CudaBackend {
    unsafe fn gather_rows(&self, _x: &Tensor, _rows: &Indices, _fill: f32, _out: &Tensor) -> Result<(), BackendError> {
        missing("gather_rows")
    }
    unsafe fn scatter_rows(&self, _x: &Tensor, _rows: &Indices, _out: &Tensor) -> Result<(), BackendError> {
        missing("scatter_rows")
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

impl GineKernels for CudaBackend {
    unsafe fn gine(&self, _args: &GineForward<'_>) -> Result<(), BackendError> {
        missing("gine")
    }
    unsafe fn gine_grad(&self, _args: &GineBackward<'_>) -> Result<(), BackendError> {
        missing("gine_grad")
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

impl LinearKernels for CudaBackend {
    unsafe fn gemm(&self, _args: &Gemm<'_>) -> Result<(), BackendError> {
        missing("gemm")
    }
    unsafe fn column_sums(&self, _x: &Tensor, _out: &Tensor, _accumulate: bool) -> Result<(), BackendError> {
        missing("column_sums")
    }
    unsafe fn transpose(&self, _x: &Tensor, _out: &Tensor) -> Result<(), BackendError> {
        missing("transpose")
    }
}

impl LossKernels for CudaBackend {
    unsafe fn cross_entropy(
        &self,
        _x: &Tensor,
        _labels: &Indices,
        _weight: &Tensor,
        _losses: &Tensor,
        _grad: &Tensor,
    ) -> Result<(), BackendError> {
        missing("cross_entropy")
    }
    unsafe fn binary_cross_entropy(
        &self,
        _x: &Tensor,
        _targets: &Tensor,
        _weight: &Tensor,
        _losses: &Tensor,
        _grad: &Tensor,
    ) -> Result<(), BackendError> {
        missing("binary_cross_entropy")
    }
}

impl OptimKernels for CudaBackend {
    unsafe fn adam(&self, _args: &AdamUpdate<'_>) -> Result<(), BackendError> {
        missing("adam")
    }
}

impl ReduceKernels for CudaBackend {
    unsafe fn reduce(&self, _args: &Reduce<'_>) -> Result<(), BackendError> {
        missing("reduce")
    }
    unsafe fn reduce_coefficients(&self, _args: &ReduceCoefficients<'_>) -> Result<(), BackendError> {
        missing("reduce_coefficients")
    }
    unsafe fn reduce_grad(&self, _args: &ReduceGradient<'_>) -> Result<(), BackendError> {
        missing("reduce_grad")
    }
}

impl RowKernels for CudaBackend {
    unsafe fn row_dot(
        &self,
        _a: &Tensor,
        _b: &Tensor,
        _divisor: Option<&Tensor>,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("row_dot")
    }
    unsafe fn l2_normalize(&self, _x: &Tensor, _epsilon: f32, _out: &Tensor) -> Result<(), BackendError> {
        missing("l2_normalize")
    }
    unsafe fn l2_normalize_grad(
        &self,
        _x: &Tensor,
        _g: &Tensor,
        _epsilon: f32,
        _out: &Tensor,
    ) -> Result<(), BackendError> {
        missing("l2_normalize_grad")
    }
    unsafe fn argmax(&self, _x: &Tensor, _out: &Indices) -> Result<(), BackendError> {
        missing("argmax")
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
