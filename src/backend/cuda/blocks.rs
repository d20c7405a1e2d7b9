use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, Tensor,
    kernels::{BlockCopy, BlockKernels},
};

const THREADS: u32 = 256;
const BYTES: u64 = 4;

/// `BlockArgs` of `cuda/blocks.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct BlockArgs {
    x: DevicePtr,
    y: DevicePtr,
    out: DevicePtr,
    weight: DevicePtr,
    x_stride: u64,
    out_stride: u64,
    weight_stride: u64,
    rows: u64,
    cols: u32,
    blocks: u32,
}

fn module() -> Module {
    Module::new("blocks").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    /// The address of an entry.
    fn entry(&self, tensor: &Tensor, [row, column]: [usize; 2]) -> Result<DevicePtr, BackendError> {
        Ok(self.tensor(tensor)? + BYTES * (row * tensor.stride() + column) as u64)
    }

    /// # Safety
    /// The shapes fit; `cols` is the width of a block.
    unsafe fn weighted_blocks(
        &self,
        entry: &'static str,
        [x, weight, out]: [&Tensor; 3],
        y: Option<&Tensor>,
        cols: usize,
    ) -> Result<(), BackendError> {
        let args = BlockArgs {
            x: self.tensor(x)?,
            y: self.maybe_tensor(y)?,
            out: self.tensor(out)?,
            weight: self.tensor(weight)?,
            x_stride: x.stride() as u64,
            out_stride: out.stride() as u64,
            weight_stride: weight.stride() as u64,
            rows: out.rows() as u64,
            cols: cols as u32,
            blocks: weight.cols() as u32,
        };
        let grid = blocks_for((out.rows() * out.cols()) as u64, THREADS)?;
        // SAFETY: the caller's promise.
        unsafe { self.launch(&module(), entry, grid, &args) }
    }
}

impl BlockKernels for CudaBackend {
    unsafe fn copy_block(&self, args: &BlockCopy<'_>) -> Result<(), BackendError> {
        let [rows, cols] = args.shape;
        let kernel = BlockArgs {
            x: self.entry(args.x, args.from)?,
            out: self.entry(args.out, args.to)?,
            x_stride: args.x.stride() as u64,
            out_stride: args.out.stride() as u64,
            rows: rows as u64,
            cols: cols as u32,
            ..BlockArgs::zeroed()
        };
        // SAFETY: the block lies within both, which is the caller's promise.
        unsafe { self.launch(&module(), "copy_block", blocks_for((rows * cols) as u64, THREADS)?, &kernel) }
    }

    unsafe fn spread_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.weighted_blocks("spread_blocks", [x, weight, out], y, x.cols()) }
    }

    unsafe fn merge_blocks(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.weighted_blocks("merge_blocks", [x, weight, out], y, out.cols()) }
    }
}
