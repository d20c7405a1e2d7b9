use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend, DTYPES, blocks_for, chunk_of, dtype_code, graph::GraphArgs, runtime::DevicePtr, source::Module,
};
use crate::backend::{BackendError, DType, Direction, Tensor, kernels::ReduceGradient};

const THREADS: u32 = 256;
/// Of a sum of 64 bits, those that are not a number's own: 24 digits, the sign, and one to spare.
const ROOM: u32 = 64 - 24 - 2;

/// `ExtremeArgs` of `cuda/extreme.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct ExtremeArgs {
    graph: GraphArgs,
    g: DevicePtr,
    out: DevicePtr,
    kept: DevicePtr,
    sums: DevicePtr,
    largest: DevicePtr,
    g_stride: u64,
    out_stride: u64,
    kept_stride: u64,
    features: u32,
    chunks: u32,
    sources: u32,
    bits: u32,
}

fn module(dtype: DType) -> Module {
    Module::new("extreme").define("DTYPE", dtype_code(dtype)).define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    DTYPES.map(module).into()
}

impl CudaBackend {
    /// The gradient of a minimum or maximum alone, whose arguments are `kept`, unless a number of it is not finite. What is returned
    /// holds the bits of the largest number, by which the kernels that look through the edges know whether there is anything left to do.
    ///
    /// # Safety
    /// The shapes fit.
    pub(super) unsafe fn scatter_extreme(
        &self,
        args: &ReduceGradient<'_>,
        kept: &Tensor,
    ) -> Result<Tensor, BackendError> {
        let (g, out) = (args.coefficients, args.grad_x);
        let chunks = out.cols().div_ceil(chunk_of(out.dtype()));
        let sums_words = 2 * out.rows() * chunks * chunk_of(out.dtype());
        let device = args.graph.device();
        let sums = Tensor::full(device, sums_words, 1, 0.0, "exact sums")?;
        let largest = Tensor::full(device, 1, 1, 0.0, "largest gradient")?;
        let most = self.longest_row(args.graph, Direction::Transposed)?.max(1);
        let kernel = ExtremeArgs {
            graph: self.graph(args.graph, Direction::Forward, u32::MAX)?,
            g: self.tensor(g)?,
            out: self.tensor(out)?,
            kept: self.tensor(kept)?,
            sums: self.tensor(&sums)?,
            largest: self.tensor(&largest)?,
            g_stride: g.stride() as u64,
            out_stride: out.stride() as u64,
            kept_stride: kept.stride() as u64,
            features: out.cols() as u32,
            chunks: chunks as u32,
            sources: out.rows() as u32,
            bits: ROOM - most.next_power_of_two().ilog2(),
        };
        let by_destination = blocks_for(g.rows() as u64 * chunks as u64, THREADS)?;
        let by_source = blocks_for(out.rows() as u64 * chunks as u64, THREADS)?;
        let module = module(out.dtype());
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(&module, "extreme_largest", by_destination, &kernel)?;
            self.launch(&module, "extreme_scatter", by_destination, &kernel)?;
            self.launch(&module, "extreme_round", by_source, &kernel)?;
        }
        Ok(largest)
    }
}
