use super::{OpError, Tape, Var, error::expect, gather::selected, linear::Product};
use crate::backend::{DeviceGraph, Direction, kernels::Gemm};

/// `out_k = x_j + W a_k` for every edge `k` from `j`, `[edges, features]` in edge order; `x` is `[num_src, features]`,
/// `attr` `[edges, attributes]`, `weight` `[features, attributes]`.
///
/// One row an edge is written: for what needs each message by itself.
///
/// # Errors
/// If a shape does not fit the graph, or what the device reports.
pub fn edge_messages(tape: &Tape, graph: &DeviceGraph, x: &Var, attr: &Var, weight: &Var) -> Result<Var, OpError> {
    const OP: &str = "edge_messages";
    let ([_, features], [_, attributes]) = (x.shape(), attr.shape());
    expect(OP, "x", x.tensor(), [graph.num_src(), features])?;
    expect(OP, "the edge attributes", attr.tensor(), [graph.num_edges(), attributes])?;
    expect(OP, "the weight", weight.tensor(), [features, attributes])?;
    let ends = graph.edges_of_sources()?;
    let out = selected(x.tensor(), &ends, Direction::Forward)?;
    tape.device().gemm(&Gemm {
        a: attr.tensor(),
        transpose_a: false,
        b: weight.tensor(),
        transpose_b: true,
        bias: None,
        out: &out,
        accumulate: true,
    })?;
    let (kept_attr, kept_weight) = (attr.tensor().clone(), weight.tensor().clone());
    tape.record(out, &[x, attr, weight], move |g, sink| {
        if sink.wants(0) {
            sink.give(0, selected(g, &ends, Direction::Transposed)?)?;
        }
        let product = Product { g, x: &kept_attr, weight: &kept_weight };
        if sink.wants(1) {
            sink.give(1, product.grad_x()?)?;
        }
        if sink.wants(2) {
            let grad = kept_weight.like("gradient of an edge weight")?;
            product.add_grad_weight(&grad, false)?;
            sink.give(2, grad)?;
        }
        Ok(())
    })
}
