use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, elementwise::DropoutArgs, graph::GraphArgs, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Attention, TransformerBackward, TransformerForward, TransformerKernels},
};

const THREADS: u32 = 256;
const WARP: usize = 32;
/// Numbers in 16 bytes.
const CHUNK: usize = 4;
/// Chunks of a head that one lane holds at most.
const MAX_CHUNKS: usize = 4;

/// `TransformerArgs` of `cuda/transformer.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct TransformerArgs {
    graph: GraphArgs,
    q: DevicePtr,
    k: DevicePtr,
    v: DevicePtr,
    attr: DevicePtr,
    g: DevicePtr,
    out: DevicePtr,
    logsumexp: DevicePtr,
    grad_q: DevicePtr,
    grad_k: DevicePtr,
    grad_v: DevicePtr,
    grad_attr: DevicePtr,
    numbers: DevicePtr,
    partials: DevicePtr,
    second_partials: DevicePtr,
    statistics: DevicePtr,
    dropout: DropoutArgs,
    wide_bytes: u32,
    node_bytes: u32,
    attr_bytes: u32,
    logsumexp_stride: u32,
    heads: u32,
    channels: u32,
    attributes: u32,
    node_chunks: u32,
    head_chunks: u32,
    lanes: u32,
    blocks_a_pass: u32,
    first_pass: u32,
    wide_aligned: u32,
    node_aligned: u32,
    factor: f32,
    padding: u32,
}

/// How heads lie over lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Whether chunks are read with care: attributes, or heads that do not start at multiples of 16 bytes.
    general: bool,
    /// Whether a head is done part by part.
    wide: bool,
    /// Chunks of a head's channels.
    node_chunks: usize,
    /// The same with the attributes'.
    head_chunks: usize,
    /// Lanes of a head.
    head_lanes: usize,
    /// Chunks of a head that a lane holds.
    chunks: usize,
    /// Lanes of a task.
    lanes: usize,
    /// How often the rows are gone through, for a part of the heads each time.
    passes: usize,
}

impl Layout {
    fn new(heads: usize, channels: usize, attributes: usize) -> Self {
        let node_chunks = channels.div_ceil(CHUNK);
        let head_chunks = node_chunks + attributes.div_ceil(CHUNK);
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
            general: wide || attributes > 0 || !channels.is_multiple_of(CHUNK),
            wide,
            node_chunks,
            head_chunks,
            head_lanes,
            chunks,
            lanes,
            passes: passes_of(lanes) * parts,
        }
    }

    /// The module of a pass. Where lanes hold several chunks, fewer edges are in flight, fewer still by source, a pass that keeps two
    /// rows and two sums, and where chunks are read with care.
    fn module(&self, by_source: bool) -> Module {
        let unroll: u32 = match (self.chunks, by_source || self.general) {
            (1, _) | (2, false) => 4,
            (2, true) | (_, false) => 2,
            (_, true) => 1,
        };
        Module::new("transformer")
            .define("SOURCE", by_source)
            .define("GENERAL", self.general)
            .define("WIDE", self.wide)
            .define("THREADS", THREADS)
            .define("LANES", self.head_lanes as u32)
            .define("CHUNKS", self.chunks as u32)
            .define("UNROLL", unroll)
    }
}

/// Every module that attention may ask for.
pub(super) fn modules() -> Vec<Module> {
    let mut all = Vec::new();
    for attributes in [0, 1] {
        for chunks in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            let layout = Layout::new(1, CHUNK * (chunks - attributes), attributes);
            for by_source in [false, true] {
                let module = layout.module(by_source);
                if !all.contains(&module) {
                    all.push(module);
                }
            }
        }
    }
    all
}

impl CudaBackend {
    /// Everything but what a pass computes.
    fn transformer_args(
        &self,
        input: &Attention<'_>,
        layout: &Layout,
        direction: Direction,
        segment: u32,
    ) -> Result<TransformerArgs, BackendError> {
        let mut graph = self.graph(input.graph, direction, segment)?;
        if input.dropout.is_some() {
            graph.edge_ids = self.edge_ids(input.graph, direction)?;
        }
        let (heads, channels, attributes) = (input.heads, input.channels(), input.attributes());
        let bytes = |tensor: &Tensor| {
            let bytes = tensor.stride() as u64 * 4;
            u32::try_from(bytes).map_err(|_| BackendError::TooLarge {
                what: "a row of queries, keys or attributes".into(),
                requested: bytes,
                limit: u64::from(u32::MAX),
                remedy: "use fewer or narrower heads",
            })
        };
        // Rows start at multiples of 16 bytes unless they are a single number.
        let one_head = heads == 1 && input.k.cols() > 1;
        let whole = channels.is_multiple_of(CHUNK);
        let wide_aligned =
            if attributes == 0 { whole || one_head } else { whole && (attributes.is_multiple_of(CHUNK) || heads == 1) };
        Ok(TransformerArgs {
            graph,
            q: self.tensor(input.q)?,
            k: self.tensor(input.k)?,
            v: self.tensor(input.v)?,
            attr: self.maybe_tensor(input.attr)?,
            dropout: self.dropout_args(input.dropout.as_ref())?,
            wide_bytes: bytes(input.q)?,
            node_bytes: bytes(input.k)?,
            attr_bytes: input.attr.map_or(Ok(0), bytes)?,
            heads: heads as u32,
            channels: channels as u32,
            attributes: attributes as u32,
            node_chunks: layout.node_chunks as u32,
            head_chunks: layout.head_chunks as u32,
            lanes: layout.lanes as u32,
            blocks_a_pass: graph.num_tasks().div_ceil(u64::from(THREADS) / layout.lanes as u64) as u32,
            wide_aligned: wide_aligned.into(),
            node_aligned: (whole || one_head).into(),
            factor: input.factor(),
            ..TransformerArgs::zeroed()
        })
    }

    /// The sums of the segments of heavy rows, if there are any.
    fn segment_sums(
        &self,
        input: &Attention<'_>,
        layout: &Layout,
        graph: &GraphArgs,
    ) -> Result<Option<Tensor>, BackendError> {
        let columns = input.heads * layout.head_chunks * CHUNK;
        (graph.num_segments > 0)
            .then(|| Tensor::uninit_on(input.k, graph.num_segments as usize, columns, "sums of edge segments"))
            .transpose()
    }

    /// Runs a kernel over `passes` of the tasks.
    ///
    /// # Safety
    /// The arguments fit.
    unsafe fn run_passes(
        &self,
        module: &Module,
        entry: &'static str,
        args: &TransformerArgs,
        passes: usize,
    ) -> Result<(), BackendError> {
        let threads = u64::from(args.blocks_a_pass) * u64::from(THREADS);
        // SAFETY: the caller's promise.
        unsafe { self.launch(module, entry, blocks_for(threads.saturating_mul(passes as u64), THREADS)?, args) }
    }

    /// Adds up the segments of heavy rows.
    ///
    /// # Safety
    /// The arguments fit.
    unsafe fn merge(&self, module: &Module, entry: &'static str, args: &TransformerArgs) -> Result<(), BackendError> {
        let chunks = u64::from(args.graph.num_heavy) * u64::from(args.heads) * u64::from(args.head_chunks);
        // SAFETY: the caller's promise.
        unsafe { self.launch(module, entry, blocks_for(chunks, THREADS)?, args) }
    }
}

// SAFETY of the launches: shapes and plans fit, which is the caller's promise, and the graph was validated when it was made.
impl TransformerKernels for CudaBackend {
    unsafe fn transformer(&self, args: &TransformerForward<'_>) -> Result<(), BackendError> {
        let input = &args.input;
        let layout = Layout::new(input.heads, input.channels(), input.attributes());
        let common = self.transformer_args(input, &layout, Direction::Forward, args.plan.segment)?;
        let partials = self.segment_sums(input, &layout, &common.graph)?;
        let pairs = common.graph.num_segments as usize * input.heads;
        let statistics = match pairs {
            0 => None,
            n => Some(Tensor::uninit_on(input.k, 2 * n, 1, "softmaxes of edge segments")?),
        };
        let kernel = TransformerArgs {
            out: self.tensor(args.out)?,
            logsumexp: self.tensor(args.logsumexp)?,
            logsumexp_stride: args.logsumexp.stride() as u32,
            partials: self.maybe_tensor(partials.as_ref())?,
            statistics: self.maybe_tensor(statistics.as_ref())?,
            ..common
        };
        let module = layout.module(false);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&module, "transformer_forward", &kernel, layout.passes)?;
            self.merge(&module, "transformer_merge", &kernel)
        }
    }

    unsafe fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Result<(), BackendError> {
        let input = &args.input;
        let layout = Layout::new(input.heads, input.channels(), input.attributes());
        let numbers = Tensor::uninit_on(input.k, 2 * args.g.rows() * input.heads, 1, "numbers of destinations")?;
        let with_gradients = |common: TransformerArgs| -> Result<_, BackendError> {
            Ok(TransformerArgs {
                g: self.tensor(args.g)?,
                out: self.tensor(args.out)?,
                logsumexp: self.tensor(args.logsumexp)?,
                logsumexp_stride: args.logsumexp.stride() as u32,
                grad_q: self.tensor(args.grad_q)?,
                grad_k: self.tensor(args.grad_k)?,
                grad_v: self.tensor(args.grad_v)?,
                grad_attr: self.maybe_tensor(args.grad_attr)?,
                numbers: self.tensor(&numbers)?,
                ..common
            })
        };

        let common = self.transformer_args(input, &layout, Direction::Forward, args.plan.segment)?;
        let partials = self.segment_sums(input, &layout, &common.graph)?;
        let kernel = TransformerArgs { partials: self.maybe_tensor(partials.as_ref())?, ..with_gradients(common)? };
        let module = layout.module(false);
        // Passes add to the attributes' gradients one after the other.
        let (launches, passes) = if args.grad_attr.is_some() { (layout.passes, 1) } else { (1, layout.passes) };
        for first_pass in 0..launches as u32 {
            let kernel = TransformerArgs { first_pass, ..kernel };
            // SAFETY: see above.
            unsafe { self.run_passes(&module, "transformer_by_destination", &kernel, passes)? };
        }
        // SAFETY: see above.
        unsafe { self.merge(&module, "transformer_merge_by_destination", &kernel)? };
        drop(partials);

        let common = self.transformer_args(input, &layout, Direction::Transposed, args.transposed_plan.segment)?;
        let partials = self.segment_sums(input, &layout, &common.graph)?;
        let second = self.segment_sums(input, &layout, &common.graph)?;
        let kernel = TransformerArgs {
            partials: self.maybe_tensor(partials.as_ref())?,
            second_partials: self.maybe_tensor(second.as_ref())?,
            ..with_gradients(common)?
        };
        let module = layout.module(true);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&module, "transformer_by_source", &kernel, layout.passes)?;
            self.merge(&module, "transformer_merge_by_source", &kernel)
        }
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
            let layout = Layout::new(heads, channels, attributes);
            let got = (layout.head_lanes, layout.chunks, layout.lanes, layout.passes);
            let what = format!("{heads} heads, {channels} channels, {attributes} attributes");
            assert_eq!(got, (head_lanes, chunks, lanes, passes), "{what}");
            assert_eq!(layout.wide, channels + attributes > 512, "{what}");
            assert!(modules().contains(&layout.module(false)) && modules().contains(&layout.module(true)), "{what}");
        }
    }
}
