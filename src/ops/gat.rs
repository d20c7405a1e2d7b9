use super::{
    AttentionOptions, EdgeAttention, OpError, Tape, Var,
    attention::{EdgeGradients, Kept, gradient_over, plans},
    error::expect,
};
use crate::{
    backend::{
        DeviceGraph, Tensor,
        kernels::{Gat, GatBackward},
    },
    plan::AttentionPlan,
};

/// `h_i = sum over edges k from j to i of a_k z_j` for each head, with `a` the softmax over the edges into `i` of
/// `leaky(source_j + destination_i + <w, e_k>)`; `z` is `[num_src, features]`, `source` `[num_src, heads]`,
/// `destination` `[num_dst, heads]` (Velickovic et al., "Graph Attention Networks", ICLR 2018). Nodes without edges get
/// 0.
///
/// Nothing is kept per edge: the gradient computes the scores again.
///
/// # Errors
/// If the shapes do not fit or the heads do not divide the features, or what the device reports.
pub fn gat(
    tape: &Tape,
    graph: &DeviceGraph,
    z: &Var,
    scores: [&Var; 2],
    edge: Option<EdgeAttention<'_>>,
    options: AttentionOptions,
) -> Result<Var, OpError> {
    gat_with_plans(tape, graph, z, scores, edge, options, plans(graph, z.shape()[1], options.heads))
}

/// [`gat`] with plans of the caller's: by destination, and by source for the gradient.
///
/// # Errors
/// As [`gat`].
pub fn gat_with_plans(
    tape: &Tape,
    graph: &DeviceGraph,
    z: &Var,
    [source, destination]: [&Var; 2],
    edge: Option<EdgeAttention<'_>>,
    options: AttentionOptions,
    [plan, plan_by_source]: [AttentionPlan; 2],
) -> Result<Var, OpError> {
    const OP: &str = "gat";
    let features = z.shape()[1];
    expect(OP, "z", z.tensor(), [graph.num_src(), features])?;
    expect(OP, "the scores of sources", source.tensor(), [graph.num_src(), options.heads])?;
    expect(OP, "the scores of destinations", destination.tensor(), [graph.num_dst(), options.heads])?;
    let kept = Kept::new(OP, tape, graph, edge, options.heads, options, plan)?;
    let nodes = [z, source, destination].map(|var| var.tensor().clone());
    let h = z.tensor().with_shape(graph.num_dst(), features, "attention")?;
    let logsumexp = destination.tensor().like("sums of attention")?;
    tape.device().gat(&args(&kept, &nodes), &h, &logsumexp)?;

    let mut inputs = vec![z, source, destination];
    inputs.extend(edge.iter().flat_map(|e| [e.attr, e.weight]));
    let kept_h = h.clone();
    tape.record(h, &inputs, move |g, sink| {
        let edges = EdgeGradients::new(&kept, sink)?;
        let [z, source, destination] = &nodes;
        let grad_z = gradient_over(&kept_h, z, "gradient of sources")?;
        let grad_source = source.like("gradient of the scores of sources")?;
        let grad_destination = destination.like("gradient of the scores of destinations")?;
        g.device().gat_grad(&GatBackward {
            forward: &args(&kept, &nodes),
            h: &kept_h,
            logsumexp: &logsumexp,
            g,
            grad_z: &grad_z,
            grad_source: &grad_source,
            grad_destination: &grad_destination,
            grad_attr: edges.attr.as_ref(),
            grad_weight: edges.parts.as_ref(),
            plan_by_source: &plan_by_source,
        })?;
        sink.give(0, grad_z)?;
        sink.give(1, grad_source)?;
        sink.give(2, grad_destination)?;
        edges.give(&kept, sink)
    })
}

fn args<'a>(kept: &'a Kept, [z, source, destination]: &'a [Tensor; 3]) -> Gat<'a> {
    Gat {
        graph: &kept.graph,
        heads: kept.options.heads,
        negative_slope: kept.options.negative_slope,
        z,
        source,
        destination,
        edge: kept.edge(),
        dropout: kept.dropout(),
        plan: &kept.plan,
    }
}
