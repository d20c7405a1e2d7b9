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
    kernels::{Gatv2, Gatv2Backward, Gatv2Kernels},
};

/// `TILE` of `cuda/gatv2.cu`.
const TILE: usize = 4;

/// `Gatv2Args` of `cuda/gatv2.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Gatv2Args {
    graph: GraphArgs,
    l: DevicePtr,
    r: DevicePtr,
    g: DevicePtr,
    h: DevicePtr,
    logsumexp: DevicePtr,
    grad_l: DevicePtr,
    grad_r: DevicePtr,
    grad_att: DevicePtr,
    grad_attr: DevicePtr,
    grad_weight: DevicePtr,
    att: DevicePtr,
    attr: DevicePtr,
    weight: DevicePtr,
    rows: DevicePtr,
    numbers: DevicePtr,
    partials: DevicePtr,
    second_partials: DevicePtr,
    statistics: DevicePtr,
    dropout: DropoutArgs,
    row_bytes: u32,
    grad_att_stride: u32,
    attr_bytes: u32,
    weight_stride: u32,
    grad_weight_stride: u32,
    logsumexp_stride: u32,
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
    linear: f32,
    absolute: f32,
}

pub(super) fn modules() -> Vec<Module> {
    Layout::modules("gatv2")
}

fn layout(input: &Gatv2<'_>) -> Layout {
    let layout = Layout::new(input.l.dtype(), input.heads, input.l.cols() / input.heads, 0);
    if input.edge.is_some() { layout.careful() } else { layout }
}

impl CudaBackend {
    /// Everything but what a pass computes.
    fn gatv2_args(
        &self,
        input: &Gatv2<'_>,
        layout: &Layout,
        direction: Direction,
        segment: u32,
        logsumexp: &Tensor,
    ) -> Result<Gatv2Args, BackendError> {
        let mut graph = self.graph(input.graph, direction, segment)?;
        if input.dropout.is_some() {
            graph.edge_ids = self.edge_ids(input.graph, direction)?;
        }
        let channels = input.l.cols() / input.heads;
        let mut args = Gatv2Args {
            graph,
            l: self.tensor(input.l)?,
            r: self.tensor(input.r)?,
            logsumexp: self.tensor(logsumexp)?,
            att: self.tensor(input.att)?,
            dropout: self.dropout_args(input.dropout.as_ref())?,
            row_bytes: row_bytes(input.l)?,
            logsumexp_stride: logsumexp.stride() as u32,
            heads: input.heads as u32,
            channels: channels as u32,
            head_chunks: layout.head_chunks as u32,
            lanes: layout.lanes as u32,
            blocks_a_pass: layout.blocks_a_pass(&graph),
            passes: layout.passes as u32,
            aligned: layout.heads_are_aligned(channels).into(),
            slope: input.negative_slope,
            linear: std::f32::consts::LOG2_E * 0.5 * (1.0 + input.negative_slope),
            absolute: std::f32::consts::LOG2_E * 0.5 * (1.0 - input.negative_slope),
            ..Gatv2Args::zeroed()
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
impl Gatv2Kernels for CudaBackend {
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let layout = layout(args);
        let common = self.gatv2_args(args, &layout, Direction::Forward, args.plan.segment, logsumexp)?;
        let partials = layout.segment_sums(args.l, &common.graph)?;
        let statistics = layout.segment_softmaxes(args.l, &common.graph)?;
        let kernel = Gatv2Args {
            h: self.tensor(h)?,
            partials: self.maybe_tensor(partials.as_ref())?,
            statistics: self.maybe_tensor(statistics.as_ref())?,
            ..common
        };
        let module = layout.module("gatv2", false);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&layout, &kernel.graph, (&module, "gatv2_forward"), &kernel, layout.passes)?;
            self.run_merge(&layout, &kernel.graph, (&module, "gatv2_merge"), &kernel)
        }
    }

    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        let input = args.forward;
        let layout = layout(input);
        let numbers = Tensor::uninit_on(input.l, 2 * args.g.rows() * input.heads, 1, "numbers of destinations")?;
        let with_gradients = |common: Gatv2Args| -> Result<_, BackendError> {
            Ok(Gatv2Args {
                g: self.tensor(args.g)?,
                h: self.tensor(args.h)?,
                grad_l: self.tensor(args.grad_l)?,
                grad_r: self.tensor(args.grad_r)?,
                grad_att: self.tensor(args.grad_att)?,
                grad_att_stride: args.grad_att.stride() as u32,
                grad_attr: self.maybe_tensor(args.grad_attr)?,
                numbers: self.tensor(&numbers)?,
                ..common
            })
        };

        let common = self.gatv2_args(input, &layout, Direction::Forward, input.plan.segment, args.logsumexp)?;
        let partials = layout.segment_sums(input.l, &common.graph)?;
        let second = layout.segment_sums(input.l, &common.graph)?;
        let kernel = Gatv2Args {
            partials: self.maybe_tensor(partials.as_ref())?,
            second_partials: self.maybe_tensor(second.as_ref())?,
            ..with_gradients(common)?
        };
        let module = layout.module("gatv2", false);
        // Passes add to the attributes' gradients one after the other.
        let (launches, passes) = if args.grad_attr.is_some() { (layout.passes, 1) } else { (1, layout.passes) };
        for first_pass in 0..launches as u32 {
            let kernel = Gatv2Args { first_pass, ..kernel };
            // SAFETY: see above.
            unsafe { self.run_passes(&layout, &kernel.graph, (&module, "gatv2_by_destination"), &kernel, passes)? };
        }
        // SAFETY: see above.
        unsafe { self.run_merge(&layout, &kernel.graph, (&module, "gatv2_merge_by_destination"), &kernel)? };
        drop((partials, second));
        if let Some(grad_weight) = args.grad_weight {
            let ranges = grad_weight.rows() as u32;
            let kernel = Gatv2Args {
                grad_weight: self.tensor(grad_weight)?,
                grad_weight_stride: grad_weight.stride() as u32,
                rows: self.edge_rows(input.graph)?,
                range: input.plan.range,
                ranges,
                ..kernel
            };
            let passes = layout.passes * (kernel.attributes as usize).div_ceil(TILE);
            // SAFETY: see above.
            unsafe { self.run_ranges((&module, "gatv2_weight"), &kernel, ranges, passes)? };
        }

        let segment = args.plan_by_source.segment;
        let common = self.gatv2_args(input, &layout, Direction::Transposed, segment, args.logsumexp)?;
        let partials = layout.segment_sums(input.l, &common.graph)?;
        let kernel = Gatv2Args { partials: self.maybe_tensor(partials.as_ref())?, ..with_gradients(common)? };
        let module = layout.module("gatv2", true);
        // SAFETY: see above.
        unsafe {
            self.run_passes(&layout, &kernel.graph, (&module, "gatv2_by_source"), &kernel, layout.passes)?;
            self.run_merge(&layout, &kernel.graph, (&module, "gatv2_merge_by_source"), &kernel)
        }
    }
}
