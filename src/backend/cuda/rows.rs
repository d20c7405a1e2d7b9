use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, Indices, Tensor,
    kernels::{LossKernels, RowKernels},
};

const THREADS: u32 = 256;
const WARP: u64 = 32;

/// `RowArgs` of `cuda/rows.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RowArgs {
    x: DevicePtr,
    y: DevicePtr,
    out: DevicePtr,
    divisor: DevicePtr,
    weight: DevicePtr,
    losses: DevicePtr,
    labels: DevicePtr,
    winners: DevicePtr,
    stride: u64,
    out_stride: u64,
    rows: u32,
    cols: u32,
    epsilon: f32,
    padding: u32,
}

fn module() -> Module {
    Module::new("rows").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    fn row_args(&self, x: &Tensor, y: Option<&Tensor>) -> Result<RowArgs, BackendError> {
        Ok(RowArgs {
            x: self.tensor(x)?,
            y: self.maybe_tensor(y)?,
            stride: x.stride() as u64,
            rows: x.rows() as u32,
            cols: x.cols() as u32,
            ..RowArgs::zeroed()
        })
    }

    /// # Safety
    /// The arguments fit the kernel.
    unsafe fn each_row(&self, entry: &'static str, args: &RowArgs) -> Result<(), BackendError> {
        let grid = blocks_for(u64::from(args.rows) * WARP, THREADS)?;
        // SAFETY: the caller's promise.
        unsafe { self.launch(&module(), entry, grid, args) }
    }
}

// SAFETY of the launches: tensors and shapes fit, which is the caller's promise.
impl RowKernels for CudaBackend {
    unsafe fn row_dot(
        &self,
        a: &Tensor,
        b: &Tensor,
        divisor: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let args = self.row_args(a, Some(b))?;
        let (divisor, losses) = (self.maybe_tensor(divisor)?, self.tensor(out)?);
        // SAFETY: see above.
        unsafe { self.each_row("row_dot", &RowArgs { divisor, losses, ..args }) }
    }

    unsafe fn l2_normalize(&self, x: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError> {
        let args = self.row_args(x, None)?;
        let (out, out_stride) = (self.tensor(out)?, out.stride() as u64);
        // SAFETY: see above.
        unsafe { self.each_row("l2_normalize", &RowArgs { out, out_stride, epsilon, ..args }) }
    }

    unsafe fn l2_normalize_grad(&self, x: &Tensor, g: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError> {
        let args = self.row_args(x, Some(g))?;
        let (out, out_stride) = (self.tensor(out)?, out.stride() as u64);
        // SAFETY: see above.
        unsafe { self.each_row("l2_normalize_grad", &RowArgs { out, out_stride, epsilon, ..args }) }
    }

    unsafe fn argmax(&self, x: &Tensor, out: &Indices) -> Result<(), BackendError> {
        let args = self.row_args(x, None)?;
        // SAFETY: see above.
        unsafe { self.each_row("argmax", &RowArgs { winners: self.indices(out)?, ..args }) }
    }
}

// SAFETY of the launches: as above.
impl LossKernels for CudaBackend {
    unsafe fn cross_entropy(
        &self,
        x: &Tensor,
        labels: &Indices,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError> {
        let args = RowArgs {
            labels: self.indices(labels)?,
            weight: self.tensor(weight)?,
            losses: self.tensor(losses)?,
            out: self.tensor(grad)?,
            out_stride: grad.stride() as u64,
            ..self.row_args(x, None)?
        };
        // SAFETY: see above.
        unsafe { self.each_row("cross_entropy", &args) }
    }

    unsafe fn binary_cross_entropy(
        &self,
        x: &Tensor,
        targets: &Tensor,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError> {
        let args = RowArgs {
            weight: self.tensor(weight)?,
            losses: self.tensor(losses)?,
            out: self.tensor(grad)?,
            out_stride: grad.stride() as u64,
            ..self.row_args(x, Some(targets))?
        };
        // SAFETY: see above.
        unsafe { self.each_row("binary_cross_entropy", &args) }
    }
}
