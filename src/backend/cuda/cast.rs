use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{BackendError, DType, Tensor, kernels::CastKernels};

const THREADS: u32 = 256;
/// Halves in 16 bytes.
const CHUNK: usize = 8;

/// `CastArgs` of `cuda/cast.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct CastArgs {
    halves: DevicePtr,
    floats: DevicePtr,
    rows: u64,
    half_stride: u64,
    float_stride: u64,
    chunks: u32,
    cols: u32,
}

fn module(half: DType) -> Module {
    let dtype = if half == DType::F16 { 1u32 } else { 2 };
    Module::new("cast").define("THREADS", THREADS).define("DTYPE", dtype)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module(DType::F16), module(DType::BF16)]
}

impl CastKernels for CudaBackend {
    unsafe fn cast(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let (halves, floats, entry) = if x.dtype().is_half() { (x, out, "widen") } else { (out, x, "narrow") };
        let args = CastArgs {
            halves: self.tensor(halves)?,
            floats: self.tensor(floats)?,
            rows: x.rows() as u64,
            half_stride: halves.stride() as u64,
            float_stride: floats.stride() as u64,
            chunks: x.cols().div_ceil(CHUNK) as u32,
            cols: x.cols() as u32,
        };
        let grid = blocks_for(args.rows * u64::from(args.chunks), THREADS)?;
        // SAFETY: tensors and shapes fit, which is the caller's promise; threads stay within rows and columns.
        unsafe { self.launch(&module(halves.dtype()), entry, grid, &args) }
    }
}
