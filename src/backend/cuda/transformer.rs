use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend,
    attention::{Layout, row_bytes},
    chunk_of,
    elementwise::DropoutArgs,
    graph::GraphArgs,
    runtime::DevicePtr,
    source::Module,
};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Attention, SpareInput, TransformerBackward, TransformerForward, TransformerKernels},
};

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

pub(super) fn modules() -> Vec<Module> {
    Layout::modules("transformer")
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
        let chunk = chunk_of(layout.dtype);
        let whole = channels.is_multiple_of(chunk);
        let wide_aligned = if attributes == 0 {
            layout.heads_are_aligned(channels)
        } else {
            whole && (attributes.is_multiple_of(chunk) || heads == 1)
        };
        Ok(TransformerArgs {
            graph,
            q: self.tensor(input.q)?,
            k: self.tensor(input.k)?,
            v: self.tensor(input.v)?,
            attr: self.maybe_tensor(input.attr)?,
            dropout: self.dropout_args(input.dropout.as_ref())?,
            wide_bytes: row_bytes(input.q)?,
            node_bytes: row_bytes(input.k)?,
            attr_bytes: input.attr.map_or(Ok(0), row_bytes)?,
            heads: heads as u32,
            channels: channels as u32,
            attributes: attributes as u32,
            node_chunks: layout.node_chunks as u32,
            head_chunks: layout.head_chunks as u32,
            lanes: layout.lanes as u32,
            blocks_a_pass: layout.blocks_a_pass(&graph),
            wide_aligned: wide_aligned.into(),
            node_aligned: layout.heads_are_aligned(channels).into(),
            factor: input.factor(),
            ..TransformerArgs::zeroed()
        })
    }
}

// SAFETY of the launches: shapes and plans fit, which is the caller's promise, and the graph was validated when it was made.
impl TransformerKernels for CudaBackend {
    fn spare_input(&self, input: &Attention<'_>) -> Option<SpareInput> {
        // The parts of a wide head are computed one after the other, each from all of its keys.
        let layout = Layout::new(input.k.dtype(), input.heads, input.channels(), input.attributes());
        (!layout.wide).then_some(SpareInput::Keys)
    }

    unsafe fn transformer(&self, args: &TransformerForward<'_>) -> Result<(), BackendError> {
        let input = &args.input;
        let layout = Layout::new(input.k.dtype(), input.heads, input.channels(), input.attributes());
        let common = self.transformer_args(input, &layout, Direction::Forward, args.plan.segment)?;
        let partials = layout.segment_sums(input.k, &common.graph)?;
        let statistics = layout.segment_softmaxes(input.k, &common.graph)?;
        let kernel = TransformerArgs {
            out: self.tensor(args.out)?,
            logsumexp: self.tensor(args.logsumexp)?,
            logsumexp_stride: args.logsumexp.stride() as u32,
            partials: self.maybe_tensor(partials.as_ref())?,
            statistics: self.maybe_tensor(statistics.as_ref())?,
            ..common
        };
        let module = layout.module("transformer", false);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&module, "transformer_forward", &kernel, kernel.blocks_a_pass, layout.passes)?;
            self.run_merge(&module, "transformer_merge", &kernel, layout.heavy_chunks(&kernel.graph))
        }
    }

    unsafe fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Result<(), BackendError> {
        let input = &args.input;
        let layout = Layout::new(input.k.dtype(), input.heads, input.channels(), input.attributes());
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
        let partials = layout.segment_sums(input.k, &common.graph)?;
        let kernel = TransformerArgs { partials: self.maybe_tensor(partials.as_ref())?, ..with_gradients(common)? };
        let module = layout.module("transformer", false);
        // Passes add to the attributes' gradients one after the other.
        let (launches, passes) = if args.grad_attr.is_some() { (layout.passes, 1) } else { (1, layout.passes) };
        for first_pass in 0..launches as u32 {
            let kernel = TransformerArgs { first_pass, ..kernel };
            // SAFETY: see above.
            unsafe { self.run_passes(&module, "transformer_by_destination", &kernel, kernel.blocks_a_pass, passes)? };
        }
        // SAFETY: see above.
        unsafe {
            self.run_merge(&module, "transformer_merge_by_destination", &kernel, layout.heavy_chunks(&kernel.graph))?
        };
        drop(partials);

        let common = self.transformer_args(input, &layout, Direction::Transposed, args.transposed_plan.segment)?;
        let partials = layout.segment_sums(input.k, &common.graph)?;
        let second = layout.segment_sums(input.k, &common.graph)?;
        let kernel = TransformerArgs {
            partials: self.maybe_tensor(partials.as_ref())?,
            second_partials: self.maybe_tensor(second.as_ref())?,
            ..with_gradients(common)?
        };
        let module = layout.module("transformer", true);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&module, "transformer_by_source", &kernel, kernel.blocks_a_pass, layout.passes)?;
            self.run_merge(&module, "transformer_merge_by_source", &kernel, layout.heavy_chunks(&kernel.graph))
        }
    }
}
