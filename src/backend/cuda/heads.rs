use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{BackendError, Tensor, kernels::HeadKernels};

const THREADS: u32 = 256;

/// `HeadArgs` of `cuda/heads.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct HeadArgs {
    x: DevicePtr,
    weight: DevicePtr,
    out: DevicePtr,
    products: DevicePtr,
    blocks: DevicePtr,
    count: u64,
    x_stride: u64,
    out_stride: u64,
    weight_stride: u64,
    heads: u32,
    channels: u32,
    attributes: u32,
    columns: u32,
}

fn module() -> Module {
    Module::new("heads").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    /// The sizes, `channels` being those of a head of the narrower side.
    fn head_args(&self, heads: usize, channels: usize, x: &Tensor, out: &Tensor) -> HeadArgs {
        HeadArgs {
            count: out.rows() as u64 * out.cols() as u64,
            x_stride: x.stride() as u64,
            out_stride: out.stride() as u64,
            heads: heads as u32,
            channels: channels as u32,
            columns: out.cols() as u32,
            ..HeadArgs::zeroed()
        }
    }

    /// # Safety
    /// The arguments fit the kernel.
    unsafe fn each_entry(&self, entry: &'static str, args: &HeadArgs) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(&module(), entry, blocks_for(args.count, THREADS)?, args) }
    }

    /// # Safety
    /// The shapes fit.
    unsafe fn weigh_heads(
        &self,
        entry: &'static str,
        args: HeadArgs,
        [x, weight, out]: [&Tensor; 3],
    ) -> Result<(), BackendError> {
        let args = HeadArgs {
            x: self.tensor(x)?,
            weight: self.tensor(weight)?,
            out: self.tensor(out)?,
            weight_stride: weight.stride() as u64,
            attributes: weight.cols() as u32,
            ..args
        };
        // SAFETY: the caller's promise.
        unsafe { self.each_entry(entry, &args) }
    }
}

// SAFETY of the launches: shapes fit, which is the caller's promise.
impl HeadKernels for CudaBackend {
    unsafe fn extend_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.head_args(heads, x.cols() / heads, x, out);
        // SAFETY: see above.
        unsafe { self.weigh_heads("extend_heads", args, [x, weight, out]) }
    }

    unsafe fn fold_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.head_args(heads, out.cols() / heads, x, out);
        // SAFETY: see above.
        unsafe { self.weigh_heads("fold_heads", args, [x, weight, out]) }
    }

    unsafe fn head_blocks(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = HeadArgs {
            products: self.tensor(x)?,
            blocks: self.tensor(out)?,
            attributes: out.cols() as u32,
            ..self.head_args(heads, out.rows() / heads, x, out)
        };
        // SAFETY: see above.
        unsafe { self.each_entry("head_blocks", &args) }
    }

    unsafe fn mean_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let sizes = self.head_args(heads, out.cols(), x, out);
        let args = HeadArgs { x: self.tensor(x)?, out: self.tensor(out)?, ..sizes };
        // SAFETY: see above.
        unsafe { self.each_entry("mean_heads", &args) }
    }

    unsafe fn spread_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let sizes = self.head_args(heads, x.cols(), x, out);
        let args = HeadArgs { x: self.tensor(x)?, out: self.tensor(out)?, ..sizes };
        // SAFETY: see above.
        unsafe { self.each_entry("spread_heads", &args) }
    }
}
