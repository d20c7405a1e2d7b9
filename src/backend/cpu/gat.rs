use super::{
    CpuBackend,
    attention::{self, Arguments, Backward, Scores},
};
use crate::backend::{
    BackendError, Tensor,
    kernels::{Gat, GatBackward, GatKernels},
};

impl GatKernels for CpuBackend {
    unsafe fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        attention::forward(&scores(args, "gat")?, h, logsumexp, "gat")
    }

    unsafe fn gat_grad(&self, args: &GatBackward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gat_grad";
        let back = Backward::new(scores(args.forward, KERNEL)?, args.h, args.logsumexp, args.g, KERNEL)?;
        back.by_destination(args.grad_destination, KERNEL)?;
        back.by_source(args.grad_z, args.grad_source, KERNEL)?;
        back.edges(args.grad_attr, args.grad_weight, args.forward.plan.range, KERNEL)
    }
}

fn scores<'a>(args: &Gat<'a>, kernel: &'static str) -> Result<Scores<'a>, BackendError> {
    let arguments = Arguments {
        graph: args.graph.host(),
        heads: args.heads,
        negative_slope: args.negative_slope,
        l: args.source,
        r: args.destination,
        att: None,
        values: args.z,
        edge: args.edge,
        dropout: args.dropout,
    };
    Scores::new(&arguments, kernel)
}
