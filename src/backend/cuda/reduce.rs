use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend, DTYPES, attention::row_bytes, blocks_for, chunk_of, dtype_code, graph::GraphArgs, runtime::DevicePtr,
    source::Module,
};
use crate::{
    backend::{
        BackendError, DType, Direction, Tensor,
        kernels::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, ReduceKernels, Statistic},
        row_stride,
    },
    plan::ReducePlan,
};

const THREADS: u32 = 256;
/// Edges in flight.
const UNROLL: u32 = 4;
/// Chunks of a panel at most.
const PANEL: usize = 32;

/// `ReduceArgs` of `cuda/reduce.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct ReduceArgs {
    graph: GraphArgs,
    x: DevicePtr,
    out: DevicePtr,
    g: DevicePtr,
    temperature: DevicePtr,
    kept: DevicePtr,
    coefficients: DevicePtr,
    slope: DevicePtr,
    partials: DevicePtr,
    largest: DevicePtr,
    tags: DevicePtr,
    out_stride: u64,
    slope_stride: u64,
    x_bytes: u32,
    kept_bytes: u32,
    coefficient_bytes: u32,
    statistics: [u32; 8],
    num_statistics: u32,
    features: u32,
    width: u32,
    chunks: u32,
    panel: u32,
    tasks_per_block: u32,
    blocks_per_panel: u32,
    aligned: u32,
    padding: u32,
}

/// What a kernel carries along the edges.
fn module(dtype: DType, features: usize, parts: Ingredients, direct: bool) -> Module {
    Module::new("reduce")
        .define("DTYPE", dtype_code(dtype))
        .define("SUMS", parts.sums)
        .define("SQUARES", parts.squares)
        .define("MINIMUM", parts.minimum)
        .define("MAXIMUM", parts.maximum)
        .define("PRODUCT", parts.product)
        .define("SOFTMAX", parts.softmax)
        .define("DIRECT", direct)
        .define("SINGLE", features == 1)
        .define("THREADS", THREADS)
        .define("UNROLL", UNROLL)
}

pub(super) fn modules() -> Vec<Module> {
    use Statistic::{Max, Min, Product, Softmax, Sum, Var};
    let sets: [&[Statistic]; 13] = [
        &[Sum],
        &[Var],
        &[Min],
        &[Max],
        &[Sum, Min],
        &[Sum, Max],
        &[Var, Min],
        &[Var, Max],
        &[Min, Max],
        &[Sum, Min, Max],
        &[Var, Min, Max],
        &[Product],
        &[Softmax],
    ];
    let direct: [&[Statistic]; 3] = [&[Sum], &[Min], &[Max]];
    let mut all = Vec::new();
    // Single columns of halves are widened.
    for (dtype, features) in DTYPES.map(|dtype| (dtype, 2)).into_iter().chain([(DType::F32, 1)]) {
        all.extend(sets.map(|set| module(dtype, features, Ingredients::of(set), false)));
        all.extend(direct.map(|set| module(dtype, features, Ingredients::of(set), true)));
    }
    all
}

fn codes(statistics: &[Statistic]) -> ([u32; 8], u32) {
    let mut codes = [0; 8];
    for (code, statistic) in codes.iter_mut().zip(statistics) {
        *code = *statistic as u32;
    }
    (codes, statistics.len() as u32)
}

impl ReduceArgs {
    fn new(graph: GraphArgs, dtype: DType, features: usize, statistics: &[Statistic]) -> Self {
        let chunk = chunk_of(dtype);
        let chunks = features.div_ceil(chunk);
        let panels = chunks.div_ceil(PANEL).max(1);
        let panel = chunks.div_ceil(panels).max(1) as u32;
        let tasks_per_block = THREADS / panel;
        let (statistics, num_statistics) = codes(statistics);
        let aligned = features.is_multiple_of(chunk) || (num_statistics == 1 && features > 1);
        Self {
            graph,
            statistics,
            num_statistics,
            features: features as u32,
            width: row_stride(features) as u32,
            chunks: chunks as u32,
            panel,
            tasks_per_block,
            blocks_per_panel: graph.num_tasks().div_ceil(u64::from(tasks_per_block)) as u32,
            aligned: aligned.into(),
            ..Self::zeroed()
        }
    }

    /// Threads that give every task a thread a chunk.
    fn work(&self) -> u64 {
        let panels = u64::from(self.chunks.div_ceil(self.panel));
        panels * u64::from(self.blocks_per_panel) * u64::from(THREADS)
    }

    /// Threads that give every heavy row a thread a chunk.
    fn heavy_work(&self) -> u64 {
        u64::from(self.graph.num_heavy) * u64::from(self.chunks)
    }
}

impl CudaBackend {
    /// Room for `fields` numbers a feature of every segment.
    fn segment_states(&self, like: &Tensor, args: &ReduceArgs, fields: usize) -> Result<Option<Tensor>, BackendError> {
        let cols = fields * args.chunks as usize * chunk_of(like.dtype());
        match args.graph.num_segments as usize {
            0 => Ok(None),
            n => Tensor::uninit(like.device(), n, cols, "statistics of edge segments").map(Some),
        }
    }
}

/// Numbers that are known of a feature of a row: `FIELDS` of `cuda/reduce.cu`.
fn fields(parts: Ingredients) -> usize {
    let single = usize::from(parts.sums) + usize::from(parts.squares);
    single + 2 * parts.extremes() + 2 * usize::from(parts.product) + 3 * usize::from(parts.softmax)
}

impl ReduceKernels for CudaBackend {
    unsafe fn reduce(&self, args: &Reduce<'_>) -> Result<(), BackendError> {
        let parts = Ingredients::of(args.statistics);
        let graph = self.graph(args.graph, Direction::Forward, args.plan.segment)?;
        let mut kernel = ReduceArgs {
            x: self.tensor(args.x)?,
            out: self.tensor(args.out)?,
            temperature: self.maybe_tensor(args.temperature)?,
            kept: self.maybe_tensor(args.kept)?,
            x_bytes: row_bytes(args.x)?,
            out_stride: args.out.stride() as u64,
            kept_bytes: args.kept.map_or(Ok(0), row_bytes)?,
            ..ReduceArgs::new(graph, args.x.dtype(), args.x.cols(), args.statistics)
        };
        if kernel.chunks == 0 {
            return Ok(());
        }
        let partials = self.segment_states(args.x, &kernel, fields(parts))?;
        kernel.partials = self.maybe_tensor(partials.as_ref())?;
        let module = module(args.x.dtype(), args.x.cols(), parts, false);
        // SAFETY: the shapes fit, which is the caller's promise, and the graph was validated when it was made.
        unsafe {
            self.launch(&module, "reduce_forward", blocks_for(kernel.work(), THREADS)?, &kernel)?;
            self.launch(&module, "reduce_merge", blocks_for(kernel.heavy_work(), THREADS)?, &kernel)
        }
    }

    unsafe fn reduce_coefficients(&self, args: &ReduceCoefficients<'_>) -> Result<(), BackendError> {
        let parts = Ingredients::of(args.statistics);
        let features = args.g.cols() / args.statistics.len();
        let graph = self.graph(args.graph, Direction::Forward, u32::MAX)?;
        let kernel = ReduceArgs {
            g: self.tensor(args.g)?,
            out: self.maybe_tensor(args.out)?,
            kept: self.maybe_tensor(args.kept)?,
            coefficients: self.tensor(args.coefficients)?,
            out_stride: args.g.stride() as u64,
            kept_bytes: args.kept.map_or(Ok(0), row_bytes)?,
            coefficient_bytes: row_bytes(args.coefficients)?,
            ..ReduceArgs::new(graph, args.g.dtype(), features, args.statistics)
        };
        let work = u64::from(kernel.graph.rows) * u64::from(kernel.chunks);
        // SAFETY: the shapes fit, which is the caller's promise.
        unsafe {
            self.launch(
                &module(args.g.dtype(), features, parts, false),
                "reduce_coefficients",
                blocks_for(work, THREADS)?,
                &kernel,
            )
        }
    }

    unsafe fn reduce_grad(&self, args: &ReduceGradient<'_>) -> Result<(), BackendError> {
        let parts = Ingredients::of(args.statistics);
        let graph = self.graph(args.graph, Direction::Transposed, args.plan.segment)?;
        let mut kernel = ReduceArgs {
            tags: if parts.extremes() > 0 { self.edge_tags(args.graph)? } else { 0 },
            x: self.maybe_tensor(args.x)?,
            out: self.tensor(args.grad_x)?,
            temperature: self.maybe_tensor(args.temperature)?,
            kept: self.maybe_tensor(args.kept)?,
            coefficients: self.tensor(args.coefficients)?,
            slope: self.maybe_tensor(args.slope)?,
            x_bytes: args.x.map_or(Ok(0), row_bytes)?,
            out_stride: args.grad_x.stride() as u64,
            kept_bytes: args.kept.map_or(Ok(0), row_bytes)?,
            coefficient_bytes: row_bytes(args.coefficients)?,
            slope_stride: args.slope.map_or(0, Tensor::stride) as u64,
            ..ReduceArgs::new(graph, args.grad_x.dtype(), args.grad_x.cols(), args.statistics)
        };
        if kernel.chunks == 0 {
            return Ok(());
        }
        let partials = self.segment_states(args.grad_x, &kernel, 2)?;
        kernel.partials = self.maybe_tensor(partials.as_ref())?;
        let direct = Ingredients::are_direct(args.statistics);
        let (edges, destinations) = (args.graph.num_edges(), args.graph.num_dst());
        let scattered = match args.kept {
            Some(kept) if direct && ReducePlan::scatters(edges, destinations, args.grad_x.cols()) => {
                // SAFETY: the caller's promise.
                Some(unsafe { self.scatter_extreme(args, kept)? })
            }
            _ => None,
        };
        kernel.largest = self.maybe_tensor(scattered.as_ref())?;
        let module = module(args.grad_x.dtype(), args.grad_x.cols(), parts, direct);
        // SAFETY: the shapes fit, which is the caller's promise, and the graph was validated when it was made.
        unsafe {
            self.launch(&module, "reduce_backward", blocks_for(kernel.work(), THREADS)?, &kernel)?;
            self.launch(&module, "reduce_backward_merge", blocks_for(kernel.heavy_work(), THREADS)?, &kernel)
        }
    }
}
