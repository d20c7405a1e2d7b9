use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend, blocks_for,
    graph::GraphArgs,
    runtime::{DevicePtr, Grid},
    source::Module,
};
use crate::backend::{BackendError, DeviceGraph, Direction, Tensor, kernels::SoftmaxKernels};

const WARP: u64 = 32;
/// Threads of a block whose warps have a row each, and of one that has a row.
const THREADS: [u32; 2] = [256, 1024];
/// Rows of more numbers (edges, or edges times columns) than this have a block.
const MAX_NUMBERS: usize = 2048;

/// `SoftmaxArgs` of `cuda/softmax.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct SoftmaxArgs {
    graph: GraphArgs,
    score: DevicePtr,
    weight: DevicePtr,
    grad: DevicePtr,
    out: DevicePtr,
    stride: u64,
    cols: u32,
    lanes: u32,
    scale: f32,
    padding: u32,
}

fn module(heavy: bool) -> Module {
    Module::new("softmax").define("HEAVY", heavy).define("THREADS", THREADS[usize::from(heavy)])
}

pub(super) fn modules() -> Vec<Module> {
    [false, true].map(module).into()
}

impl CudaBackend {
    fn softmax_args(&self, graph: &DeviceGraph, scale: f32, out: &Tensor) -> Result<SoftmaxArgs, BackendError> {
        let lanes = out.cols().next_power_of_two().min(WARP as usize);
        let segment = (MAX_NUMBERS / out.cols().max(1)).max(64) as u32;
        Ok(SoftmaxArgs {
            graph: self.graph(graph, Direction::Forward, segment)?,
            out: self.tensor(out)?,
            stride: out.stride() as u64,
            cols: out.cols() as u32,
            lanes: lanes as u32,
            scale,
            ..SoftmaxArgs::zeroed()
        })
    }

    /// # Safety
    /// The arguments fit the kernel.
    unsafe fn softmax_rows(&self, entry: &'static str, args: &SoftmaxArgs) -> Result<(), BackendError> {
        let [threads, heavy_threads] = THREADS;
        let heavy = Grid { blocks: args.graph.num_heavy, threads: heavy_threads, shared: 0 };
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(&module(true), entry, heavy, args)?;
            self.launch(&module(false), entry, blocks_for(u64::from(args.graph.rows) * WARP, threads)?, args)
        }
    }
}

// SAFETY of the launches: shapes fit, which is the caller's promise, and the graph was validated when it was made.
impl SoftmaxKernels for CudaBackend {
    unsafe fn edge_softmax(
        &self,
        graph: &DeviceGraph,
        score: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let args = SoftmaxArgs { score: self.tensor(score)?, ..self.softmax_args(graph, scale, out)? };
        // SAFETY: see above.
        unsafe { self.softmax_rows("softmax_forward", &args) }
    }

    unsafe fn edge_softmax_grad(
        &self,
        graph: &DeviceGraph,
        weight: &Tensor,
        grad: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let args = SoftmaxArgs {
            weight: self.tensor(weight)?,
            grad: self.tensor(grad)?,
            ..self.softmax_args(graph, scale, out)?
        };
        // SAFETY: see above.
        unsafe { self.softmax_rows("softmax_backward", &args) }
    }
}
