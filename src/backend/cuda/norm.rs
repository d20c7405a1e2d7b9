use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, Tensor,
    kernels::{ColumnNorm, ColumnNormBackward, NormKernels, RowNorm, RowNormBackward},
};

const THREADS: u32 = 256;
const WARP: u64 = 32;

/// `NormArgs` of `cuda/norm.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct NormArgs {
    x: DevicePtr,
    g: DevicePtr,
    out: DevicePtr,
    scaled: DevicePtr,
    mean: DevicePtr,
    inverse_deviation: DevicePtr,
    weight: DevicePtr,
    bias: DevicePtr,
    g_sum: DevicePtr,
    product_sum: DevicePtr,
    stride: u64,
    rows: u64,
    cols: u32,
    epsilon: f32,
}

fn module() -> Module {
    Module::new("norm").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl NormArgs {
    fn of(out: &Tensor) -> Self {
        let (stride, rows, cols) = (out.stride() as u64, out.rows() as u64, out.cols() as u32);
        Self { stride, rows, cols, ..Self::zeroed() }
    }
}

impl CudaBackend {
    /// # Safety
    /// The arguments fit the kernel.
    unsafe fn each_number(&self, entry: &'static str, args: &NormArgs) -> Result<(), BackendError> {
        let grid = blocks_for(args.rows * u64::from(args.cols), THREADS)?;
        // SAFETY: the caller's promise.
        unsafe { self.launch(&module(), entry, grid, args) }
    }

    /// # Safety
    /// The arguments fit the kernel.
    unsafe fn each_norm_row(&self, entry: &'static str, args: &NormArgs) -> Result<(), BackendError> {
        let rows = if args.cols == 0 { 0 } else { args.rows };
        // SAFETY: the caller's promise.
        unsafe { self.launch(&module(), entry, blocks_for(rows * WARP, THREADS)?, args) }
    }
}

// SAFETY of the launches: tensors and shapes fit, which is the caller's promise.
impl NormKernels for CudaBackend {
    unsafe fn column_moments(
        &self,
        x: &Tensor,
        center: &Tensor,
        weight: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        // SAFETY: see above.
        unsafe { self.sum_columns(x, Some((center, weight)), out, false) }
    }

    unsafe fn column_norm(&self, args: &ColumnNorm<'_>) -> Result<(), BackendError> {
        let kernel = NormArgs {
            x: self.tensor(args.x)?,
            out: self.tensor(args.out)?,
            mean: self.tensor(args.mean)?,
            inverse_deviation: self.tensor(args.inverse_deviation)?,
            weight: self.maybe_tensor(args.affine.map(|[weight, _]| weight))?,
            bias: self.maybe_tensor(args.affine.map(|[_, bias]| bias))?,
            ..NormArgs::of(args.out)
        };
        // SAFETY: see above.
        unsafe { self.each_number("column_norm", &kernel) }
    }

    unsafe fn column_norm_grad(&self, args: &ColumnNormBackward<'_>) -> Result<(), BackendError> {
        let kernel = NormArgs {
            x: self.maybe_tensor(args.own.map(|own| own.x))?,
            g: self.tensor(args.g)?,
            out: self.tensor(args.out)?,
            mean: self.maybe_tensor(args.own.map(|own| own.mean))?,
            inverse_deviation: self.tensor(args.inverse_deviation)?,
            weight: self.maybe_tensor(args.weight)?,
            g_sum: self.maybe_tensor(args.own.map(|own| own.g_sum))?,
            product_sum: self.maybe_tensor(args.own.map(|own| own.product_sum))?,
            ..NormArgs::of(args.out)
        };
        // SAFETY: see above.
        unsafe { self.each_number("column_norm_grad", &kernel) }
    }

    unsafe fn row_norm(&self, args: &RowNorm<'_>) -> Result<(), BackendError> {
        let kernel = NormArgs {
            x: self.tensor(args.x)?,
            out: self.tensor(args.out)?,
            weight: self.maybe_tensor(args.affine.map(|[weight, _]| weight))?,
            bias: self.maybe_tensor(args.affine.map(|[_, bias]| bias))?,
            epsilon: args.epsilon,
            ..NormArgs::of(args.out)
        };
        // SAFETY: see above.
        unsafe { self.each_norm_row("row_norm", &kernel) }
    }

    unsafe fn row_norm_grad(&self, args: &RowNormBackward<'_>) -> Result<(), BackendError> {
        let kernel = NormArgs {
            x: self.tensor(args.x)?,
            g: self.tensor(args.g)?,
            out: self.tensor(args.grad_x)?,
            scaled: self.maybe_tensor(args.scaled)?,
            weight: self.maybe_tensor(args.weight)?,
            epsilon: args.epsilon,
            ..NormArgs::of(args.grad_x)
        };
        // SAFETY: see above.
        unsafe { self.each_norm_row("row_norm_grad", &kernel) }
    }
}
