use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, DTYPES, blocks_for, chunk_of, dtype_code, runtime::DevicePtr, source::Module};
use crate::backend::{BackendError, DType, Indices, Tensor, kernels::GatherKernels};

const THREADS: u32 = 256;

/// `GatherArgs` of `cuda/gather.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct GatherArgs {
    x: DevicePtr,
    out: DevicePtr,
    rows: DevicePtr,
    count: u64,
    stride: u64,
    chunks: u32,
    fill: f32,
}

fn module(dtype: DType) -> Module {
    Module::new("gather").define("DTYPE", dtype_code(dtype)).define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    DTYPES.map(module).into()
}

impl CudaBackend {
    /// # Safety
    /// The row numbers are those of rows.
    unsafe fn move_rows(
        &self,
        entry: &'static str,
        x: &Tensor,
        rows: &Indices,
        fill: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let args = GatherArgs {
            x: self.tensor(x)?,
            out: self.tensor(out)?,
            rows: self.indices(rows)?,
            count: rows.len() as u64,
            stride: out.stride() as u64,
            chunks: out.cols().div_ceil(chunk_of(out.dtype())) as u32,
            fill,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(&module(out.dtype()), entry, blocks_for(args.count * u64::from(args.chunks), THREADS)?, &args)
        }
    }
}

impl GatherKernels for CudaBackend {
    unsafe fn gather_rows(&self, x: &Tensor, rows: &Indices, fill: f32, out: &Tensor) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.move_rows("gather_rows", x, rows, fill, out) }
    }

    unsafe fn scatter_rows(&self, x: &Tensor, rows: &Indices, out: &Tensor) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.move_rows("scatter_rows", x, rows, 0.0, out) }
    }
}
