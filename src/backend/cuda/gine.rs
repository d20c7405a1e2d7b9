use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, graph::GraphArgs, runtime::DevicePtr, source::Module};
use crate::{
    backend::{
        BackendError, DeviceGraph, Direction, Memory, Tensor,
        kernels::{GineBackward, GineForward, GineKernels},
    },
    plan::SpmmPlan,
};

const THREADS: u32 = 256;
/// Numbers in 16 bytes.
const CHUNK: usize = 4;

/// `GineArgs` of `cuda/gine.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct GineArgs {
    graph: GraphArgs,
    x: DevicePtr,
    e: DevicePtr,
    g: DevicePtr,
    out: DevicePtr,
    partials: DevicePtr,
    stride: u64,
    chunks: u32,
    first_row: u32,
    last_row: u32,
    first_edge: u32,
}

fn module() -> Module {
    Module::new("gine").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    /// # Safety
    /// The shapes fit, and the rows are rows of the graph.
    unsafe fn run_gine(
        &self,
        (entry, direction): (&'static str, Direction),
        graph: &DeviceGraph,
        rows: &Range<u32>,
        [x, e, out]: [&Tensor; 3],
        g: Option<&Tensor>,
    ) -> Result<(), BackendError> {
        let offsets = graph.offsets(direction);
        let segment = SpmmPlan::new(offsets, out.cols(), self.capabilities()).segment;
        let arrays = self.graph(graph, direction, segment)?;
        let chunks = out.cols().div_ceil(CHUNK);
        if chunks == 0 || rows.is_empty() {
            return Ok(());
        }
        let partials = match arrays.num_segments {
            0 => None,
            n => Some(Tensor::uninit(graph.device(), n as usize, chunks * CHUNK, "sums of edge segments")?),
        };
        let args = GineArgs {
            graph: arrays,
            x: self.tensor(x)?,
            e: self.tensor(e)?,
            g: self.maybe_tensor(g)?,
            out: self.tensor(out)?,
            partials: self.maybe_tensor(partials.as_ref())?,
            stride: out.stride() as u64,
            chunks: chunks as u32,
            first_row: rows.start,
            last_row: rows.end,
            first_edge: offsets[rows.start as usize],
        };
        let (tasks, heavy) = (arrays.num_tasks(), u64::from(arrays.num_heavy));
        // SAFETY: the caller's promise, and the graph was validated when it was made.
        unsafe {
            self.launch(&module(), entry, blocks_for(tasks * chunks as u64, THREADS)?, &args)?;
            self.launch(&module(), "gine_merge", blocks_for(heavy * chunks as u64, THREADS)?, &args)
        }
    }
}

impl GineKernels for CudaBackend {
    unsafe fn gine(&self, args: &GineForward<'_>) -> Result<(), BackendError> {
        let launch = ("gine_forward", Direction::Forward);
        // SAFETY: the caller's promise.
        unsafe { self.run_gine(launch, args.graph, &args.rows, [args.x, args.e, args.out], None) }
    }

    unsafe fn gine_grad(&self, args: &GineBackward<'_>) -> Result<(), BackendError> {
        let launch = ("gine_backward", Direction::Transposed);
        // SAFETY: the caller's promise.
        unsafe { self.run_gine(launch, args.graph, &args.rows, [args.x, args.e, args.grad_x], Some(args.g)) }
    }
}
