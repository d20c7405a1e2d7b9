use super::{
    CpuBackend,
    attention::{self, Arguments, Backward, Scores},
};
use crate::backend::{
    BackendError, Tensor,
    kernels::{Gatv2, Gatv2Backward, Gatv2Kernels},
};

impl Gatv2Kernels for CpuBackend {
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        attention::forward(&scores(args, "gatv2")?, h, logsumexp, "gatv2")
    }

    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gatv2_grad";
        let back = Backward::new(scores(args.forward, KERNEL)?, args.h, args.logsumexp, args.g, KERNEL)?;
        back.by_destination_with_att(args.grad_r, args.grad_att, KERNEL)?;
        back.by_source_as_one(args.grad_l, KERNEL)?;
        back.edges(args.grad_attr, args.grad_weight, args.forward.plan.range, KERNEL)
    }
}

fn scores<'a>(args: &Gatv2<'a>, kernel: &'static str) -> Result<Scores<'a>, BackendError> {
    let arguments = Arguments {
        graph: args.graph.host(),
        heads: args.heads,
        negative_slope: args.negative_slope,
        l: args.l,
        r: args.r,
        att: Some(args.att),
        values: args.l,
        edge: args.edge,
        dropout: args.dropout,
    };
    Scores::new(&arguments, kernel)
}
