use super::{Conv, ConvInput, Features, Initializer, Linear, Module, NnError, Parameter, Visitor};
use crate::{
    backend::{DeviceGraph, Direction, Tensor, kernels::Unary},
    ops::{self, SpmmInput, Tape, Var},
};

/// How a graph is prepared for a GCN layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GcnOptions {
    /// One self loop a node, of weight 1 or the weight that its own loop had; a part of the normalisation.
    pub add_self_loops: bool,
    /// Weights divided by the root of both ends' degrees; otherwise the plain weighted sum.
    pub normalize: bool,
    /// New self loops weigh 2.
    pub improved: bool,
    /// A bias after the sum.
    pub bias: bool,
}

impl Default for GcnOptions {
    fn default() -> Self {
        Self { add_self_loops: true, normalize: true, improved: false, bias: true }
    }
}

/// `out_i = sum_j w_ji / sqrt(d_j d_i) W x_j + b` with loops, `d` the weighted in-degree (Kipf and Welling, "Semi-Supervised Classification with Graph
/// Convolutional Networks", ICLR 2017).
///
/// A degree of 0 gives the factor 0. The gradient towards the edge weights goes through the normalisation too.
#[derive(Debug)]
pub struct GcnConv {
    /// Without bias.
    pub lin: Linear,
    /// `[out]`.
    pub bias: Option<Parameter>,
    options: GcnOptions,
}

impl GcnConv {
    /// Glorot's weights and a bias of zeros.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        out_width: usize,
        options: GcnOptions,
    ) -> Result<Self, NnError> {
        let lin = Linear::glorot(init, in_width, out_width)?;
        let bias = if options.bias { Some(init.constant(&[out_width], 0.0)?) } else { None };
        Ok(Self { lin, bias, options })
    }
}

impl Conv for GcnConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("GcnConv", true, false)?;
        input.refuse_destinations("GcnConv")?;
        let sum = Propagation::new(tape, input, self.options)?;
        // The sum is linear: it runs on the narrower side of the product.
        let out = match input.x {
            Features::Dense(x) if self.lin.in_width() < self.lin.out_width() => {
                self.lin.forward(tape, &sum.apply(tape, x)?.into())?
            }
            x => sum.apply(tape, &self.lin.forward(tape, x)?)?,
        };
        match &self.bias {
            Some(bias) => Ok(ops::add_row(tape, &out, &bias.on(tape))?),
            None => Ok(out),
        }
    }
}

impl Module for GcnConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        if let Some(bias) = &self.bias {
            visitor.parameter("bias", bias);
        }
        visitor.module("lin", &self.lin);
    }
}

/// A graph with its loops and coefficients, ready to be applied several times.
pub(super) struct Propagation {
    graph: DeviceGraph,
    weight: Option<Var>,
    /// `d^(-1/2)`, for both sides.
    scale: Option<Var>,
}

impl Propagation {
    pub(super) fn new(tape: &Tape, input: &ConvInput<'_>, options: GcnOptions) -> Result<Self, NnError> {
        let graph = input.graph;
        if options.normalize && !graph.host().is_square() {
            return Err(NnError::Argument {
                what: "the graph of a GCN layer",
                got: format!("{} sources and {} destinations", graph.num_src(), graph.num_dst()),
                expected: "as many of both, or `normalize: false`".into(),
            });
        }
        if !options.normalize {
            return Ok(Self { graph: graph.clone(), weight: input.edge_weight.cloned(), scale: None });
        }
        if !options.add_self_loops {
            return Self::normalized(tape, graph.clone(), input.edge_weight.cloned());
        }
        let looped = graph.with_self_loops()?;
        let fill = if options.improved { 2.0 } else { 1.0 };
        let weight = match input.edge_weight {
            Some(weight) => Some(ops::gather_edges(tape, weight, &looped, fill)?),
            None if options.improved => {
                let ones = tape.constant(&Tensor::full(tape.device(), graph.num_edges(), 1, 1.0, "ones")?);
                Some(ops::gather_edges(tape, &ones, &looped, fill)?)
            }
            None => None,
        };
        Self::normalized(tape, looped.graph().clone(), weight)
    }

    fn normalized(tape: &Tape, graph: DeviceGraph, weight: Option<Var>) -> Result<Self, NnError> {
        let scale = match &weight {
            Some(weight) => ops::activation(
                tape,
                &ops::degree(tape, &graph, Some(weight), Direction::Forward)?,
                Unary::InverseSqrt,
            )?,
            None => tape.constant(&graph.gcn_scale()?),
        };
        Ok(Self { graph, weight, scale: Some(scale) })
    }

    pub(super) fn apply(&self, tape: &Tape, x: &Var) -> Result<Var, NnError> {
        let input = SpmmInput {
            weight: self.weight.as_ref(),
            row_scale: self.scale.as_ref(),
            column_scale: self.scale.as_ref(),
            ..Default::default()
        };
        Ok(ops::spmm(tape, &self.graph, x, input)?)
    }
}
