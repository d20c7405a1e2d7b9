use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend,
    attention::{AttentionArgs, GatFamily, GatFamilyArgs, Heads, KernelArgs, Layout},
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
    family: GatFamilyArgs,
    l: DevicePtr,
    r: DevicePtr,
    att: DevicePtr,
    grad_l: DevicePtr,
    grad_r: DevicePtr,
    grad_att: DevicePtr,
    second_partials: DevicePtr,
    grad_att_stride: u32,
    linear: f32,
    absolute: f32,
    padding: u32,
}

impl KernelArgs for Gatv2Args {
    fn common(&mut self) -> &mut AttentionArgs {
        &mut self.family.common
    }
}

impl GatFamily for Gatv2Args {
    fn family(&mut self) -> &mut GatFamilyArgs {
        &mut self.family
    }
}

pub(super) fn modules() -> Vec<Module> {
    Layout::modules("gatv2")
}

fn heads<'a>(input: &'a Gatv2<'a>, logsumexp: &'a Tensor) -> Heads<'a> {
    let channels = input.l.cols() / input.heads;
    let layout = Layout::new(input.l.dtype(), input.heads, channels, 0);
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
    fn gatv2_args(
        &self,
        input: &Gatv2<'_>,
        heads: &Heads<'_>,
        direction: Direction,
        segment: u32,
    ) -> Result<Gatv2Args, BackendError> {
        let mut family = self.gat_family_args(heads, direction, segment, input.l, input.edge.as_ref())?;
        family.slope = input.negative_slope;
        Ok(Gatv2Args {
            family,
            l: self.tensor(input.l)?,
            r: self.tensor(input.r)?,
            att: self.tensor(input.att)?,
            linear: std::f32::consts::LOG2_E * 0.5 * (1.0 + input.negative_slope),
            absolute: std::f32::consts::LOG2_E * 0.5 * (1.0 - input.negative_slope),
            ..Gatv2Args::zeroed()
        })
    }
}

// SAFETY of the launches: shapes and plans fit, which is the caller's promise, and the graph was validated when it was made.
impl Gatv2Kernels for CudaBackend {
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let heads = heads(args, logsumexp);
        let mut kernel = self.gatv2_args(args, &heads, Direction::Forward, args.plan.segment)?;
        kernel.family.h = self.tensor(h)?;
        let module = heads.layout.module("gatv2", false, &kernel.family.common.graph);
        // SAFETY: see above.
        unsafe { self.run_forward(&heads.layout, args.l, &module, ["gatv2_forward", "gatv2_merge"], kernel) }
    }

    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        let input = args.forward;
        let heads = heads(input, args.logsumexp);
        let layout = &heads.layout;
        let numbers = Tensor::uninit_on(input.l, 2 * args.g.rows() * input.heads, 1, "numbers of destinations")?;
        let with_gradients = |mut kernel: Gatv2Args| -> Result<_, BackendError> {
            kernel.family.common.g = self.tensor(args.g)?;
            kernel.family.common.numbers = self.tensor(&numbers)?;
            kernel.family.h = self.tensor(args.h)?;
            Ok(Gatv2Args {
                grad_l: self.tensor(args.grad_l)?,
                grad_r: self.tensor(args.grad_r)?,
                grad_att: self.tensor(args.grad_att)?,
                grad_att_stride: args.grad_att.stride() as u32,
                ..kernel
            })
        };

        let kernel = self.gatv2_args(input, &heads, Direction::Forward, input.plan.segment)?;
        let mut kernel = with_gradients(kernel)?;
        let second = layout.segment_sums(input.l, &kernel.family.common.graph)?;
        kernel.family.common.grad_attr = self.maybe_tensor(args.grad_attr)?;
        kernel.second_partials = self.maybe_tensor(second.as_ref())?;
        let module = layout.module("gatv2", false, &kernel.family.common.graph);
        let entries = ["gatv2_by_destination", "gatv2_merge_by_destination"];
        // SAFETY: see above.
        unsafe { self.run_backward(layout, Some(input.l), &module, entries, kernel)? };
        drop(second);
        if let Some(grad_weight) = args.grad_weight {
            let (range, columns) = (input.plan.range, TILE);
            // SAFETY: see above.
            unsafe { self.run_weight(&heads, (&module, "gatv2_weight"), kernel, grad_weight, range, columns)? };
        }

        let kernel = self.gatv2_args(input, &heads, Direction::Transposed, args.plan_by_source.segment)?;
        let kernel = with_gradients(kernel)?;
        let module = layout.module("gatv2", true, &kernel.family.common.graph);
        let entries = ["gatv2_by_source", "gatv2_merge_by_source"];
        // SAFETY: see above.
        unsafe { self.run_backward(layout, Some(input.l), &module, entries, kernel) }
    }
}
