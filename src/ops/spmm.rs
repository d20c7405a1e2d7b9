use super::{OpError, Tape, Var, error::expect};
use crate::{
    backend::{
        DeviceGraph, Direction, Tensor,
        kernels::{Sddmm, Spmm},
    },
    plan::{Capabilities, SpmmPlan},
};

/// What a sum over neighbours is weighed with; each part may be left out, and each may have a gradient.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpmmInput<'a> {
    /// Which side the sums are for: destinations, or sources.
    pub direction: Direction,
    /// `[edges, 1]`, in edge order.
    pub weight: Option<&'a Var>,
    /// `[rows, 1]`: the factor of each sum. `1 / in-degree` makes it a mean.
    pub row_scale: Option<&'a Var>,
    /// `[columns, 1]`: the factor of each neighbour.
    pub column_scale: Option<&'a Var>,
}

/// `out_i = row_scale_i * sum over edges k from j to i of weight_k * column_scale_j * x_j`; `x` is `[num_src, features]`, `out` `[num_dst, features]`, or
/// the other way round over the transpose.
///
/// Gradients cost one more sum over the transpose for `x` and one product an edge for the weights; those of the scales come from
/// `<grad_i, out_i> / row_scale_i` and `<grad x_j, x_j> / column_scale_j`, 0 where the scale is 0, without touching edges.
///
/// # Errors
/// If a shape does not fit the graph, or what the device reports.
pub fn spmm(tape: &Tape, graph: &DeviceGraph, x: &Var, input: SpmmInput<'_>) -> Result<Var, OpError> {
    spmm_with_plan(tape, graph, x, input, &SpmmPlan::new)
}

/// [`spmm`] with plans of the caller's: `plan(offsets, features, capabilities)` is asked for the forward and for the backward pass.
///
/// # Errors
/// As [`spmm`].
pub fn spmm_with_plan<P>(
    tape: &Tape,
    graph: &DeviceGraph,
    x: &Var,
    input: SpmmInput<'_>,
    plan: &P,
) -> Result<Var, OpError>
where
    P: Fn(&[u32], usize, &Capabilities) -> SpmmPlan + Clone + Send + 'static,
{
    const OP: &str = "spmm";
    let features = x.shape()[1];
    let direction = input.direction;
    let (rows, columns) = graph.dims(direction);
    expect(OP, "x", x.tensor(), [columns, features])?;
    for (what, var, rows) in [
        ("the edge weights", input.weight, graph.num_edges()),
        ("the row scale", input.row_scale, rows),
        ("the column scale", input.column_scale, columns),
    ] {
        if let Some(var) = var {
            expect(OP, what, var.tensor(), [rows, 1])?;
        }
    }
    let tensor = |var: Option<&Var>| var.map(|v| v.tensor().clone());
    let (weight, row_scale, column_scale) = (tensor(input.weight), tensor(input.row_scale), tensor(input.column_scale));
    let device = tape.device();
    let out = x.tensor().with_shape(rows, features, "neighbour sums")?;
    device.spmm(&Spmm {
        graph,
        direction,
        x: x.tensor(),
        weight: weight.as_ref(),
        row_scale: row_scale.as_ref(),
        column_scale: column_scale.as_ref(),
        out: &out,
        plan: &plan(graph.offsets(direction), features, device.capabilities()),
    })?;

    // Absent parts are recorded as untracked copies of `x`, so that positions stay fixed.
    let untracked = tape.constant(x.tensor());
    let part = |var: Option<&Var>| var.unwrap_or(&untracked).clone();
    let inputs = [x.clone(), part(input.weight), part(input.row_scale), part(input.column_scale)];
    let (graph, plan) = (graph.clone(), plan.clone());
    // The gradients of weights and scales need the input or the output; sums that are merely normalised keep neither.
    let tracked = |var: Option<&Var>| var.is_some_and(Var::is_tracked);
    let needs_x = tracked(input.weight) || tracked(input.column_scale);
    let kept_x = needs_x.then(|| x.tensor().clone());
    let kept_out = tracked(input.row_scale).then(|| out.clone());
    tape.record(out, &inputs.each_ref(), move |g, sink| {
        let device = g.device().clone();
        if sink.wants(0) || sink.wants(3) {
            let grad_x = g.with_shape(columns, g.cols(), "gradient of neighbour sums")?;
            device.spmm(&Spmm {
                graph: &graph,
                direction: direction.reversed(),
                x: g,
                weight: weight.as_ref(),
                row_scale: column_scale.as_ref(),
                column_scale: row_scale.as_ref(),
                out: &grad_x,
                plan: &plan(graph.offsets(direction.reversed()), g.cols(), device.capabilities()),
            })?;
            if let (true, Some(scale), Some(kept_x)) = (sink.wants(3), &column_scale, &kept_x) {
                let grad = scale.like("gradient of a column scale")?;
                device.row_dot(&grad_x, kept_x, Some(scale), &grad)?;
                sink.give(3, grad)?;
            }
            sink.give(0, grad_x)?;
        }
        if let (true, Some(kept_x)) = (sink.wants(1), &kept_x) {
            let grad = Tensor::uninit(&device, graph.num_edges(), 1, "gradient of edge weights")?;
            let (row_side, column_side) = ((g, row_scale.as_ref()), (kept_x, column_scale.as_ref()));
            let ((a, row_scale), (b, column_scale)) = match direction {
                Direction::Forward => (row_side, column_side),
                Direction::Transposed => (column_side, row_side),
            };
            device.sddmm(&Sddmm { graph: &graph, a, b, row_scale, column_scale, out: &grad })?;
            sink.give(1, grad)?;
        }
        if let (true, Some(scale), Some(kept_out)) = (sink.wants(2), &row_scale, &kept_out) {
            let grad = scale.like("gradient of a row scale")?;
            device.row_dot(g, kept_out, Some(scale), &grad)?;
            sink.give(2, grad)?;
        }
        Ok(())
    })
}

/// The weighted degree of each row, `sum over its edges k of weight_k`, or their number without weights; `[rows, 1]`: in-degrees, or out-degrees over the
/// transpose.
///
/// # Errors
/// As [`spmm`].
pub fn degree(tape: &Tape, graph: &DeviceGraph, weight: Option<&Var>, direction: Direction) -> Result<Var, OpError> {
    let ones = tape.constant(&Tensor::full(tape.device(), graph.dims(direction).1, 1, 1.0, "ones")?);
    spmm(tape, graph, &ones, SpmmInput { direction, weight, ..Default::default() })
}
