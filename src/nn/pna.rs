use std::borrow::Cow;

use super::{Conv, ConvInput, Features, Initializer, Linear, Module, NnError, Parameter, Visitor, linear::product};
use crate::{
    backend::{
        DegreeFunction, DeviceGraph, Tensor,
        kernels::{BlockCopy, Gemm, Statistic, Unary},
    },
    graph::Graph,
    matrix::Matrix,
    ops::{self, OpError, Tape, Var},
};

/// What statistics are multiplied by, a function of the in-degree `d` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Scaler {
    /// 1.
    Identity,
    /// `log(d + 1) / average of log(d + 1)`.
    Amplification,
    /// `average of log(d + 1) / log(max(d, 1) + 1)`.
    Attenuation,
    /// `d / average of d`.
    Linear,
    /// `average of d / max(d, 1)`.
    InverseLinear,
}

/// What scalers need of the degree histogram of the graph that a model is trained on: averages over the destinations.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AverageDegree {
    /// Of the in-degree `d`.
    pub linear: f32,
    /// Of `log(d + 1)`.
    pub log: f32,
}

impl AverageDegree {
    /// The averages of a graph, 0 without nodes.
    pub fn of(graph: &Graph) -> Self {
        let average = |f: &dyn Fn(f64) -> f64| {
            let sum: f64 = graph.in_degrees().map(|d| f(f64::from(d))).sum();
            (sum / f64::from(graph.num_dst().max(1))) as f32
        };
        Self { linear: average(&|d| d), log: average(&|d| d.ln_1p()) }
    }
}

/// The variants of a PNA layer. Lists are in the order of their columns and end at the first `None`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PnaOptions {
    /// What is computed of the messages into a node.
    pub aggregators: [Option<Statistic>; 6],
    /// What all of that is multiplied by, each giving its own columns.
    pub scalers: [Option<Scaler>; 5],
    /// The averages of the training graph.
    pub degree: AverageDegree,
    /// Independent functions of the same neighbours, side by side in the output.
    pub towers: usize,
    /// Each tower sees its own part of the features, rather than all.
    pub divide_input: bool,
    /// Linear layers of the message, ReLU in between.
    pub pre_layers: usize,
    /// Linear layers behind the statistics, ReLU in between.
    pub post_layers: usize,
    /// Width of the edge attributes, if edges have any.
    pub edge_width: Option<usize>,
}

impl PnaOptions {
    /// The paper's four statistics and three scalers, one tower, one linear layer before and behind the statistics.
    pub const fn new(degree: AverageDegree) -> Self {
        let [mean, min, max, std] = [Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::Std];
        let [one, more, less] = [Scaler::Identity, Scaler::Amplification, Scaler::Attenuation];
        Self {
            aggregators: [Some(mean), Some(min), Some(max), Some(std), None, None],
            scalers: [Some(one), Some(more), Some(less), None, None],
            degree,
            towers: 1,
            divide_input: false,
            pre_layers: 1,
            post_layers: 1,
            edge_width: None,
        }
    }

    /// Other statistics.
    ///
    /// # Errors
    /// If there are more than exist; [`PnaConv::new`] checks the rest.
    pub fn aggregators(self, aggregators: &[Statistic]) -> Result<Self, NnError> {
        Ok(Self { aggregators: list("the number of aggregators", aggregators)?, ..self })
    }

    /// Other scalers.
    ///
    /// # Errors
    /// If there are more than exist; [`PnaConv::new`] checks the rest.
    pub fn scalers(self, scalers: &[Scaler]) -> Result<Self, NnError> {
        Ok(Self { scalers: list("the number of scalers", scalers)?, ..self })
    }

    fn check(&self, in_width: usize, out_width: usize) -> Result<(), NnError> {
        let refuse = |what, got: String, expected: String| Err(NnError::Argument { what, got, expected });
        let (aggregators, scalers) = (taken(&self.aggregators), taken(&self.scalers));
        if let Some(alone) = aggregators.iter().find(|s| s.is_alone()) {
            return refuse("an aggregator of PNA", format!("{alone:?}"), "Sum, Mean, Min, Max, Var or Std".into());
        }
        for (what, len, twice) in [
            ("the aggregators of PNA", aggregators.len(), repeated(&aggregators)),
            ("the scalers of PNA", scalers.len(), repeated(&scalers)),
        ] {
            if len == 0 || twice {
                let got = if len == 0 { "an empty list" } else { "a list with one of them twice" };
                return refuse(what, got.into(), "at least one, each at most once".into());
            }
        }
        for (what, layers) in [("pre_layers of PNA", self.pre_layers), ("post_layers of PNA", self.post_layers)] {
            if layers == 0 {
                return refuse(what, "0".into(), "at least 1".into());
            }
        }
        let divisible = |width: usize| self.towers > 0 && width.is_multiple_of(self.towers);
        if !divisible(out_width) || (self.divide_input && !divisible(in_width)) {
            let widths = if self.divide_input { format!("{in_width} and {out_width}") } else { out_width.to_string() };
            return refuse("the number of towers", self.towers.to_string(), format!("a divisor of {widths}"));
        }
        for average in [self.degree.linear, self.degree.log] {
            if !average.is_finite() || average < 0.0 {
                return refuse("an average degree", average.to_string(), "0 or a positive number".into());
            }
        }
        Ok(())
    }
}

fn list<T: Copy, const N: usize>(what: &'static str, items: &[T]) -> Result<[Option<T>; N], NnError> {
    if items.len() > N {
        return Err(NnError::Argument { what, got: items.len().to_string(), expected: format!("at most {N}") });
    }
    Ok(std::array::from_fn(|i| items.get(i).copied()))
}

fn taken<T: Copy>(list: &[Option<T>]) -> Vec<T> {
    list.iter().map_while(|item| *item).collect()
}

fn repeated<T: PartialEq>(items: &[T]) -> bool {
    items.iter().enumerate().any(|(i, item)| items[..i].contains(item))
}

/// Principal neighbourhood aggregation (Corso et al., "Principal Neighbourhood Aggregation for Graph Nets", NeurIPS
/// 2020). For each tower, with the message `m_ji = W_i x_i + W_j x_j + W_e (E e_ji + c) + b`:
///
/// `t_i = V_x x_i + sum over scalers s of s(d_i) V_s [a(m_ji over j) for all aggregators a] + b'`, and `out_i =
/// lin([t_i of all towers])`.
///
/// Without edge attributes nothing is written for an edge: `W_i x_i + b` is the same for all messages into a node, so
/// that statistics of `W_j x_j` need only be shifted by it (mean, minimum and maximum by itself, the sum by its
/// `d`-fold, variance and deviation not at all), and one pass over the neighbours gives all of them. The columns of all
/// scalers never exist either: they are applied behind the product.
///
/// With edge attributes one row an edge is written, `W_j x_j + W_e E e_ji`, the rest being the same: there is no pass
/// over neighbours with a term of the edge. With more than one layer in the message, its rows are written once a layer.
#[derive(Debug)]
pub struct PnaConv {
    /// The layers of the message of each tower: `[W_i W_j W_e]` first.
    pub pre_nns: Vec<Vec<Linear>>,
    /// The layers behind the statistics of each tower: `[V_x V_s ...]` first.
    pub post_nns: Vec<Vec<Linear>>,
    /// `E` and `c`: from edge attributes to the width of a tower's input.
    pub edge_encoder: Option<Linear>,
    /// Of all towers.
    pub lin: Linear,
    avg_deg_lin: Parameter,
    avg_deg_log: Parameter,
    statistics: Vec<Statistic>,
    scalers: Vec<Scaler>,
    /// `[statistics, functions of the degree]`: by what multiple of `W_i x_i + b` each statistic is shifted.
    shifts: Tensor,
    divide_input: bool,
}

impl PnaConv {
    /// PyTorch's initialisation.
    ///
    /// # Errors
    /// If an option has no meaning, or the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        out_width: usize,
        options: PnaOptions,
    ) -> Result<Self, NnError> {
        options.check(in_width, out_width)?;
        let (statistics, scalers) = (taken(&options.aggregators), taken(&options.scalers));
        let (towers, divided) = (options.towers, options.divide_input);
        let (width, tower_width) = (if divided { in_width / towers } else { in_width }, out_width / towers);
        let ends = if options.edge_width.is_some() { 3 } else { 2 };
        let mut layers = |first: usize, to: usize, count: usize| {
            (0..count)
                .map(|l| Linear::new(init, if l == 0 { first } else { to }, to, true))
                .collect::<Result<Vec<_>, _>>()
        };
        let columns = width * (1 + statistics.len() * scalers.len());
        let (mut pre_nns, mut post_nns) = (Vec::new(), Vec::new());
        for _ in 0..towers {
            pre_nns.push(layers(ends * width, width, options.pre_layers)?);
            post_nns.push(layers(columns, tower_width, options.post_layers)?);
        }
        let mut shifts = Matrix::zeros(statistics.len(), DegreeFunction::COUNT);
        for (s, statistic) in statistics.iter().enumerate() {
            let multiple = match statistic {
                Statistic::Sum => DegreeFunction::Degree,
                Statistic::Mean | Statistic::Min | Statistic::Max => DegreeFunction::Connected,
                _ => continue,
            };
            shifts.data_mut()[s * DegreeFunction::COUNT + multiple as usize] = 1.0;
        }
        Ok(Self {
            pre_nns,
            post_nns,
            edge_encoder: options.edge_width.map(|d| Linear::new(init, d, width, true)).transpose()?,
            lin: Linear::new(init, out_width, out_width, true)?,
            avg_deg_lin: init.constant(&[1], options.degree.linear)?,
            avg_deg_log: init.constant(&[1], options.degree.log)?,
            shifts: Tensor::from_matrix(init.device(), &shifts, "shifts of statistics")?,
            statistics,
            scalers,
            divide_input: divided,
        })
    }

    /// The features that tower `t` sees.
    fn tower_input<'x>(&self, tape: &Tape, x: &'x Features, t: usize) -> Result<Cow<'x, Features>, NnError> {
        if !self.divide_input || self.pre_nns.len() == 1 {
            return Ok(Cow::Borrowed(x));
        }
        let x = x.dense("PnaConv with divided input")?;
        let width = x.shape()[1] / self.pre_nns.len();
        Ok(Cow::Owned(ops::column_range(tape, x, t * width..(t + 1) * width)?.into()))
    }

    /// The statistics of the messages of tower `t`, `[num_dst, statistics * width]`.
    fn aggregate(&self, tape: &Tape, input: &ConvInput<'_>, t: usize, shifts: &Tensor) -> Result<Var, NnError> {
        let [first, more @ ..] = self.pre_nns[t].as_slice() else { unreachable!("there is at least one layer") };
        let (weight, width) = (first.weight.on(tape), first.out_width());
        let part = |k: usize| ops::column_range(tape, &weight, k * width..(k + 1) * width);
        let (of_node, of_neighbour) = (part(0)?, part(1)?);
        let mut bias = first.bias.as_ref().map(|b| b.on(tape));
        let neighbours = product(tape, input.x, &of_neighbour, None)?;
        let graph = input.graph;
        let messages = match (&self.edge_encoder, input.edge_attr) {
            (Some(encoder), Some(attr)) => {
                // W_e (E e + c): the two weights become one, and what does not depend on the edge joins the bias.
                let of_edge = part(2)?;
                let folded = ops::linear(tape, &of_edge, &ops::transpose(tape, &encoder.weight.on(tape))?, None)?;
                if let Some(c) = &encoder.bias {
                    bias = Some(ops::linear(tape, &c.on(tape), &of_edge, bias.as_ref())?);
                }
                Some(ops::edge_messages(tape, graph, &neighbours, attr, &folded)?)
            }
            _ if more.is_empty() => None,
            _ => Some(ops::gather_sources(tape, graph, &neighbours)?),
        };
        let own = input.of_destinations(tape, None, |x| product(tape, x, &of_node, bias.as_ref()))?;
        if more.is_empty() {
            let sums = match &messages {
                Some(messages) => ops::reduce(tape, &graph.edges_as_sources()?, messages, &self.statistics)?,
                None => ops::reduce(tape, graph, &neighbours, &self.statistics)?,
            };
            return Ok(ops::spread_blocks(tape, &sums, &own, shifts)?);
        }
        let Some(messages) = messages else { unreachable!("several layers write every message") };
        let mut messages = ops::add(tape, &messages, &ops::gather_destinations(tape, graph, &own)?)?;
        for layer in more {
            messages = layer.forward(tape, &ops::activation(tape, &messages, Unary::Relu)?.into())?;
        }
        Ok(ops::reduce(tape, &graph.edges_as_sources()?, &messages, &self.statistics)?)
    }

    /// What stands behind the statistics of tower `t`, `[num_dst, out / towers]`.
    fn combine(
        &self,
        tape: &Tape,
        input: &ConvInput<'_>,
        t: usize,
        statistics: &Var,
        scales: &Tensor,
    ) -> Result<Var, NnError> {
        let [first, more @ ..] = self.post_nns[t].as_slice() else { unreachable!("there is at least one layer") };
        let weight = first.weight.on(tape);
        let width = first.in_width() - self.scalers.len() * statistics.shape()[1];
        let of_node = ops::column_range(tape, &weight, 0..width)?;
        let of_statistics = ops::column_range(tape, &weight, width..first.in_width())?;
        let bias = first.bias.as_ref().map(|b| b.on(tape));
        let own = input.of_destinations(tape, None, |x| product(tape, x, &of_node, bias.as_ref()))?;
        // One product for all scalers, which are applied to its result.
        let stacked = ops::stack_blocks(tape, &of_statistics, self.scalers.len())?;
        let scaled = ops::linear(tape, statistics, &stacked, None)?;
        let mut out = ops::merge_blocks(tape, &own, &scaled, scales)?;
        for layer in more {
            out = layer.forward(tape, &ops::activation(tape, &out, Unary::Relu)?.into())?;
        }
        Ok(out)
    }

    /// The scalers of every destination, `[num_dst, scalers]`.
    fn scales(&self, graph: &DeviceGraph) -> Result<Tensor, NnError> {
        let device = graph.device();
        let inverse = |x: &Parameter| -> Result<Tensor, OpError> {
            let out = x.value().like("inverse of an average degree")?;
            device.unary(Unary::Inverse, x.value(), &out)?;
            Ok(out)
        };
        let factors = Tensor::full(device, self.scalers.len(), DegreeFunction::COUNT, 0.0, "factors of scalers")?;
        for (s, scaler) in self.scalers.iter().enumerate() {
            let (function, factor) = match scaler {
                Scaler::Identity => (DegreeFunction::One, Tensor::full(device, 1, 1, 1.0, "one")?),
                Scaler::Amplification => (DegreeFunction::Log, inverse(&self.avg_deg_log)?),
                Scaler::Attenuation => (DegreeFunction::InverseLog, self.avg_deg_log.value().clone()),
                Scaler::Linear => (DegreeFunction::Degree, inverse(&self.avg_deg_lin)?),
                Scaler::InverseLinear => (DegreeFunction::Inverse, self.avg_deg_lin.value().clone()),
            };
            let to = [s, function as usize];
            device.copy_block(&BlockCopy { x: &factor, from: [0, 0], out: &factors, to, shape: [1, 1] })?;
        }
        of_degrees(graph, &factors)
    }
}

/// `[num_dst, rows of weights]`: sums of functions of the in-degree.
fn of_degrees(graph: &DeviceGraph, weights: &Tensor) -> Result<Tensor, NnError> {
    let out = Tensor::uninit(graph.device(), graph.num_dst(), weights.rows(), "functions of degrees")?;
    graph.device().gemm(&Gemm {
        a: &graph.degree_functions()?,
        transpose_a: false,
        b: weights,
        transpose_b: true,
        bias: None,
        out: &out,
        accumulate: false,
    })?;
    Ok(out)
}

impl Conv for PnaConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("PnaConv", false, self.edge_encoder.is_some())?;
        if self.edge_encoder.is_some() && input.edge_attr.is_none() {
            return Err(NnError::Argument {
                what: "PnaConv",
                got: "given no edge attributes".into(),
                expected: "edge attributes".into(),
            });
        }
        let (shifts, scales) = (of_degrees(input.graph, &self.shifts)?, self.scales(input.graph)?);
        let mut towers = Vec::with_capacity(self.pre_nns.len());
        for t in 0..self.pre_nns.len() {
            let x = self.tower_input(tape, input.x, t)?;
            let x_dst = input.x_dst.map(|x| self.tower_input(tape, x, t)).transpose()?;
            let seen = ConvInput { x: &x, x_dst: x_dst.as_deref(), ..*input };
            let statistics = self.aggregate(tape, &seen, t, &shifts)?;
            towers.push(self.combine(tape, &seen, t, &statistics, &scales)?);
        }
        let all = ops::concat_columns(tape, &towers.iter().collect::<Vec<_>>())?;
        self.lin.forward(tape, &all.into())
    }
}

impl Module for PnaConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.buffer("aggr_module.avg_deg_lin", &self.avg_deg_lin);
        visitor.buffer("aggr_module.avg_deg_log", &self.avg_deg_log);
        if let Some(encoder) = &self.edge_encoder {
            visitor.module("edge_encoder", encoder);
        }
        for (name, networks) in [("pre_nns", &self.pre_nns), ("post_nns", &self.post_nns)] {
            for (t, layers) in networks.iter().enumerate() {
                for (l, layer) in layers.iter().enumerate() {
                    // Activations stand between them in PyTorch's list.
                    visitor.module(&format!("{name}.{t}.{}", 2 * l), layer);
                }
            }
        }
        visitor.module("lin", &self.lin);
    }
}
