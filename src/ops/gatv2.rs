use super::{
    AttentionOptions, EdgeAttention, OpError, Tape, Var,
    attention::{EdgeGradients, Kept, gradient_over, plans},
    error::expect,
};
use crate::{
    backend::{
        DeviceGraph, Tensor,
        kernels::{Gatv2, Gatv2Backward},
    },
    plan::AttentionPlan,
};

/// `h_i = sum over edges k from j to i of a_k l_j` for each head, with `a` the softmax over the edges into `i` of
/// `att . leaky(l_j + r_i + W e_k)`; `l` is `[num_src, features]`, `r` `[num_dst, features]`, `att` `[1, features]`
/// (Brody, Alon, Yahav, "How Attentive are Graph Attention Networks?", ICLR 2022). Nodes without edges get 0.
///
/// Nothing is kept per edge: the gradient computes the scores again.
///
/// # Errors
/// If the shapes do not fit or the heads do not divide the features, or what the device reports.
pub fn gatv2(
    tape: &Tape,
    graph: &DeviceGraph,
    [l, r]: [&Var; 2],
    att: &Var,
    edge: Option<EdgeAttention<'_>>,
    options: AttentionOptions,
) -> Result<Var, OpError> {
    gatv2_with_plans(tape, graph, [l, r], att, edge, options, plans(graph, l.shape()[1], options.heads))
}

/// [`gatv2`] with plans of the caller's: by destination, and by source for the gradient.
///
/// # Errors
/// As [`gatv2`].
pub fn gatv2_with_plans(
    tape: &Tape,
    graph: &DeviceGraph,
    [l, r]: [&Var; 2],
    att: &Var,
    edge: Option<EdgeAttention<'_>>,
    options: AttentionOptions,
    [plan, plan_by_source]: [AttentionPlan; 2],
) -> Result<Var, OpError> {
    const OP: &str = "gatv2";
    let features = l.shape()[1];
    expect(OP, "l", l.tensor(), [graph.num_src(), features])?;
    expect(OP, "r", r.tensor(), [graph.num_dst(), features])?;
    expect(OP, "att", att.tensor(), [1, features])?;
    let kept = Kept::new(OP, tape, graph, edge, features, options, plan)?;
    let nodes = [l, r, att].map(|var| var.tensor().clone());
    let h = r.tensor().like("attention")?;
    let logsumexp = Tensor::uninit(tape.device(), graph.num_dst(), options.heads, "sums of attention")?;
    tape.device().gatv2(&args(&kept, &nodes), &h, &logsumexp)?;

    let mut inputs = vec![l, r, att];
    inputs.extend(edge.iter().flat_map(|e| [e.attr, e.weight]));
    let kept_h = h.clone();
    tape.record(h, &inputs, move |g, sink| {
        let edges = EdgeGradients::new(&kept, sink)?;
        let [l, r, att] = &nodes;
        let grad_l = gradient_over(&kept_h, l, "gradient of sources")?;
        let grad_r = r.like("gradient of destinations")?;
        let grad_att = Tensor::uninit(g.device(), r.rows(), r.cols(), "gradients of attention by row")?;
        g.device().gatv2_grad(&Gatv2Backward {
            forward: &args(&kept, &nodes),
            h: &kept_h,
            logsumexp: &logsumexp,
            g,
            grad_l: &grad_l,
            grad_r: &grad_r,
            grad_att: &grad_att,
            grad_attr: edges.attr.as_ref(),
            grad_weight: edges.parts.as_ref(),
            plan_by_source: &plan_by_source,
        })?;
        sink.give(0, grad_l)?;
        sink.give(1, grad_r)?;
        if sink.wants(2) {
            let grad = att.like("gradient of attention")?;
            g.device().column_sums(&grad_att, &grad, false)?;
            sink.give(2, grad)?;
        }
        edges.give(&kept, sink)
    })
}

fn args<'a>(kept: &'a Kept, [l, r, att]: &'a [Tensor; 3]) -> Gatv2<'a> {
    Gatv2 {
        graph: &kept.graph,
        heads: kept.options.heads,
        negative_slope: kept.options.negative_slope,
        l,
        r,
        att,
        edge: kept.edge(),
        dropout: kept.dropout(),
        plan: &kept.plan,
    }
}
