use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend,
    attention::{Layout, row_bytes},
    elementwise::DropoutArgs,
    graph::GraphArgs,
    runtime::DevicePtr,
    source::Module,
};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Gat, GatBackward, GatKernels},
};

/// `GatArgs` of `cuda/gat.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct GatArgs {
    graph: GraphArgs,
    z: DevicePtr,
    g: DevicePtr,
    h: DevicePtr,
    source: DevicePtr,
    destination: DevicePtr,
    logsumexp: DevicePtr,
    grad_z: DevicePtr,
    grad_source: DevicePtr,
    grad_destination: DevicePtr,
    grad_attr: DevicePtr,
    grad_weight: DevicePtr,
    attr: DevicePtr,
    weight: DevicePtr,
    rows: DevicePtr,
    numbers: DevicePtr,
    partials: DevicePtr,
    score_partials: DevicePtr,
    statistics: DevicePtr,
    dropout: DropoutArgs,
    row_bytes: u32,
    score_stride: u32,
    logsumexp_stride: u32,
    attr_bytes: u32,
    weight_stride: u32,
    grad_weight_stride: u32,
    heads: u32,
    channels: u32,
    attributes: u32,
    head_chunks: u32,
    lanes: u32,
    blocks_a_pass: u32,
    first_pass: u32,
    passes: u32,
    aligned: u32,
    range: u32,
    ranges: u32,
    slope: f32,
}

pub(super) fn modules() -> Vec<Module> {
    Layout::modules("gat")
}

fn layout(input: &Gat<'_>) -> Layout {
    let layout = Layout::new(input.z.dtype(), input.heads, input.z.cols() / input.heads, 0);
    if input.edge.is_some() { layout.careful() } else { layout }
}

impl CudaBackend {
    /// Everything but what a pass computes.
    fn gat_args(
        &self,
        input: &Gat<'_>,
        layout: &Layout,
        direction: Direction,
        segment: u32,
        logsumexp: &Tensor,
    ) -> Result<GatArgs, BackendError> {
        let mut graph = self.graph(input.graph, direction, segment)?;
        if input.dropout.is_some() {
            graph.edge_ids = self.edge_ids(input.graph, direction)?;
        }
        let channels = input.z.cols() / input.heads;
        let mut args = GatArgs {
            graph,
            z: self.tensor(input.z)?,
            source: self.tensor(input.source)?,
            destination: self.tensor(input.destination)?,
            score_stride: input.source.stride() as u32,
            logsumexp: self.tensor(logsumexp)?,
            dropout: self.dropout_args(input.dropout.as_ref())?,
            row_bytes: row_bytes(input.z)?,
            logsumexp_stride: logsumexp.stride() as u32,
            heads: input.heads as u32,
            channels: channels as u32,
            head_chunks: layout.head_chunks as u32,
            lanes: layout.lanes as u32,
            blocks_a_pass: layout.blocks_a_pass(&graph),
            passes: layout.passes as u32,
            aligned: layout.heads_are_aligned(channels).into(),
            slope: input.negative_slope,
            ..GatArgs::zeroed()
        };
        if let Some(edge) = &input.edge {
            args.attr = self.tensor(edge.attr)?;
            args.weight = self.tensor(edge.weight)?;
            args.attr_bytes = row_bytes(edge.attr)?;
            args.weight_stride = edge.weight.stride() as u32;
            args.attributes = edge.attr.cols() as u32;
        }
        Ok(args)
    }
}

// SAFETY of the launches: shapes and plans fit, which is the caller's promise, and the graph was validated when it was made.
impl GatKernels for CudaBackend {
    unsafe fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let layout = layout(args);
        let common = self.gat_args(args, &layout, Direction::Forward, args.plan.segment, logsumexp)?;
        let partials = layout.segment_sums(args.z, &common.graph)?;
        let statistics = layout.segment_softmaxes(args.z, &common.graph)?;
        let kernel = GatArgs {
            h: self.tensor(h)?,
            partials: self.maybe_tensor(partials.as_ref())?,
            statistics: self.maybe_tensor(statistics.as_ref())?,
            ..common
        };
        let module = layout.module("gat", false);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&layout, &kernel.graph, (&module, "gat_forward"), &kernel, layout.passes)?;
            self.run_merge(&layout, &kernel.graph, (&module, "gat_merge"), &kernel)
        }
    }

    unsafe fn gat_grad(&self, args: &GatBackward<'_>) -> Result<(), BackendError> {
        let input = args.forward;
        let layout = layout(input);
        let numbers = Tensor::uninit_on(input.z, 2 * args.g.rows() * input.heads, 1, "numbers of destinations")?;
        let with_gradients = |common: GatArgs| -> Result<_, BackendError> {
            Ok(GatArgs {
                g: self.tensor(args.g)?,
                h: self.tensor(args.h)?,
                grad_z: self.tensor(args.grad_z)?,
                grad_source: self.tensor(args.grad_source)?,
                grad_destination: self.tensor(args.grad_destination)?,
                grad_attr: self.maybe_tensor(args.grad_attr)?,
                numbers: self.tensor(&numbers)?,
                ..common
            })
        };

        let common = self.gat_args(input, &layout, Direction::Forward, input.plan.segment, args.logsumexp)?;
        let score_partials = layout.segment_scores(input.z, &common.graph)?;
        let kernel = GatArgs { score_partials: self.maybe_tensor(score_partials.as_ref())?, ..with_gradients(common)? };
        let module = layout.module("gat", false);
        // Passes add to the attributes' gradients one after the other.
        let (launches, passes) = if args.grad_attr.is_some() { (layout.passes, 1) } else { (1, layout.passes) };
        for first_pass in 0..launches as u32 {
            let kernel = GatArgs { first_pass, ..kernel };
            // SAFETY: see above.
            unsafe { self.run_passes(&layout, &kernel.graph, (&module, "gat_by_destination"), &kernel, passes)? };
        }
        // SAFETY: see above.
        unsafe { self.run_merge(&layout, &kernel.graph, (&module, "gat_merge_by_destination"), &kernel)? };
        drop(score_partials);
        if let Some(grad_weight) = args.grad_weight {
            let ranges = grad_weight.rows() as u32;
            let kernel = GatArgs {
                grad_weight: self.tensor(grad_weight)?,
                grad_weight_stride: grad_weight.stride() as u32,
                rows: self.edge_rows(input.graph)?,
                range: input.plan.range,
                ranges,
                ..kernel
            };
            let passes = layout.passes * (kernel.attributes as usize).div_ceil(layout.head_lanes);
            // SAFETY: see above.
            unsafe { self.run_ranges((&module, "gat_weight"), &kernel, ranges, passes)? };
        }

        let segment = args.plan_by_source.segment;
        let common = self.gat_args(input, &layout, Direction::Transposed, segment, args.logsumexp)?;
        let partials = layout.segment_sums(input.z, &common.graph)?;
        let score_partials = layout.segment_scores(input.z, &common.graph)?;
        let kernel = GatArgs {
            partials: self.maybe_tensor(partials.as_ref())?,
            score_partials: self.maybe_tensor(score_partials.as_ref())?,
            ..with_gradients(common)?
        };
        let module = layout.module("gat", true);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&layout, &kernel.graph, (&module, "gat_by_source"), &kernel, layout.passes)?;
            self.run_merge(&layout, &kernel.graph, (&module, "gat_merge_by_source"), &kernel)
        }
    }
}
