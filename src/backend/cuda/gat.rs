use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend,
    attention::{AttentionArgs, GatFamily, GatFamilyArgs, Heads, KernelArgs, Layout},
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
    family: GatFamilyArgs,
    z: DevicePtr,
    source: DevicePtr,
    destination: DevicePtr,
    grad_z: DevicePtr,
    grad_source: DevicePtr,
    grad_destination: DevicePtr,
    score_partials: DevicePtr,
    score_stride: u32,
    padding: u32,
}

impl KernelArgs for GatArgs {
    fn common(&mut self) -> &mut AttentionArgs {
        &mut self.family.common
    }
}

impl GatFamily for GatArgs {
    fn family(&mut self) -> &mut GatFamilyArgs {
        &mut self.family
    }
}

pub(super) fn modules() -> Vec<Module> {
    Layout::modules("gat")
}

fn heads<'a>(input: &'a Gat<'a>, logsumexp: &'a Tensor) -> Heads<'a> {
    let channels = input.z.cols() / input.heads;
    let layout = Layout::new(input.z.dtype(), input.heads, channels, 0);
    Heads {
        graph: input.graph,
        layout: if input.edge.is_some() { layout.careful() } else { layout },
        channels,
        attr: input.edge.as_ref().map(|edge| edge.attr),
        dropout: input.dropout.as_ref(),
        logsumexp,
    }
}

impl CudaBackend {
    /// Everything but what a pass computes.
    fn gat_args(
        &self,
        input: &Gat<'_>,
        heads: &Heads<'_>,
        direction: Direction,
        segment: u32,
    ) -> Result<GatArgs, BackendError> {
        let mut family = self.gat_family_args(heads, direction, segment, input.z, input.edge.as_ref())?;
        family.slope = input.negative_slope;
        Ok(GatArgs {
            family,
            z: self.tensor(input.z)?,
            source: self.tensor(input.source)?,
            destination: self.tensor(input.destination)?,
            score_stride: input.source.stride() as u32,
            ..GatArgs::zeroed()
        })
    }
}

// SAFETY of the launches: shapes and plans fit, which is the caller's promise, and the graph was validated when it was made.
impl GatKernels for CudaBackend {
    unsafe fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let heads = heads(args, logsumexp);
        let mut kernel = self.gat_args(args, &heads, Direction::Forward, args.plan.segment)?;
        kernel.family.h = self.tensor(h)?;
        let module = heads.layout.module("gat", false, &kernel.family.common.graph);
        // SAFETY: see above.
        unsafe { self.run_forward(&heads.layout, args.z, &module, ["gat_forward", "gat_merge"], kernel) }
    }

    unsafe fn gat_grad(&self, args: &GatBackward<'_>) -> Result<(), BackendError> {
        let input = args.forward;
        let heads = heads(input, args.logsumexp);
        let layout = &heads.layout;
        let numbers = Tensor::uninit_on(input.z, 2 * args.g.rows() * input.heads, 1, "numbers of destinations")?;
        let with_gradients = |mut kernel: GatArgs| -> Result<_, BackendError> {
            kernel.family.common.g = self.tensor(args.g)?;
            kernel.family.common.numbers = self.tensor(&numbers)?;
            kernel.family.h = self.tensor(args.h)?;
            Ok(GatArgs {
                grad_z: self.tensor(args.grad_z)?,
                grad_source: self.tensor(args.grad_source)?,
                grad_destination: self.tensor(args.grad_destination)?,
                ..kernel
            })
        };

        let kernel = self.gat_args(input, &heads, Direction::Forward, input.plan.segment)?;
        let mut kernel = with_gradients(kernel)?;
        let score_partials = layout.segment_scores(input.z, &kernel.family.common.graph)?;
        kernel.family.common.grad_attr = self.maybe_tensor(args.grad_attr)?;
        kernel.score_partials = self.maybe_tensor(score_partials.as_ref())?;
        let module = layout.module("gat", false, &kernel.family.common.graph);
        let entries = ["gat_by_destination", "gat_merge_by_destination"];
        // SAFETY: see above.
        unsafe { self.run_backward(layout, None, &module, entries, kernel)? };
        drop(score_partials);
        if let Some(grad_weight) = args.grad_weight {
            let (range, columns) = (input.plan.range, layout.head_lanes);
            // SAFETY: see above.
            unsafe { self.run_weight(&heads, (&module, "gat_weight"), kernel, grad_weight, range, columns)? };
        }

        let kernel = self.gat_args(input, &heads, Direction::Transposed, args.plan_by_source.segment)?;
        let mut kernel = with_gradients(kernel)?;
        let score_partials = layout.segment_scores(input.z, &kernel.family.common.graph)?;
        kernel.score_partials = self.maybe_tensor(score_partials.as_ref())?;
        let module = layout.module("gat", true, &kernel.family.common.graph);
        let entries = ["gat_by_source", "gat_merge_by_source"];
        // SAFETY: see above.
        unsafe { self.run_backward(layout, Some(input.z), &module, entries, kernel) }
    }
}
