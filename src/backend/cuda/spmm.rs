use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, graph::GraphArgs, runtime::DevicePtr, source::Module};
use crate::{
    backend::{
        BackendError, Tensor,
        kernels::{Spmm, SpmmKernels},
    },
    plan::Mapping,
};

/// Numbers in 16 bytes.
const CHUNK: usize = 4;
/// Chunks of a row from which on larger blocks keep more neighbouring rows on one multiprocessor.
const WIDE_CHUNKS: usize = 64;
/// Threads of a block, and edges in flight.
const NARROW: (u32, u32) = (256, 4);
/// The same for wide rows.
const WIDE: (u32, u32) = (1024, 8);

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
    x_stride: u64,
    out_stride: u64,
    chunks: u32,
    tasks_per_block: u32,
}

impl SpmmKernels for CudaBackend {
    unsafe fn spmm(&self, args: &Spmm<'_>) -> Result<(), BackendError> {
        let graph = self.graph(args.graph, args.direction, args.plan.segment)?;
        let chunks = args.x.cols().div_ceil(CHUNK);
        if chunks == 0 || graph.rows == 0 {
            return Ok(());
        }
        let device = args.graph.device();
        let partials = match graph.num_segments {
            0 => None,
            n => Some(Tensor::uninit(device, n as usize, chunks * CHUNK, "sums of edge segments")?),
        };
        let (threads, unroll) = if chunks >= WIDE_CHUNKS { WIDE } else { NARROW };
        let tasks_per_block = (threads as usize / chunks).max(1) as u32;
        let kernel = SpmmArgs {
            graph,
            x: self.tensor(args.x)?,
            weight: self.maybe_tensor(args.weight)?,
            row_scale: self.maybe_tensor(args.row_scale)?,
            column_scale: self.maybe_tensor(args.column_scale)?,
            out: self.tensor(args.out)?,
            partials: self.maybe_tensor(partials.as_ref())?,
            x_stride: args.x.stride() as u64,
            out_stride: args.out.stride() as u64,
            chunks: chunks as u32,
            tasks_per_block,
        };
        let lanes = args.plan.lanes.clamp(1, 32);
        let module = module(
            args.weight.is_some(),
            args.column_scale.is_some(),
            args.x.cols() == 1,
            match args.plan.mapping {
                Mapping::FeatureParallel => Layout::Features { threads, unroll },
                Mapping::NeighbourParallel => Layout::Neighbours { lanes },
            },
        );
        // SAFETY: the shapes fit, which is the caller's promise, and the graph was validated when it was made.
        unsafe {
            match args.plan.mapping {
                Mapping::FeatureParallel => {
                    let blocks = graph.num_tasks().div_ceil(u64::from(tasks_per_block)) * u64::from(threads);
                    self.launch(&module, "spmm_features", blocks_for(blocks, threads)?, &kernel)?;
                }
                Mapping::NeighbourParallel => {
                    let work = graph.num_tasks() * u64::from(lanes);
                    self.launch(&module, "spmm_neighbours", blocks_for(work, threads)?, &kernel)?;
                }
            }
            if graph.num_heavy > 0 {
                let work = u64::from(graph.num_heavy) * chunks as u64;
                self.launch(&module, "spmm_merge", blocks_for(work, threads)?, &kernel)?;
            }
        }
        Ok(())
    }
}

/// How the threads of a block are laid out.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Features { threads: u32, unroll: u32 },
    Neighbours { lanes: u32 },
}

fn module(weighted: bool, column_scale: bool, single: bool, layout: Layout) -> Module {
    let (threads, unroll, lanes) = match layout {
        Layout::Features { threads, unroll } => (threads, unroll, 1),
        Layout::Neighbours { lanes } => (256, 4, lanes),
    };
    Module::new("spmm")
        .define("WEIGHTED", weighted)
        .define("COLUMN_SCALE", column_scale)
        .define("SINGLE", single)
        .define("THREADS", threads)
        .define("UNROLL", unroll)
        .define("LANES", lanes)
}

/// Every module that a sum may ask for.
pub(super) fn modules() -> Vec<Module> {
    let mut all = Vec::new();
    for bits in 0..4 {
        let (weighted, column_scale) = (bits & 1 == 1, bits & 2 == 2);
        for (threads, unroll) in [NARROW, WIDE] {
            all.push(module(weighted, column_scale, false, Layout::Features { threads, unroll }));
        }
        let (threads, unroll) = NARROW;
        all.push(module(weighted, column_scale, true, Layout::Features { threads, unroll }));
        for single in [false, true] {
            all.extend(
                [2, 4, 8, 16, 32].map(|lanes| module(weighted, column_scale, single, Layout::Neighbours { lanes })),
            );
        }
    }
    all
}
