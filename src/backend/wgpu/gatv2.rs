use super::{
    Dispatch, WgpuBackend,
    attention::{Attention, Nodes},
    graph::Cut,
    variants::{Kernel, Variant},
};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Gatv2, Gatv2Backward, Gatv2Kernels},
};

impl Gatv2Kernels for WgpuBackend {
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let attention = attention_of(args);
        let graph = self.attention_rows(&attention, args.graph, Direction::Forward, args.plan)?;
        let weights = self.attention_weights(&attention, Some(args.att))?;
        let nodes = Nodes::of_scores(args.r);
        let launch = self.attention_pass(Kernel::Gatv2Forward, &attention, &graph, &nodes, &weights);
        let launch = with_score(launch, args);
        self.attention_forward(&attention, &graph, launch, h, logsumexp)
    }

    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        let forward = args.forward;
        let attention = attention_of(forward);
        let weights = self.attention_weights(&attention, Some(forward.att))?;
        let nodes = self.attention_nodes(&attention, forward.r, args.h, args.logsumexp, args.g)?;
        let by_destination = self.attention_rows(&attention, forward.graph, Direction::Forward, forward.plan)?;
        let by_source = self.attention_rows(&attention, forward.graph, Direction::Transposed, args.plan_by_source)?;
        let pass =
            |kernel, graph| with_score(self.attention_pass(kernel, &attention, graph, &nodes, &weights), forward);
        let (threads, lanes) = (attention.row_threads(), forward.plan.lanes as usize);
        self.attention_sums(
            &by_destination,
            threads,
            pass(Kernel::Gatv2ByDestination, &by_destination),
            &[("out", args.grad_r), ("grad_att", args.grad_att)],
        )?;
        self.attention_sums(&by_source, threads, pass(Kernel::Gatv2BySource, &by_source), &[("out", args.grad_l)])?;
        let Some(edge) = &forward.edge else { return Ok(()) };
        let by_range = self.attention_cut(&attention, forward.graph, Cut::Ranges(forward.plan.range))?;
        let of_edges = |kernel| {
            with_score(self.attention_launch(Variant::new(kernel), &attention, &by_range, &nodes, &weights), forward)
        };
        if let Some(grad) = args.grad_weight {
            let blocks = forward.plan.blocks(attention.channels());
            let threads = forward.heads * blocks * lanes * edge.attr.cols().div_ceil(4);
            self.attention_edges(grad.rows(), threads, of_edges(Kernel::Gatv2ByWeight).param("blocks", blocks), grad)?;
        }
        if let Some(grad) = args.grad_attr {
            self.attention_edges(grad.rows(), lanes, of_edges(Kernel::Gatv2EdgeGrad).param("blocks", 1), grad)?;
        }
        Ok(())
    }
}

fn with_score<'a>(dispatch: Dispatch<'a>, args: &Gatv2<'_>) -> Dispatch<'a> {
    dispatch
        .param("att_words", args.att.cols())
        .float("linear", 0.5 * (1.0 + args.negative_slope))
        .float("absolute", 0.5 * (1.0 - args.negative_slope))
}

fn attention_of<'a>(args: &Gatv2<'a>) -> Attention<'a> {
    Attention {
        heads: args.heads,
        negative_slope: args.negative_slope,
        values: args.l,
        edge: args.edge,
        dropout: args.dropout,
        plan: args.plan,
    }
}
