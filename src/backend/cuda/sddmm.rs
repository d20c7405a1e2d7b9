use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, graph::GraphArgs, runtime::DevicePtr, source::Module};
use crate::{
    backend::{
        BackendError, Direction, Memory,
        kernels::{Sddmm, SddmmKernels},
    },
    plan::SpmmPlan,
};

const THREADS: u32 = 256;
const WARP: usize = 32;
/// Numbers in 16 bytes.
const CHUNK: usize = 4;
/// Chunks of a row that one lane holds at most.
const MAX_CHUNKS: usize = 4;

/// `SddmmArgs` of `cuda/sddmm.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct SddmmArgs {
    graph: GraphArgs,
    a: DevicePtr,
    b: DevicePtr,
    row_scale: DevicePtr,
    column_scale: DevicePtr,
    out: DevicePtr,
    stride: u64,
    cols: u32,
    chunks: u32,
}

/// The module for rows of `chunks` chunks, and the lanes of a task.
fn module(chunks: usize) -> (Module, u32) {
    let lanes = chunks.next_power_of_two().min(WARP) as u32;
    let fitting = chunks.div_ceil(WARP).next_power_of_two();
    let held = fitting.min(MAX_CHUNKS) as u32;
    let unroll: u32 = if held > 2 { 2 } else { 4 };
    let module = Module::new("sddmm")
        .define("THREADS", THREADS)
        .define("LANES", lanes)
        .define("CHUNKS", held)
        .define("UNROLL", unroll)
        .define("WIDE", fitting > MAX_CHUNKS);
    (module, lanes)
}

pub(super) fn modules() -> Vec<Module> {
    [1, 2, 4, 8, 16, 32, 64, 128, 256].map(|chunks| module(chunks).0).into()
}

impl SddmmKernels for CudaBackend {
    unsafe fn sddmm(&self, args: &Sddmm<'_>) -> Result<(), BackendError> {
        let cols = args.a.cols();
        let segment = SpmmPlan::new(args.graph.offsets(Direction::Forward), cols, self.capabilities()).segment;
        let graph = self.graph(args.graph, Direction::Forward, segment)?;
        let chunks = cols.div_ceil(CHUNK);
        let (module, lanes) = module(chunks.max(1));
        let kernel = SddmmArgs {
            graph,
            a: self.tensor(args.a)?,
            b: self.tensor(args.b)?,
            row_scale: self.maybe_tensor(args.row_scale)?,
            column_scale: self.maybe_tensor(args.column_scale)?,
            out: self.tensor(args.out)?,
            stride: args.a.stride() as u64,
            cols: cols as u32,
            chunks: chunks as u32,
        };
        let grid = blocks_for(graph.num_tasks() * u64::from(lanes), THREADS)?;
        // SAFETY: shapes fit, which is the caller's promise, and the graph was validated when it was made.
        unsafe { self.launch(&module, "sddmm", grid, &kernel) }
    }
}
