use super::{
    OpError, Tape, Var, attention::gradient_over, dropout::active, error::expect, heads::channels_of, linear::Product,
};
use crate::{
    backend::{
        DeviceGraph, Direction, Tensor,
        kernels::{Attention, DropoutMask, SpareInput, TransformerBackward, TransformerForward},
    },
    plan::{Capabilities, TransformerPlan},
};

/// What attention takes besides queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInput<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Attributes of the edges, `[edges, attributes]` in edge order, and the weight `[heads * channels, attributes]`
    /// that takes them to what is added to keys and values.
    pub edges: Option<(&'a Var, &'a Var)>,
    /// The share of weights that training sets to zero.
    pub dropout: f32,
}

/// `out_ih = sum over edges k from j to i of a_kh (v_jh + W_h e_k)` with `a` the softmax of `<q_ih, k_jh + W_h e_k> /
/// sqrt(channels)` over the edges into `i`, for every head; `q` is `[num_dst, heads * channels]`, `k` and `v`
/// `[num_src, heads * channels]`, `out` as `q`. Rows without edges are 0.
///
/// Nothing is stored for an edge: the gradient computes scores anew from one log-sum-exp a destination and head, and
/// the projected attributes never exist, since `<q, W e> = <W^T q, e>` and `sum a W e = W sum a e` (Shi et al., "Masked
/// Label Prediction: Unified Message Passing Model for Semi-Supervised Classification", IJCAI 2021).
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn transformer(
    tape: &Tape,
    graph: &DeviceGraph,
    q: &Var,
    k: &Var,
    v: &Var,
    input: AttentionInput<'_>,
) -> Result<Var, OpError> {
    transformer_with_plan(tape, graph, q, k, v, input, &TransformerPlan::new)
}

/// [`transformer`] with plans of the caller's: `plan(offsets, channels, attributes, capabilities)` is asked for
/// either direction.
///
/// # Errors
/// As [`transformer`].
pub fn transformer_with_plan<P>(
    tape: &Tape,
    graph: &DeviceGraph,
    q: &Var,
    k: &Var,
    v: &Var,
    input: AttentionInput<'_>,
    plan: &P,
) -> Result<Var, OpError>
where
    P: Fn(&[u32], usize, usize, &Capabilities) -> TransformerPlan + Clone + Send + 'static,
{
    const OP: &str = "transformer";
    let (heads, columns) = (input.heads, q.shape()[1]);
    let channels = channels_of(OP, heads, columns)?;
    expect(OP, "the queries", q.tensor(), [graph.num_dst(), columns])?;
    expect(OP, "the keys", k.tensor(), [graph.num_src(), columns])?;
    expect(OP, "the values", v.tensor(), [graph.num_src(), columns])?;
    let attributes = input.edges.map_or(0, |(attr, _)| attr.shape()[1]);
    if let Some((attr, weight)) = input.edges {
        expect(OP, "the edge attributes", attr.tensor(), [graph.num_edges(), attributes.max(1)])?;
        expect(OP, "the edge weight", weight.tensor(), [columns, attributes])?;
    }
    let (mask, p) = (active(tape, input.dropout)?, input.dropout);
    let kept = Kept {
        graph: graph.clone(),
        heads,
        channels,
        q: q.tensor().clone(),
        k: k.tensor().clone(),
        v: v.tensor().clone(),
        edges: input.edges.map(|(attr, weight)| (attr.tensor().clone(), weight.tensor().clone())),
    };
    let device = tape.device();
    let extended_q = kept.extend(&kept.q)?;
    let out = extended_q.like("attention's sums")?;
    let logsumexp = Tensor::uninit(device, graph.num_dst(), heads, "attention's log-sum-exp")?;
    let planned = move |direction: Direction, plan: &P, kept: &Kept| {
        plan(kept.graph.offsets(direction), channels, attributes, kept.q.device().capabilities())
    };
    device.transformer(&TransformerForward {
        input: kept.attention(
            &extended_q,
            mask.as_ref().map(|(state, layer)| DropoutMask { state: state.buffer(), layer: *layer, p }),
        ),
        out: &out,
        logsumexp: &logsumexp,
        plan: &planned(Direction::Forward, plan, &kept),
    })?;
    drop(extended_q);
    let folded = kept.fold(&out)?;

    let mut inputs = vec![q, k, v];
    inputs.extend(input.edges.into_iter().flat_map(|(attr, weight)| [attr, weight]));
    let plan = plan.clone();
    tape.record(folded, &inputs, move |g, sink| {
        let device = g.device().clone();
        // The gradient of the edge weight still reads queries and sums.
        let (mut grad_k, mut grad_v) = (None, None);
        if kept.edges.is_none() {
            grad_v = Some(gradient_over(&out, &kept.v, "gradient of values")?);
            grad_k = match device.spare_input(&kept.attention(&kept.q, None)) {
                Some(SpareInput::Keys) => Some(gradient_over(&kept.k, &kept.k, "gradient of keys")?),
                Some(SpareInput::Queries) => Some(gradient_over(&kept.q, &kept.k, "gradient of keys")?),
                None => None,
            };
        }
        let grad_k = grad_k.map_or_else(|| kept.k.like("gradient of keys"), Ok)?;
        let grad_v = grad_v.map_or_else(|| kept.v.like("gradient of values"), Ok)?;
        let (q, g_wide) = (kept.extend(&kept.q)?, kept.extend(g)?);
        let grad_q = q.like("gradient of queries")?;
        let grad_attr = match &kept.edges {
            Some((attr, _)) if sink.wants(3) => Some(attr.like("gradient of edge attributes")?),
            _ => None,
        };
        device.transformer_grad(&TransformerBackward {
            input: kept.attention(
                &q,
                mask.as_ref().map(|(state, layer)| DropoutMask { state: state.buffer(), layer: *layer, p }),
            ),
            g: &g_wide,
            out: &out,
            logsumexp: &logsumexp,
            grad_q: &grad_q,
            grad_k: &grad_k,
            grad_v: &grad_v,
            grad_attr: grad_attr.as_ref(),
            plan: &planned(Direction::Forward, &plan, &kept),
            transposed_plan: &planned(Direction::Transposed, &plan, &kept),
        })?;
        if let Some((_, weight)) = kept.edges.as_ref().filter(|_| sink.wants(4)) {
            // Products of all heads with all heads, of which each keeps the one with itself.
            let all = Tensor::uninit(&device, weight.rows(), grad_q.cols(), "gradient of the edge weight")?;
            Product { g: &kept.q, x: &grad_q, weight }.add_grad_weight(&all, false)?;
            Product { g, x: &out, weight }.add_grad_weight(&all, true)?;
            let grad = weight.like("gradient of the edge weight")?;
            device.head_blocks(heads, &all, &grad)?;
            sink.give(4, grad)?;
        }
        if let Some(grad) = grad_attr {
            sink.give(3, grad)?;
        }
        sink.give(0, kept.fold(&grad_q)?)?;
        sink.give(1, grad_k)?;
        sink.give(2, grad_v)
    })
}

/// What the gradient needs of the inputs.
struct Kept {
    graph: DeviceGraph,
    heads: usize,
    channels: usize,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// Attributes and their weight.
    edges: Option<(Tensor, Tensor)>,
}

impl Kept {
    fn attention<'a>(&'a self, q: &'a Tensor, mask: Option<DropoutMask<'a>>) -> Attention<'a> {
        let attr = self.edges.as_ref().map(|(attr, _)| attr);
        Attention { graph: &self.graph, heads: self.heads, q, k: &self.k, v: &self.v, attr, dropout: mask }
    }

    /// Each head `x_ih` followed by `W_h^T x_ih`.
    fn extend(&self, x: &Tensor) -> Result<Tensor, OpError> {
        let Some((_, weight)) = &self.edges else { return Ok(x.clone()) };
        let columns = self.heads * (self.channels + weight.cols());
        let out = x.with_shape(x.rows(), columns, "heads and their share of edge attributes")?;
        x.device().extend_heads(self.heads, x, weight, &out)?;
        Ok(out)
    }

    /// `y_ih + W_h t_ih` of `(y_ih, t_ih)`.
    fn fold(&self, x: &Tensor) -> Result<Tensor, OpError> {
        let Some((_, weight)) = &self.edges else { return Ok(x.clone()) };
        let out = x.with_shape(x.rows(), self.heads * self.channels, "heads with edge attributes")?;
        x.device().fold_heads(self.heads, x, weight, &out)?;
        Ok(out)
    }
}
