use super::{OpError, Tape, Var, error::expect};
use crate::backend::DeviceGraph;

/// Softmax over the in-edges of each node, column by column: `a_k = exp(scale s_k) / sum over edges k' into i of exp(scale s_k')`, computed without
/// overflow. `score` is `[edges, heads]`, in edge order.
///
/// For layers of one's own; it keeps a number an edge and head, which the fused attention layers do not.
///
/// # Errors
/// If there is not one row of scores an edge or `scale` is not finite, or what the device reports.
pub fn edge_softmax(tape: &Tape, graph: &DeviceGraph, score: &Var, scale: f32) -> Result<Var, OpError> {
    expect("edge_softmax", "the scores", score.tensor(), [graph.num_edges(), score.shape()[1]])?;
    if !scale.is_finite() {
        return Err(OpError::Argument {
            op: "edge_softmax",
            what: "the scale",
            got: scale.to_string(),
            expected: "a finite number".into(),
        });
    }
    let out = score.tensor().like("attention weights")?;
    tape.device().edge_softmax(graph, score.tensor(), scale, &out)?;
    let (graph, kept) = (graph.clone(), out.clone());
    tape.record(out, &[score], move |g, sink| {
        let grad = g.like("gradient of scores")?;
        g.device().edge_softmax_grad(&graph, &kept, g, scale, &grad)?;
        sink.give(0, grad)
    })
}
