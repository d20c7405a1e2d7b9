use super::{OpError, SpmmInput, Tape, Var, error::expect, spmm::spmm};
use crate::{
    backend::{Device, DeviceGraph, Direction, LoopedGraph, Tensor, kernels::Spmm},
    graph::{EdgeList, Graph},
    plan::SpmmPlan,
};

/// A choice of rows, with repetitions: row `r` of the choice is row `rows[r]` of the matrix.
///
/// Kept as a graph with one edge a row, so that the gradient is a sum over its transpose: no atomics, the same bits every time.
#[derive(Clone, Debug)]
pub struct RowSelection(DeviceGraph);

impl RowSelection {
    /// The rows `rows` of a matrix of `num_rows` rows.
    ///
    /// # Errors
    /// If a row does not exist.
    pub fn new(device: &Device, num_rows: u32, rows: &[u32]) -> Result<Self, OpError> {
        let edges = EdgeList::new(num_rows, rows.len() as u32, rows.to_vec(), (0..rows.len() as u32).collect())?;
        Ok(Self(DeviceGraph::new(device, Graph::from_edges(&edges))))
    }
}

/// `out_r = x[rows[r]]`.
///
/// # Errors
/// If `x` does not have the rows that the selection was made for, or what the device reports.
pub fn gather_rows(tape: &Tape, x: &Var, selection: &RowSelection) -> Result<Var, OpError> {
    expect("gather_rows", "x", x.tensor(), [selection.0.num_src(), x.shape()[1]])?;
    select(tape, x, selection, Direction::Forward)
}

/// `out_i = sum over r with rows[r] = i of x_r`: the adjoint of [`gather_rows`].
///
/// # Errors
/// If `x` does not have a row for each of the selection, or what the device reports.
pub fn scatter_rows(tape: &Tape, x: &Var, selection: &RowSelection) -> Result<Var, OpError> {
    expect("scatter_rows", "x", x.tensor(), [selection.0.num_dst(), x.shape()[1]])?;
    select(tape, x, selection, Direction::Transposed)
}

fn select(tape: &Tape, x: &Var, selection: &RowSelection, direction: Direction) -> Result<Var, OpError> {
    let graph = selection.0.clone();
    let out = selected(x.tensor(), &graph, direction)?;
    tape.record(out, &[x], move |g, sink| sink.give(0, selected(g, &graph, direction.reversed())?))
}

/// The row that each destination of `graph` names, or over the transpose the sum of those that name a source.
pub(super) fn selected(x: &Tensor, graph: &DeviceGraph, direction: Direction) -> Result<Tensor, OpError> {
    let out = Tensor::uninit(x.device(), graph.dims(direction).0, x.cols(), "selected rows")?;
    x.device().spmm(&Spmm {
        graph,
        direction,
        x,
        weight: None,
        row_scale: None,
        column_scale: None,
        out: &out,
        plan: &SpmmPlan::new(graph.offsets(direction), x.cols(), x.device().capabilities()),
    })?;
    Ok(out)
}

/// The values of a graph's edges, `[edges, width]`, for the same graph with its loops: each edge keeps its own, new loops get `fill`.
///
/// # Errors
/// If there is no value for an edge, or what the device reports.
pub fn gather_edges(tape: &Tape, x: &Var, looped: &LoopedGraph, fill: f32) -> Result<Var, OpError> {
    let [edges, width] = x.shape();
    let source = looped.source();
    let out = Tensor::uninit(tape.device(), source.len(), width, "values of derived edges")?;
    tape.device().gather_rows(x.tensor(), source, fill, &out)?;
    let source = source.clone();
    tape.record(out, &[x], move |g, sink| {
        // Edges that the derived graph left out get no gradient.
        let grad = Tensor::full(g.device(), edges, width, 0.0, "gradient of edge values")?;
        g.device().scatter_rows(g, &source, &grad)?;
        sink.give(0, grad)
    })
}

/// The attributes of a graph's edges, `[edges, width]`, for the same graph with its loops: each edge keeps its own, a loop gets the mean of those of
/// the other edges into its node, 0 if there are none.
///
/// # Errors
/// If there is no attribute for an edge, or what the device reports.
pub fn loop_attributes(tape: &Tape, attr: &Var, looped: &LoopedGraph) -> Result<Var, OpError> {
    let means = looped.loop_means()?;
    let row_scale = tape.constant(&means.inverse_in_degree()?);
    spmm(tape, &means, attr, SpmmInput { row_scale: Some(&row_scale), ..Default::default() })
}
