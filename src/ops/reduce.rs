use super::{OpError, Tape, Var, error::expect};
use crate::{
    backend::{
        DeviceGraph, Direction, Tensor,
        kernels::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, Statistic},
    },
    plan::{Capabilities, ReducePlan},
};

/// `out_i = [s_1, s_2, ...]`, each a [`Statistic`] over `x_j` of the edges from `j` to `i`, in the order asked for; `x` is `[num_src, features]`,
/// `out` `[num_dst, statistics * features]`. See [`Reduce`] for rows without edges, ties and NaN.
///
/// All statistics share one pass over the neighbours. The gradient is one pass over the transpose: it gathers two rows an edge for sums, means,
/// variances and deviations together, and the arguments of minimum and maximum with the gradients where they match. Of equal neighbours the
/// first has all of the gradient.
///
/// # Errors
/// If `statistics` is empty or names one twice, if a shape does not fit the graph, or what the device reports.
pub fn reduce(tape: &Tape, graph: &DeviceGraph, x: &Var, statistics: &[Statistic]) -> Result<Var, OpError> {
    reduce_with_plan(tape, graph, x, statistics, &ReducePlan::new)
}

/// [`reduce`] with plans of the caller's: `plan(offsets, features, statistics, capabilities)` is asked for the forward and, with one
/// statistic, for the backward pass.
///
/// # Errors
/// As [`reduce`].
pub fn reduce_with_plan<P>(
    tape: &Tape,
    graph: &DeviceGraph,
    x: &Var,
    statistics: &[Statistic],
    plan: &P,
) -> Result<Var, OpError>
where
    P: Fn(&[u32], usize, usize, &Capabilities) -> ReducePlan + Clone + Send + 'static,
{
    let features = x.shape()[1];
    expect("reduce", "x", x.tensor(), [graph.num_src(), features])?;
    let device = tape.device();
    let parts = Ingredients::of(statistics);
    let out = Tensor::uninit(device, graph.num_dst(), statistics.len() * features, "neighbour statistics")?;
    let kept_cols = parts.kept_cols(features);
    let kept = (x.is_tracked() && kept_cols > 0)
        .then(|| Tensor::uninit(device, graph.num_dst(), kept_cols, "means and arguments"))
        .transpose()?;
    device.reduce(&Reduce {
        graph,
        statistics,
        x: x.tensor(),
        out: &out,
        kept: kept.as_ref(),
        plan: &plan(graph.offsets(Direction::Forward), features, statistics.len(), device.capabilities()),
    })?;

    let (graph, plan, statistics) = (graph.clone(), plan.clone(), statistics.to_vec());
    let (kept_x, kept_out) = (x.tensor().clone(), out.clone());
    tape.record(out, &[x], move |g, sink| {
        let device = g.device().clone();
        let coefficients = if Ingredients::are_direct(&statistics) {
            g.clone()
        } else {
            let cols = parts.coefficient_cols(features);
            let coefficients = Tensor::uninit(&device, graph.num_dst(), cols, "coefficients of neighbours")?;
            device.reduce_coefficients(&ReduceCoefficients {
                graph: &graph,
                statistics: &statistics,
                g,
                out: &kept_out,
                kept: kept.as_ref(),
                coefficients: &coefficients,
            })?;
            coefficients
        };
        let grad_x = kept_x.like("gradient of neighbour statistics")?;
        device.reduce_grad(&ReduceGradient {
            graph: &graph,
            statistics: &statistics,
            x: &kept_x,
            coefficients: &coefficients,
            kept: kept.as_ref(),
            grad_x: &grad_x,
            plan: &plan(graph.offsets(Direction::Transposed), features, 1, device.capabilities()),
        })?;
        sink.give(0, grad_x)
    })
}
