use super::{OpError, Tape, Var, error::expect};
use crate::{
    backend::{
        DeviceGraph, Direction, Tensor,
        kernels::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, Statistic},
    },
    plan::{Capabilities, ReducePlan},
};

/// `out_i = [s_1, s_2, ...]`, each a [`Statistic`] over `x_j` of the edges from `j` to `i`, in the order asked for; `x`
/// is `[num_src, features]`, `out` `[num_dst, statistics * features]`. See [`Reduce`] for rows without edges, ties and
/// NaN.
///
/// All statistics share one pass over the neighbours. The gradient is one pass over the transpose: it gathers two rows
/// an edge for sums, means, variances and deviations together, and the arguments of minimum and maximum with the
/// gradients where they match. Of equal neighbours the first has all of the gradient.
///
/// A product has an exact gradient even where entries are 0; [`softmax_aggregation`] has a temperature besides.
///
/// # Errors
/// If `statistics` is empty or names one twice or one that must be alone, if a shape does not fit the graph, or what
/// the device reports.
pub fn reduce(tape: &Tape, graph: &DeviceGraph, x: &Var, statistics: &[Statistic]) -> Result<Var, OpError> {
    reduce_with_plan(tape, graph, x, statistics, &ReducePlan::new)
}

/// `out_i = sum_k softmax_k(t x_j) x_j` over the edges `k` from `j` to `i`, feature by feature; `x` is
/// `[num_src, features]`, `t` `[1, 1]`, `out` `[num_dst, features]`, 0 in rows without edges (Li et al., "DeeperGCN:
/// All You Need to Train Deeper GCNs", 2020).
///
/// Nothing is kept of an edge: the gradient computes its weight again.
///
/// # Errors
/// If a shape does not fit the graph, or what the device reports.
pub fn softmax_aggregation(tape: &Tape, graph: &DeviceGraph, x: &Var, t: &Var) -> Result<Var, OpError> {
    softmax_aggregation_with_plan(tape, graph, x, t, &ReducePlan::new)
}

/// [`softmax_aggregation`] with plans of the caller's.
///
/// # Errors
/// As [`softmax_aggregation`].
pub fn softmax_aggregation_with_plan<P: ReducePlanner>(
    tape: &Tape,
    graph: &DeviceGraph,
    x: &Var,
    t: &Var,
    plan: &P,
) -> Result<Var, OpError> {
    expect("softmax_aggregation", "the temperature", t.tensor(), [1, 1])?;
    run(tape, graph, x, &[Statistic::Softmax], Some(t), plan)
}

/// [`reduce`] with plans of the caller's.
///
/// # Errors
/// As [`reduce`].
pub fn reduce_with_plan<P: ReducePlanner>(
    tape: &Tape,
    graph: &DeviceGraph,
    x: &Var,
    statistics: &[Statistic],
    plan: &P,
) -> Result<Var, OpError> {
    run(tape, graph, x, statistics, None, plan)
}

/// What makes the plans of a reduction: `plan(offsets, features, statistics, capabilities)`, asked for the forward and,
/// with one statistic, for the backward pass.
pub trait ReducePlanner: Fn(&[u32], usize, usize, &Capabilities) -> ReducePlan + Clone + Send + 'static {}

impl<P: Fn(&[u32], usize, usize, &Capabilities) -> ReducePlan + Clone + Send + 'static> ReducePlanner for P {}

fn run<P: ReducePlanner>(
    tape: &Tape,
    graph: &DeviceGraph,
    x: &Var,
    statistics: &[Statistic],
    temperature: Option<&Var>,
    plan: &P,
) -> Result<Var, OpError> {
    let features = x.shape()[1];
    expect("reduce", "x", x.tensor(), [graph.num_src(), features])?;
    let device = tape.device();
    let parts = Ingredients::of(statistics);
    let out = x.tensor().with_shape(graph.num_dst(), statistics.len() * features, "neighbour statistics")?;
    let kept_cols = parts.kept_cols(features);
    let kept = ((x.is_tracked() || temperature.is_some_and(Var::is_tracked)) && kept_cols > 0)
        .then(|| Tensor::uninit(device, graph.num_dst(), kept_cols, "means and arguments"))
        .transpose()?;
    device.reduce(&Reduce {
        graph,
        statistics,
        x: x.tensor(),
        out: &out,
        temperature: temperature.map(Var::tensor),
        kept: kept.as_ref(),
        plan: &plan(graph.offsets(Direction::Forward), features, statistics.len(), device.capabilities()),
    })?;

    let (graph, plan, statistics) = (graph.clone(), plan.clone(), statistics.to_vec());
    let kept_x = parts.reads_x().then(|| x.tensor().clone());
    let kept_out = parts.reads_out().then(|| out.clone());
    let t = temperature.map(|t| t.tensor().clone());
    let inputs: Vec<&Var> = std::iter::once(x).chain(temperature).collect();
    tape.record(out, &inputs, move |g, sink| {
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
                out: kept_out.as_ref(),
                kept: kept.as_ref(),
                coefficients: &coefficients,
            })?;
            coefficients
        };
        let grad_x = g.with_shape(graph.num_src(), features, "gradient of neighbour statistics")?;
        let slope = (t.is_some() && sink.wants(1))
            .then(|| Tensor::uninit(&device, graph.num_src(), features, "gradients of the temperature"))
            .transpose()?;
        device.reduce_grad(&ReduceGradient {
            graph: &graph,
            statistics: &statistics,
            x: kept_x.as_ref(),
            coefficients: &coefficients,
            kept: kept.as_ref(),
            temperature: t.as_ref(),
            grad_x: &grad_x,
            slope: slope.as_ref(),
            plan: &plan(graph.offsets(Direction::Transposed), features, 1, device.capabilities()),
        })?;
        sink.give(0, grad_x)?;
        if let Some(slope) = slope {
            let sums = Tensor::uninit(&device, 1, features, "gradients of the temperature")?;
            device.column_sums(&slope, &sums, false)?;
            let ones = Tensor::full(&device, 1, features, 1.0, "ones")?;
            let grad_t = Tensor::uninit(&device, 1, 1, "gradient of the temperature")?;
            device.row_dot(&sums, &ones, None, &grad_t)?;
            sink.give(1, grad_t)?;
        }
        Ok(())
    })
}
