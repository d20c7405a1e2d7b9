use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend, DTYPES, attention::row_bytes, blocks_for, chunk_of, dtype_code, graph::GraphArgs, runtime::DevicePtr,
    source::Module,
};
use crate::{
    backend::{
        BackendError, DType, Tensor,
        kernels::{Spmm, SpmmKernels},
    },
    plan::Mapping,
};

const THREADS: u32 = 256;
/// Edges in flight.
const UNROLL: u32 = 4;
/// Chunks of a panel at most.
const PANEL: usize = 32;

/// `SpmmArgs` of `cuda/spmm.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct SpmmArgs {
    graph: GraphArgs,
    x: DevicePtr,
    weight: DevicePtr,
    row_scale: DevicePtr,
    column_scale: DevicePtr,
    out: DevicePtr,
    partials: DevicePtr,
    out_stride: u64,
    x_bytes: u32,
    chunks: u32,
    panel: u32,
    tasks_per_block: u32,
    blocks_per_panel: u32,
    padding: u32,
}

impl SpmmKernels for CudaBackend {
    unsafe fn spmm(&self, args: &Spmm<'_>) -> Result<(), BackendError> {
        let graph = self.graph(args.graph, args.direction, args.plan.segment)?;
        let chunk = chunk_of(args.x.dtype());
        let chunks = args.x.cols().div_ceil(chunk);
        if chunks == 0 || graph.rows == 0 {
            return Ok(());
        }
        let device = args.graph.device();
        let partials = match graph.num_segments {
            0 => None,
            n => Some(Tensor::uninit(device, n as usize, chunks * chunk, "sums of edge segments")?),
        };
        let panels = chunks.div_ceil(PANEL);
        let panel = chunks.div_ceil(panels) as u32;
        let tasks_per_block = THREADS / panel;
        let blocks_per_panel = graph.num_tasks().div_ceil(u64::from(tasks_per_block));
        let kernel = SpmmArgs {
            graph,
            x: self.tensor(args.x)?,
            weight: self.maybe_tensor(args.weight)?,
            row_scale: self.maybe_tensor(args.row_scale)?,
            column_scale: self.maybe_tensor(args.column_scale)?,
            out: self.tensor(args.out)?,
            partials: self.maybe_tensor(partials.as_ref())?,
            out_stride: args.out.stride() as u64,
            x_bytes: row_bytes(args.x)?,
            chunks: chunks as u32,
            panel,
            tasks_per_block,
            blocks_per_panel: blocks_per_panel as u32,
            padding: 0,
        };
        let lanes = args.plan.lanes.clamp(1, 32);
        let module = module(
            args.x.dtype(),
            args.weight.is_some(),
            args.column_scale.is_some(),
            args.x.cols() == 1,
            if args.plan.mapping == Mapping::NeighbourParallel { lanes } else { 1 },
        );
        // SAFETY: the shapes fit, which is the caller's promise, and the graph was validated when it was made.
        unsafe {
            match args.plan.mapping {
                Mapping::FeatureParallel => {
                    let work = blocks_per_panel * panels as u64 * u64::from(THREADS);
                    self.launch(&module, "spmm_features", blocks_for(work, THREADS)?, &kernel)?;
                }
                Mapping::NeighbourParallel => {
                    let work = graph.num_tasks() * u64::from(lanes);
                    self.launch(&module, "spmm_neighbours", blocks_for(work, THREADS)?, &kernel)?;
                }
            }
            if graph.num_heavy > 0 {
                let work = u64::from(graph.num_heavy) * chunks as u64;
                self.launch(&module, "spmm_merge", blocks_for(work, THREADS)?, &kernel)?;
            }
        }
        Ok(())
    }
}

/// `lanes` threads share a task where there are several, else they lie across its features.
fn module(dtype: DType, weighted: bool, column_scale: bool, single: bool, lanes: u32) -> Module {
    Module::new("spmm")
        .define("DTYPE", dtype_code(dtype))
        .define("WEIGHTED", weighted)
        .define("COLUMN_SCALE", column_scale)
        .define("SINGLE", single)
        .define("LANES", lanes)
        .define("UNROLL", UNROLL)
        .define("THREADS", THREADS)
}

/// Every module that a sum may ask for.
pub(super) fn modules() -> Vec<Module> {
    let mut all = Vec::new();
    for dtype in DTYPES {
        for bits in 0..8 {
            let (weighted, column_scale, single) = (bits & 1 == 1, bits & 2 == 2, bits & 4 == 4);
            // Single columns are widened.
            if !(single && dtype.is_half()) {
                all.extend([1, 2, 4, 8, 16, 32].map(|lanes| module(dtype, weighted, column_scale, single, lanes)));
            }
        }
    }
    all
}
