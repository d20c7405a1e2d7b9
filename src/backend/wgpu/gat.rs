use super::{
    WgpuBackend,
    attention::{Attention, Nodes},
    graph::Cut,
    variants::{Kernel, Variant},
};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Gat, GatBackward, GatKernels},
};

impl GatKernels for WgpuBackend {
    unsafe fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let attention = attention_of(args);
        let graph = self.attention_rows(&attention, args.graph, Direction::Forward, args.plan)?;
        let weights = self.attention_weights(&attention, None)?;
        let nodes = Nodes::of_scores(args.destination);
        let launch = self
            .attention_pass(Kernel::GatForward, &attention, &graph, &nodes, &weights)
            .param("source_stride", args.source.stride())
            .tensor("source", args.source);
        self.attention_forward(&attention, &graph, launch, h, logsumexp)
    }

    unsafe fn gat_grad(&self, args: &GatBackward<'_>) -> Result<(), BackendError> {
        let forward = args.forward;
        let attention = attention_of(forward);
        let weights = self.attention_weights(&attention, None)?;
        let nodes = self.attention_nodes(&attention, forward.destination, args.h, args.logsumexp, args.g)?;
        let by_destination = self.attention_rows(&attention, forward.graph, Direction::Forward, forward.plan)?;
        let by_source = self.attention_rows(&attention, forward.graph, Direction::Transposed, args.plan_by_source)?;
        let pass = |kernel, graph| {
            self.attention_pass(kernel, &attention, graph, &nodes, &weights)
                .param("source_stride", forward.source.stride())
                .tensor("source", forward.source)
        };
        // Sums of one number a head need no blocks of channels.
        let lanes = forward.plan.lanes as usize;
        let head_threads = forward.heads * lanes;
        self.attention_sums(
            &by_destination,
            head_threads,
            pass(Kernel::GatByDestination, &by_destination)
                .param("blocks", 1)
                .param("out_stride", args.grad_destination.stride()),
            &[("out", args.grad_destination)],
        )?;
        self.attention_sums(
            &by_source,
            attention.row_threads(),
            pass(Kernel::GatBySource, &by_source),
            &[("out", args.grad_z), ("grad_source", args.grad_source)],
        )?;
        let Some(edge) = &forward.edge else { return Ok(()) };
        let by_range = self.attention_cut(&attention, forward.graph, Cut::Ranges(forward.plan.range))?;
        let of_edges = |kernel| {
            self.attention_launch(Variant::new(kernel), &attention, &by_range, &nodes, &weights)
                .param("source_stride", forward.source.stride())
                .param("blocks", 1)
                .tensor("source", forward.source)
        };
        if let Some(grad) = args.grad_weight {
            let threads = head_threads * edge.attr.cols().div_ceil(4);
            self.attention_edges(grad.rows(), threads, of_edges(Kernel::GatByWeight), grad)?;
        }
        if let Some(grad) = args.grad_attr {
            self.attention_edges(grad.rows(), lanes, of_edges(Kernel::GatEdgeGrad), grad)?;
        }
        Ok(())
    }
}

fn attention_of<'a>(args: &Gat<'a>) -> Attention<'a> {
    Attention {
        heads: args.heads,
        negative_slope: args.negative_slope,
        values: args.z,
        edge: args.edge,
        dropout: args.dropout,
        plan: args.plan,
    }
}
