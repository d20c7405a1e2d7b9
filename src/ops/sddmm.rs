use super::{OpError, SpmmInput, Tape, Var, error::expect, spmm};
use crate::backend::{
    DeviceGraph, Direction, Tensor,
    kernels::{Sddmm, Spmm},
};
use crate::plan::SpmmPlan;

/// `out_k = <a_i, b_j>` for every edge `k` from `j` to `i`, `[edges, 1]` in edge order; `a` is `[num_dst, features]`, `b` `[num_src, features]`.
///
/// The gradients are sums over neighbours weighted by the gradient of the edges.
///
/// # Errors
/// If a shape does not fit the graph, or what the device reports.
pub fn edge_dot(tape: &Tape, graph: &DeviceGraph, a: &Var, b: &Var) -> Result<Var, OpError> {
    let features = a.shape()[1];
    expect("edge_dot", "a", a.tensor(), [graph.num_dst(), features])?;
    expect("edge_dot", "b", b.tensor(), [graph.num_src(), features])?;
    let out = Tensor::uninit(tape.device(), graph.num_edges(), 1, "edge products")?;
    let (row_scale, column_scale) = (None, None);
    tape.device().sddmm(&Sddmm { graph, a: a.tensor(), b: b.tensor(), row_scale, column_scale, out: &out })?;
    let (graph, kept_a, kept_b) = (graph.clone(), a.tensor().clone(), b.tensor().clone());
    tape.record(out, &[a, b], move |g, sink| {
        let sum = |direction: Direction, x: &Tensor| -> Result<Tensor, OpError> {
            let out = x.with_shape(graph.dims(direction).0, x.cols(), "gradient of edge products")?;
            let plan = &SpmmPlan::new(graph.offsets(direction), x.cols(), g.device().capabilities());
            g.device().spmm(&Spmm {
                graph: &graph,
                direction,
                x,
                weight: Some(g),
                row_scale: None,
                column_scale: None,
                out: &out,
                plan,
            })?;
            Ok(out)
        };
        if sink.wants(0) {
            sink.give(0, sum(Direction::Forward, &kept_b)?)?;
        }
        if sink.wants(1) {
            sink.give(1, sum(Direction::Transposed, &kept_a)?)?;
        }
        Ok(())
    })
}

/// `out_k = x_j` for every edge `k` from `j`, `[edges, features]` in edge order; `x` is `[num_src, features]`.
///
/// # Errors
/// If `x` does not have a row a source, or what the device reports.
pub fn gather_sources(tape: &Tape, graph: &DeviceGraph, x: &Var) -> Result<Var, OpError> {
    expect("gather_sources", "x", x.tensor(), [graph.num_src(), x.shape()[1]])?;
    spmm(tape, &graph.edges_of_sources()?, x, SpmmInput::default())
}

/// `out_k = x_i` for every edge `k` to `i`, `[edges, features]` in edge order; `x` is `[num_dst, features]`.
///
/// # Errors
/// If `x` does not have a row a destination, or what the device reports.
pub fn gather_destinations(tape: &Tape, graph: &DeviceGraph, x: &Var) -> Result<Var, OpError> {
    expect("gather_destinations", "x", x.tensor(), [graph.num_dst(), x.shape()[1]])?;
    spmm(tape, &graph.edges_of_destinations()?, x, SpmmInput::default())
}
