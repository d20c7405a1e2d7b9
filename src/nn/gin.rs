use super::{Conv, ConvInput, Features, Initializer, Linear, Mlp, Module, NnError, Parameter, Visitor};
use crate::ops::{self, SpmmInput, Tape, Var};

/// `out_i = MLP((1 + eps) x_i + sum_j x_j)` with a trainable `eps` (Xu et al., "How Powerful are Graph Neural Networks?", ICLR 2019).
#[derive(Debug)]
pub struct GinConv {
    /// The inner network.
    pub nn: Mlp,
    /// `[1]`.
    pub eps: Parameter,
}

impl GinConv {
    /// An inner network of one hidden layer, and `eps = 0`.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(init: &mut Initializer<'_>, in_width: usize, hidden: usize, out_width: usize) -> Result<Self, NnError> {
        Ok(Self { nn: Mlp::new(init, in_width, hidden, out_width)?, eps: init.constant(&[1], 0.0)? })
    }
}

impl Conv for GinConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("GinConv", false, false)?;
        let eps = self.eps.on(tape);
        match input.x {
            Features::Dense(x) if self.nn.first.in_width() <= self.nn.first.out_width() => {
                let sum = ops::spmm(tape, input.graph, x, SpmmInput::default())?;
                let own = input.of_destinations(tape, Some(x), |x| Ok(x.dense("GinConv")?.clone()))?;
                self.nn.forward(tape, &ops::scale_add(tape, &eps, &own, &sum)?.into())
            }
            // The sum runs on the narrower side of the first product, which sparse features need too.
            x => {
                let product = self.nn.first.forward_without_bias(tape, x)?;
                let sum = ops::spmm(tape, input.graph, &product, SpmmInput::default())?;
                let own =
                    input.of_destinations(tape, Some(&product), |x| self.nn.first.forward_without_bias(tape, x))?;
                self.nn.forward_from_product(tape, ops::scale_add(tape, &eps, &own, &sum)?)
            }
        }
    }
}

impl Module for GinConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("eps", &self.eps);
        visitor.module("nn", &self.nn);
    }
}

/// `out_i = MLP((1 + eps) x_i + sum_j relu(x_j + W e_ji + b))` (Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020).
#[derive(Debug)]
pub struct GineConv {
    /// The inner network.
    pub nn: Mlp,
    /// `[1]`.
    pub eps: Parameter,
    /// From edge attributes to the width of the nodes.
    pub lin: Linear,
}

impl GineConv {
    /// An inner network of one hidden layer, `eps = 0`, and edges of `edge_width` attributes.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        hidden: usize,
        out_width: usize,
        edge_width: usize,
    ) -> Result<Self, NnError> {
        Ok(Self {
            nn: Mlp::new(init, in_width, hidden, out_width)?,
            eps: init.constant(&[1], 0.0)?,
            lin: Linear::new(init, edge_width, in_width, true)?,
        })
    }
}

impl Conv for GineConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("GineConv", false, true)?;
        let attr = input.edge_attr.ok_or_else(|| NnError::Argument {
            what: "GineConv",
            got: "given no edge attributes".into(),
            expected: "edge attributes".into(),
        })?;
        let x = input.x.dense("GineConv")?;
        let bias = self.lin.bias.as_ref().map(|b| b.on(tape));
        let sum = ops::gine(tape, input.graph, x, attr, &self.lin.weight.on(tape), bias.as_ref())?;
        let own = input.of_destinations(tape, Some(x), |x| Ok(x.dense("GineConv")?.clone()))?;
        self.nn.forward(tape, &ops::scale_add(tape, &self.eps.on(tape), &own, &sum)?.into())
    }
}

impl Module for GineConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("eps", &self.eps);
        visitor.module("lin", &self.lin);
        visitor.module("nn", &self.nn);
    }
}
