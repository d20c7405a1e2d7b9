//! How the heads of attention lie over the lanes of a GPU: the host's side of `cuda/head_tasks.cuh`.

use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend, DTYPES, blocks_for, chunk_of, dtype_code, elementwise::DropoutArgs, graph::GraphArgs,
    runtime::DevicePtr, source::Module,
};
use crate::backend::{
    BackendError, DType, DeviceGraph, Direction, Tensor,
    kernels::{DropoutMask, EdgeTerm},
};

/// Threads of a block.
pub(super) const THREADS: u32 = 128;
/// The same where rows are alike: more of them read the columns that they have in common once. Halves have fewer bytes to read, and need
/// the warps that smaller blocks fit.
const THREADS_OF_EVEN_ROWS: u32 = 256;
/// The same where rows differ much in length. A block holds its place on a multiprocessor until its longest row is done.
const THREADS_OF_UNEVEN_ROWS: u32 = 64;
const WARP: usize = 32;
/// Chunks of a head that one lane holds at most.
const MAX_CHUNKS: usize = 4;

/// `AttentionArgs` of `cuda/head_tasks.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct AttentionArgs {
    pub(super) graph: GraphArgs,
    pub(super) g: DevicePtr,
    attr: DevicePtr,
    pub(super) grad_attr: DevicePtr,
    logsumexp: DevicePtr,
    pub(super) numbers: DevicePtr,
    partials: DevicePtr,
    statistics: DevicePtr,
    dropout: DropoutArgs,
    logsumexp_stride: u32,
    attr_bytes: u32,
    attributes: u32,
    heads: u32,
    channels: u32,
    head_chunks: u32,
    lanes: u32,
    blocks_a_pass: u32,
    first_pass: u32,
    passes: u32,
}

/// `GatFamilyArgs` of `cuda/gat.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct GatFamilyArgs {
    pub(super) common: AttentionArgs,
    pub(super) h: DevicePtr,
    weight: DevicePtr,
    grad_weight: DevicePtr,
    rows: DevicePtr,
    row_bytes: u32,
    aligned: u32,
    weight_stride: u32,
    grad_weight_stride: u32,
    range: u32,
    ranges: u32,
    pub(super) slope: f32,
    padding: u32,
}

/// The arguments of a kernel.
pub(super) trait KernelArgs: Pod {
    fn common(&mut self) -> &mut AttentionArgs;
}

/// The same of GAT and GATv2.
pub(super) trait GatFamily: KernelArgs {
    fn family(&mut self) -> &mut GatFamilyArgs;
}

/// What attention is computed of, whatever its scores are.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    pub(super) graph: &'a DeviceGraph,
    pub(super) layout: Layout,
    /// Channels of a head.
    pub(super) channels: usize,
    pub(super) attr: Option<&'a Tensor>,
    pub(super) dropout: Option<&'a DropoutMask<'a>>,
    pub(super) logsumexp: &'a Tensor,
}

/// How heads lie over lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) dtype: DType,
    heads: usize,
    /// Whether chunks are read with care: attributes, or heads that do not start at multiples of 16 bytes.
    pub(super) general: bool,
    /// Whether a head is done part by part.
    pub(super) wide: bool,
    /// Chunks of a head's channels.
    pub(super) node_chunks: usize,
    /// The same with the attributes'.
    head_chunks: usize,
    /// Lanes of a head.
    pub(super) head_lanes: usize,
    /// Chunks of a head that a lane holds.
    pub(super) chunks: usize,
    /// Lanes of a task.
    lanes: usize,
    /// How often the rows are gone through, for a part of the heads each time.
    passes: usize,
}

/// Edges of a task in flight, and warps that share a multiprocessor.
struct Flight {
    edges: u32,
    warps: u32,
    forward_warps: u32,
}

impl Layout {
    /// For rows of `heads` heads, each of so many channels, with attributes behind them.
    pub(super) fn new(dtype: DType, heads: usize, channels: usize, attributes: usize) -> Self {
        let chunk = chunk_of(dtype);
        let node_chunks = channels.div_ceil(chunk);
        let head_chunks = node_chunks + attributes.div_ceil(chunk);
        let head_lanes = head_chunks.next_power_of_two().min(WARP);
        let fitting = head_chunks.div_ceil(WARP).next_power_of_two();
        let wide = fitting > MAX_CHUNKS;
        let chunks = fitting.min(MAX_CHUNKS);
        let passes_of = |lanes: usize| heads.div_ceil(lanes / head_lanes);
        // The fewest lanes in all passes together; of equals the fewest passes.
        let candidates = [32, 16, 8, 4, 2, 1].into_iter().filter(|&lanes| lanes >= head_lanes);
        let lanes = candidates.min_by_key(|&lanes| passes_of(lanes) * lanes).unwrap_or(WARP);
        let parts = if wide { head_chunks.div_ceil(WARP * MAX_CHUNKS) } else { 1 };
        Self {
            dtype,
            heads,
            general: wide || attributes > 0 || !channels.is_multiple_of(chunk),
            wide,
            node_chunks,
            head_chunks,
            head_lanes,
            chunks,
            lanes,
            passes: passes_of(lanes) * parts,
        }
    }

    /// The module of a pass over the rows of `graph`.
    pub(super) fn module(&self, file: &'static str, by_source: bool, graph: &GraphArgs) -> Module {
        self.module_of_blocks(file, by_source, self.threads(graph).max(THREADS))
    }

    fn module_of_blocks(&self, file: &'static str, by_source: bool, threads: u32) -> Module {
        let flight = self.flight(by_source);
        Module::new(file)
            .define("DTYPE", dtype_code(self.dtype))
            .define("SOURCE", by_source)
            .define("GENERAL", self.general)
            .define("WIDE", self.wide)
            .define("THREADS", threads)
            .define("LANES", self.head_lanes as u32)
            .define("CHUNKS", self.chunks as u32)
            .define("UNROLL", flight.edges)
            .define("WARPS", flight.warps)
            .define("FORWARD_WARPS", flight.forward_warps)
    }

    /// What a pass has under way: as much as its registers allow. They go to floats of rows that a lane holds: more of them by source, a
    /// pass that keeps two rows and two sums, and where chunks are read with care. A head of one or two lanes has numbers of several
    /// edges in each, which takes registers too.
    fn flight(&self, by_source: bool) -> Flight {
        let halves = self.dtype != DType::F32;
        let narrow = self.head_lanes <= 2;
        let edges = match self.chunks * chunk_of(self.dtype) {
            4 | 8 if by_source && narrow => 2,
            8 if self.general || (by_source && !halves) => 2,
            4 | 8 => 4,
            16 if halves || !(self.general || by_source) => 2,
            _ => 1,
        };
        let (warps, forward_warps) = match self.chunks * chunk_of(self.dtype) {
            4 if self.general => (16, 20),
            4 => (24, 32),
            8 if halves && (self.general || narrow) => (12, 20),
            8 => (16, 20),
            16 if halves && self.general => (8, 16),
            16 => (12, 16),
            _ => (8, 8),
        };
        Flight { edges, warps, forward_warps }
    }

    /// Every module that a file may be asked for.
    pub(super) fn modules(file: &'static str) -> Vec<Module> {
        let mut all = Vec::new();
        for dtype in DTYPES {
            for chunks in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
                let layout = Self::new(dtype, 1, chunk_of(dtype) * chunks, 0);
                for layout in [layout, layout.careful()] {
                    for by_source in [false, true] {
                        for threads in [THREADS, layout.threads_of_even_rows()] {
                            let module = layout.module_of_blocks(file, by_source, threads);
                            if !all.contains(&module) {
                                all.push(module);
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// The same, chunks being read with care.
    pub(super) fn careful(self) -> Self {
        Self { general: true, ..self }
    }

    /// Whether each head's channels start at a multiple of 16 bytes in a row that has nothing else. Rows do, unless they are a single
    /// number.
    pub(super) fn heads_are_aligned(&self, channels: usize) -> bool {
        channels.is_multiple_of(chunk_of(self.dtype)) || (self.heads == 1 && channels > 1)
    }

    fn threads_of_even_rows(&self) -> u32 {
        if self.general || self.dtype.is_half() { THREADS } else { THREADS_OF_EVEN_ROWS }
    }

    /// Threads of a block that goes over rows. Plans cut rows only where they differ much.
    fn threads(&self, graph: &GraphArgs) -> u32 {
        if graph.num_segments > 0 { THREADS_OF_UNEVEN_ROWS } else { self.threads_of_even_rows() }
    }

    fn blocks_a_pass(&self, graph: &GraphArgs) -> u32 {
        graph.num_tasks().div_ceil(u64::from(self.threads(graph)) / self.lanes as u64) as u32
    }

    /// Room for the sums of the segments of heavy rows, if there are any.
    pub(super) fn segment_sums(&self, like: &Tensor, graph: &GraphArgs) -> Result<Option<Tensor>, BackendError> {
        let columns = self.heads * self.head_chunks * chunk_of(self.dtype);
        (graph.num_segments > 0)
            .then(|| Tensor::uninit_on(like, graph.num_segments as usize, columns, "sums of edge segments"))
            .transpose()
    }

    /// Room for the softmaxes of the segments of heavy rows, if there are any.
    fn segment_softmaxes(&self, like: &Tensor, graph: &GraphArgs) -> Result<Option<Tensor>, BackendError> {
        let pairs = graph.num_segments as usize * self.heads;
        (pairs > 0).then(|| Tensor::uninit_on(like, 2 * pairs, 1, "softmaxes of edge segments")).transpose()
    }

    /// Room for a number of each head of the segments of heavy rows, if there are any.
    pub(super) fn segment_scores(&self, like: &Tensor, graph: &GraphArgs) -> Result<Option<Tensor>, BackendError> {
        let numbers = graph.num_segments as usize * self.heads;
        (numbers > 0).then(|| Tensor::uninit_on(like, numbers, 1, "scores of edge segments")).transpose()
    }

    /// Chunks of the heads of heavy rows.
    fn heavy_chunks(&self, graph: &GraphArgs) -> u64 {
        u64::from(graph.num_heavy) * self.heads as u64 * self.head_chunks as u64
    }
}

/// From a row to the next.
pub(super) fn row_bytes(tensor: &Tensor) -> Result<u32, BackendError> {
    let bytes = tensor.stride() as u64 * 4 / tensor.dtype().per_word() as u64;
    u32::try_from(bytes).map_err(|_| BackendError::TooLarge {
        what: "a row of attention's inputs".into(),
        requested: bytes,
        limit: u64::from(u32::MAX),
        remedy: "use fewer or narrower heads",
    })
}

impl CudaBackend {
    /// What all kernels take, but for outputs and gradients.
    pub(super) fn attention_args(
        &self,
        input: &Heads<'_>,
        direction: Direction,
        segment: u32,
    ) -> Result<AttentionArgs, BackendError> {
        let mut graph = self.graph(input.graph, direction, segment)?;
        if input.dropout.is_some() {
            graph.edge_ids = self.edge_ids(input.graph, direction)?;
        }
        let layout = &input.layout;
        Ok(AttentionArgs {
            graph,
            attr: self.maybe_tensor(input.attr)?,
            logsumexp: self.tensor(input.logsumexp)?,
            dropout: self.dropout_args(input.dropout)?,
            logsumexp_stride: input.logsumexp.stride() as u32,
            attr_bytes: input.attr.map_or(Ok(0), row_bytes)?,
            attributes: input.attr.map_or(0, Tensor::cols) as u32,
            heads: layout.heads as u32,
            channels: input.channels as u32,
            head_chunks: layout.head_chunks as u32,
            lanes: layout.lanes as u32,
            blocks_a_pass: layout.blocks_a_pass(&graph),
            passes: layout.passes as u32,
            ..AttentionArgs::zeroed()
        })
    }

    /// The same for GAT and GATv2, whose feature matrices have rows `like` this one.
    pub(super) fn gat_family_args(
        &self,
        input: &Heads<'_>,
        direction: Direction,
        segment: u32,
        like: &Tensor,
        edge: Option<&EdgeTerm<'_>>,
    ) -> Result<GatFamilyArgs, BackendError> {
        Ok(GatFamilyArgs {
            common: self.attention_args(input, direction, segment)?,
            weight: self.maybe_tensor(edge.map(|edge| edge.weight))?,
            weight_stride: edge.map_or(0, |edge| edge.weight.stride()) as u32,
            row_bytes: row_bytes(like)?,
            aligned: input.layout.heads_are_aligned(input.channels).into(),
            ..GatFamilyArgs::zeroed()
        })
    }

    /// The output, from kernels `entry` and `merge`.
    ///
    /// # Safety
    /// The arguments fit.
    pub(super) unsafe fn run_forward<A: KernelArgs>(
        &self,
        layout: &Layout,
        like: &Tensor,
        module: &Module,
        [entry, merge]: [&'static str; 2],
        mut args: A,
    ) -> Result<(), BackendError> {
        let common = args.common();
        let partials = layout.segment_sums(like, &common.graph)?;
        let statistics = layout.segment_softmaxes(like, &common.graph)?;
        common.partials = self.maybe_tensor(partials.as_ref())?;
        common.statistics = self.maybe_tensor(statistics.as_ref())?;
        // SAFETY: the caller's promise.
        unsafe {
            self.run_passes(layout, module, entry, args, layout.passes)?;
            self.run_merge(layout, module, merge, args)
        }
    }

    /// A pass that sums gradients over the edges of each row, from kernels `entry` and `merge`. Those of segments are as wide as rows
    /// if they are `like` some.
    ///
    /// # Safety
    /// The arguments fit.
    pub(super) unsafe fn run_backward<A: KernelArgs>(
        &self,
        layout: &Layout,
        like: Option<&Tensor>,
        module: &Module,
        [entry, merge]: [&'static str; 2],
        mut args: A,
    ) -> Result<(), BackendError> {
        let common = args.common();
        let partials = like.map_or(Ok(None), |like| layout.segment_sums(like, &common.graph))?;
        common.partials = self.maybe_tensor(partials.as_ref())?;
        // Passes add to the attributes' gradients one after the other.
        let one_by_one = common.grad_attr != 0;
        let (launches, passes) = if one_by_one { (layout.passes, 1) } else { (1, layout.passes) };
        for first_pass in 0..launches as u32 {
            args.common().first_pass = first_pass;
            // SAFETY: the caller's promise.
            unsafe { self.run_passes(layout, module, entry, args, passes)? };
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_merge(layout, module, merge, args) }
    }

    /// Runs a kernel over the rows, `passes` times, for other heads or another part of them each time.
    unsafe fn run_passes<A: KernelArgs>(
        &self,
        layout: &Layout,
        module: &Module,
        entry: &'static str,
        mut args: A,
        passes: usize,
    ) -> Result<(), BackendError> {
        let graph = &args.common().graph;
        let threads = layout.threads(graph);
        let all = (u64::from(layout.blocks_a_pass(graph)) * u64::from(threads)).saturating_mul(passes as u64);
        // SAFETY: the caller's promise.
        unsafe { self.launch(module, entry, blocks_for(all, threads)?, &args) }
    }

    /// Adds up the segments of heavy rows.
    unsafe fn run_merge<A: KernelArgs>(
        &self,
        layout: &Layout,
        module: &Module,
        entry: &'static str,
        mut args: A,
    ) -> Result<(), BackendError> {
        let chunks = layout.heavy_chunks(&args.common().graph);
        // SAFETY: the caller's promise.
        unsafe { self.launch(module, entry, blocks_for(chunks, THREADS)?, &args) }
    }

    /// The gradient of the weight of attributes, a row of `grad_weight` for each range of `range` edges; `columns` attributes at once.
    ///
    /// # Safety
    /// The arguments fit.
    pub(super) unsafe fn run_weight<A: GatFamily>(
        &self,
        input: &Heads<'_>,
        (module, entry): (&Module, &'static str),
        mut args: A,
        grad_weight: &Tensor,
        range: u32,
        columns: usize,
    ) -> Result<(), BackendError> {
        let family = args.family();
        family.grad_weight = self.tensor(grad_weight)?;
        family.grad_weight_stride = grad_weight.stride() as u32;
        family.rows = self.edge_rows(input.graph)?;
        family.range = range;
        family.ranges = grad_weight.rows() as u32;
        let passes = input.layout.passes * input.attr.map_or(0, Tensor::cols).div_ceil(columns);
        let threads = (grad_weight.rows() as u64 * u64::from(THREADS)).saturating_mul(passes as u64);
        // SAFETY: the caller's promise.
        unsafe { self.launch(module, entry, blocks_for(threads, THREADS)?, &args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_lie_over_the_fewest_lanes_and_all_are_done() {
        // Heads, channels, attributes; lanes of a head, its chunks a lane, lanes of a task, passes.
        for (heads, channels, attributes, head_lanes, chunks, lanes, passes) in [
            (1, 64, 0, 16, 1, 16, 1),
            (1, 128, 0, 32, 1, 32, 1),
            (1, 256, 0, 32, 2, 32, 1),
            (8, 8, 0, 2, 1, 16, 1),
            (8, 16, 0, 4, 1, 32, 1),
            (8, 32, 0, 8, 1, 32, 2),
            (5, 32, 0, 8, 1, 8, 5),
            (1, 1, 0, 1, 1, 1, 1),
            (3, 7, 2, 4, 1, 4, 3),
            (2, 1000, 0, 32, 4, 32, 4),
            (1, 516, 0, 32, 4, 32, 2),
        ] {
            let layout = Layout::new(DType::F32, heads, channels, attributes);
            let got = (layout.head_lanes, layout.chunks, layout.lanes, layout.passes);
            let what = format!("{heads} heads, {channels} channels, {attributes} attributes");
            assert_eq!(got, (head_lanes, chunks, lanes, passes), "{what}");
            assert_eq!(layout.wide, channels + attributes > 512, "{what}");
            let modules = Layout::modules("transformer");
            assert!(
                [false, true].iter().all(|&by_source| {
                    modules.contains(&layout.module("transformer", by_source, &GraphArgs::zeroed()))
                }),
                "{what}"
            );
        }
    }
}
