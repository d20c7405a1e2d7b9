use super::{OpError, Tape, Var, dropout::active, error::expect};
use crate::{
    backend::{
        DeviceGraph, Direction, Tensor,
        kernels::{DropoutMask, EdgeTerm, Gatv2, Gatv2Backward},
    },
    plan::AttentionPlan,
};

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionOptions {
    /// Number of heads, which divides the features.
    pub heads: usize,
    /// The slope below 0 of the function that scores go through.
    pub negative_slope: f32,
    /// The share of attention that training drops.
    pub dropout: f32,
}

impl Default for AttentionOptions {
    fn default() -> Self {
        Self { heads: 1, negative_slope: 0.2, dropout: 0.0 }
    }
}

/// Edge attributes, `[edges, attributes]` in edge order, and what projects them, `[features, attributes]`.
#[derive(Clone, Copy, Debug)]
pub struct EdgeAttention<'a> {
    /// The attributes.
    pub attr: &'a Var,
    /// The weight.
    pub weight: &'a Var,
}

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
    l: &Var,
    r: &Var,
    att: &Var,
    edge: Option<EdgeAttention<'_>>,
    options: AttentionOptions,
) -> Result<Var, OpError> {
    let caps = tape.device().capabilities();
    let channels = l.shape()[1] / options.heads.max(1);
    let plan = |direction| AttentionPlan::new(graph.offsets(direction), options.heads, channels, caps);
    gatv2_with_plans(tape, graph, l, r, att, edge, options, [plan(Direction::Forward), plan(Direction::Transposed)])
}

/// [`gatv2`] with plans of the caller's: by destination, and by source for the gradient.
///
/// # Errors
/// As [`gatv2`].
#[allow(clippy::too_many_arguments, reason = "those of `gatv2` and one more")]
pub fn gatv2_with_plans(
    tape: &Tape,
    graph: &DeviceGraph,
    l: &Var,
    r: &Var,
    att: &Var,
    edge: Option<EdgeAttention<'_>>,
    options: AttentionOptions,
    plans: [AttentionPlan; 2],
) -> Result<Var, OpError> {
    const OP: &str = "gatv2";
    let features = l.shape()[1];
    expect(OP, "l", l.tensor(), [graph.num_src(), features])?;
    expect(OP, "r", r.tensor(), [graph.num_dst(), features])?;
    expect(OP, "att", att.tensor(), [1, features])?;
    if let Some(EdgeAttention { attr, weight }) = edge {
        expect(OP, "the edge attributes", attr.tensor(), [graph.num_edges(), attr.shape()[1]])?;
        expect(OP, "the edge weight", weight.tensor(), [features, attr.shape()[1]])?;
    }
    let [plan, plan_by_source] = plans;
    let kept = Kept {
        graph: graph.clone(),
        l: l.tensor().clone(),
        r: r.tensor().clone(),
        att: att.tensor().clone(),
        edge: edge.map(|e| (e.attr.tensor().clone(), e.weight.tensor().clone())),
        options,
        dropout: active(tape, options.dropout)?,
        plan,
    };
    let h = r.tensor().like("attention")?;
    let logsumexp = Tensor::uninit(tape.device(), graph.num_dst(), options.heads, "sums of attention")?;
    tape.device().gatv2(&kept.args(), &h, &logsumexp)?;

    let mut inputs = vec![l, r, att];
    inputs.extend(edge.iter().flat_map(|e| [e.attr, e.weight]));
    let kept_h = h.clone();
    tape.record(h, &inputs, move |g, sink| {
        let device = g.device().clone();
        let (grad_l, grad_r) = (kept.l.like("gradient of sources")?, kept.r.like("gradient of destinations")?);
        let grad_att = kept.r.like("gradients of attention by row")?;
        let (mut grad_attr, mut parts) = (None, None);
        if let Some((attr, weight)) = &kept.edge {
            if sink.wants(3) {
                grad_attr = Some(attr.like("gradient of edge attributes")?);
            }
            if sink.wants(4) {
                let ranges = kept.plan.ranges(attr.rows());
                parts = Some(Tensor::uninit(&device, ranges, weight.words(), "gradients of an edge weight by range")?);
            }
        }
        device.gatv2_grad(&Gatv2Backward {
            forward: &kept.args(),
            h: &kept_h,
            logsumexp: &logsumexp,
            g,
            grad_l: &grad_l,
            grad_r: &grad_r,
            grad_att: &grad_att,
            grad_attr: grad_attr.as_ref(),
            grad_weight: parts.as_ref(),
            plan_by_source: &plan_by_source,
        })?;
        sink.give(0, grad_l)?;
        sink.give(1, grad_r)?;
        if sink.wants(2) {
            let grad = kept.att.like("gradient of attention")?;
            device.column_sums(&grad_att, &grad, false)?;
            sink.give(2, grad)?;
        }
        if let Some(grad) = grad_attr {
            sink.give(3, grad)?;
        }
        if let (Some(parts), Some((_, weight))) = (parts, &kept.edge) {
            let grad = weight.like("gradient of an edge weight")?;
            device.column_sums(&parts, &grad.flattened(), false)?;
            sink.give(4, grad)?;
        }
        Ok(())
    })
}

/// What the gradient needs again.
struct Kept {
    graph: DeviceGraph,
    l: Tensor,
    r: Tensor,
    att: Tensor,
    edge: Option<(Tensor, Tensor)>,
    options: AttentionOptions,
    dropout: Option<(super::StepState, u32)>,
    plan: AttentionPlan,
}

impl Kept {
    fn args(&self) -> Gatv2<'_> {
        Gatv2 {
            graph: &self.graph,
            heads: self.options.heads,
            negative_slope: self.options.negative_slope,
            l: &self.l,
            r: &self.r,
            att: &self.att,
            edge: self.edge.as_ref().map(|(attr, weight)| EdgeTerm { attr, weight }),
            dropout: self.dropout.as_ref().map(|(state, layer)| DropoutMask {
                state: state.buffer(),
                layer: *layer,
                p: self.options.dropout,
            }),
            plan: &self.plan,
        }
    }
}
