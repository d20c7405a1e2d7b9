use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend,
    attention::{AttentionArgs, Heads, KernelArgs, Layout, row_bytes},
    chunk_of,
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
    common: AttentionArgs,
    q: DevicePtr,
    k: DevicePtr,
    v: DevicePtr,
    out: DevicePtr,
    grad_q: DevicePtr,
    grad_k: DevicePtr,
    grad_v: DevicePtr,
    second_partials: DevicePtr,
    wide_bytes: u32,
    node_bytes: u32,
    node_chunks: u32,
    wide_aligned: u32,
    node_aligned: u32,
    factor: f32,
}

impl KernelArgs for TransformerArgs {
    fn common(&mut self) -> &mut AttentionArgs {
        &mut self.common
    }
}

pub(super) fn modules() -> Vec<Module> {
    Layout::modules("transformer")
}

fn heads<'a>(input: &'a Attention<'a>, logsumexp: &'a Tensor) -> Heads<'a> {
    Heads {
        graph: input.graph,
        layout: Layout::new(input.k.dtype(), input.heads, input.channels(), input.attributes()),
        channels: input.channels(),
        attr: input.attr,
        dropout: input.dropout.as_ref(),
        logsumexp,
    }
}

impl CudaBackend {
    /// Everything but what a pass computes.
    fn transformer_args(
        &self,
        input: &Attention<'_>,
        heads: &Heads<'_>,
        direction: Direction,
        segment: u32,
    ) -> Result<TransformerArgs, BackendError> {
        let layout = &heads.layout;
        let (channels, attributes) = (heads.channels, input.attributes());
        let chunk = chunk_of(layout.dtype);
        let wide_aligned = if attributes == 0 {
            layout.heads_are_aligned(channels)
        } else {
            channels.is_multiple_of(chunk) && (attributes.is_multiple_of(chunk) || input.heads == 1)
        };
        Ok(TransformerArgs {
            common: self.attention_args(heads, direction, segment)?,
            q: self.tensor(input.q)?,
            k: self.tensor(input.k)?,
            v: self.tensor(input.v)?,
            wide_bytes: row_bytes(input.q)?,
            node_bytes: row_bytes(input.k)?,
            node_chunks: layout.node_chunks as u32,
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
        let heads = heads(input, args.logsumexp);
        let mut kernel = self.transformer_args(input, &heads, Direction::Forward, args.plan.segment)?;
        kernel.out = self.tensor(args.out)?;
        let module = heads.layout.module("transformer", false, &kernel.common.graph);
        let entries = ["transformer_forward", "transformer_merge"];
        // SAFETY: see above.
        unsafe { self.run_forward(&heads.layout, input.k, &module, entries, kernel) }
    }

    unsafe fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Result<(), BackendError> {
        let input = &args.input;
        let heads = heads(input, args.logsumexp);
        let layout = &heads.layout;
        let numbers = Tensor::uninit_on(input.k, 2 * args.g.rows() * input.heads, 1, "numbers of destinations")?;
        let with_gradients = |mut kernel: TransformerArgs| -> Result<_, BackendError> {
            kernel.common.g = self.tensor(args.g)?;
            kernel.common.numbers = self.tensor(&numbers)?;
            Ok(TransformerArgs {
                out: self.tensor(args.out)?,
                grad_q: self.tensor(args.grad_q)?,
                grad_k: self.tensor(args.grad_k)?,
                grad_v: self.tensor(args.grad_v)?,
                ..kernel
            })
        };

        let kernel = self.transformer_args(input, &heads, Direction::Forward, args.plan.segment)?;
        let mut kernel = with_gradients(kernel)?;
        kernel.common.grad_attr = self.maybe_tensor(args.grad_attr)?;
        let module = layout.module("transformer", false, &kernel.common.graph);
        let entries = ["transformer_by_destination", "transformer_merge_by_destination"];
        // SAFETY: see above.
        unsafe { self.run_backward(layout, Some(input.k), &module, entries, kernel)? };

        let kernel = self.transformer_args(input, &heads, Direction::Transposed, args.transposed_plan.segment)?;
        let mut kernel = with_gradients(kernel)?;
        let second = layout.segment_sums(input.k, &kernel.common.graph)?;
        kernel.second_partials = self.maybe_tensor(second.as_ref())?;
        let module = layout.module("transformer", true, &kernel.common.graph);
        let entries = ["transformer_by_source", "transformer_merge_by_source"];
        // SAFETY: see above.
        unsafe { self.run_backward(layout, Some(input.k), &module, entries, kernel) }
    }
}
