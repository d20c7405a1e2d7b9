use super::{ConvInput, Features, Initializer, Linear, Module, NnError, Parameter, Visitor};
use crate::{
    backend::{DeviceGraph, Tensor},
    matrix::Matrix,
    ops::{self, AttentionOptions, Tape, Var},
};

/// The variants of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GatOptions {
    /// Number of heads.
    pub heads: usize,
    /// Heads one after the other; otherwise their mean.
    pub concat: bool,
    /// The slope below 0 of the function that scores go through.
    pub negative_slope: f32,
    /// One self loop a node, whose attributes are the mean of those of the other edges into it; listed loops are taken
    /// out.
    pub add_self_loops: bool,
    /// GATv2: one linear function for both ends of an edge.
    pub share_weights: bool,
    /// A bias after the sum, and in GATv2 within the linear functions.
    pub bias: bool,
    /// Add a linear function of the node itself.
    pub residual: bool,
    /// Width of the edge attributes, if edges have any.
    pub edge_width: Option<usize>,
    /// The share of attention that training drops.
    pub dropout: f32,
}

impl Default for GatOptions {
    fn default() -> Self {
        Self {
            heads: 1,
            concat: true,
            negative_slope: 0.2,
            add_self_loops: true,
            share_weights: false,
            bias: true,
            residual: false,
            edge_width: None,
            dropout: 0.0,
        }
    }
}

impl GatOptions {
    /// Width of all heads together, if there are any.
    pub(super) fn checked_width(&self, layer: &'static str, channels: usize) -> Result<usize, NnError> {
        match self.heads.checked_mul(channels) {
            Some(width) if width > 0 => Ok(width),
            _ => Err(NnError::Argument {
                what: layer,
                got: format!("asked for {} heads of {channels} channels", self.heads),
                expected: "at least one of each".into(),
            }),
        }
    }

    /// Width of the output of heads of `channels` channels.
    pub(super) fn out_width(&self, channels: usize) -> usize {
        if self.concat { self.heads * channels } else { channels }
    }

    pub(super) fn attention(&self) -> AttentionOptions {
        AttentionOptions { heads: self.heads, negative_slope: self.negative_slope, dropout: self.dropout }
    }

    /// The graph with the loops that were asked for, and the attributes of its edges.
    pub(super) fn edges(
        &self,
        tape: &Tape,
        input: &ConvInput<'_>,
        layer: &'static str,
    ) -> Result<(DeviceGraph, Option<Var>), NnError> {
        input.refuse_edge_data(layer, false, self.edge_width.is_some())?;
        if self.edge_width.is_some() && input.edge_attr.is_none() {
            return Err(NnError::Argument {
                what: layer,
                got: "given no edge attributes".into(),
                expected: "edge attributes".into(),
            });
        }
        if !self.add_self_loops {
            return Ok((input.graph.clone(), input.edge_attr.cloned()));
        }
        let looped = input.graph.with_self_loops()?;
        let attr = match input.edge_attr {
            Some(attr) => Some(ops::loop_attributes(tape, attr, &looped)?),
            None => None,
        };
        Ok((looped.graph().clone(), attr))
    }
}

/// What stands behind the attention of a layer: mean over heads, linear function of the node itself, bias.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) res: Option<Linear>,
    pub(super) bias: Option<Parameter>,
    /// Where there are several heads, `[channels, heads * channels]`: the product with its transpose is the mean over heads.
    mean: Option<Tensor>,
}

impl Head {
    pub(super) fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        channels: usize,
        options: &GatOptions,
    ) -> Result<Self, NnError> {
        let (heads, out_width) = (options.heads, options.out_width(channels));
        let mean = if options.concat || heads == 1 {
            None
        } else {
            let mut mean = Matrix::zeros(channels, heads * channels);
            for at in 0..heads * channels {
                mean.data_mut()[at % channels * (heads * channels) + at] = 1.0 / heads as f32;
            }
            Some(Tensor::from_matrix(init.device(), &mean, "mean over heads")?)
        };
        Ok(Self {
            res: if options.residual { Some(Linear::glorot(init, in_width, out_width)?) } else { None },
            bias: if options.bias { Some(init.constant(&[out_width], 0.0)?) } else { None },
            mean,
        })
    }

    pub(super) fn forward(&self, tape: &Tape, input: &ConvInput<'_>, attention: Var) -> Result<Var, NnError> {
        let mut out = match &self.mean {
            Some(mean) => ops::linear(tape, &attention, &tape.constant(mean), None)?,
            None => attention,
        };
        if let Some(res) = &self.res {
            let own = input.of_destinations(tape, None, |x: &Features| res.forward(tape, x))?;
            out = ops::add(tape, &out, &own)?;
        }
        match &self.bias {
            Some(bias) => Ok(ops::add_row(tape, &out, &bias.on(tape))?),
            None => Ok(out),
        }
    }
}

impl Module for Head {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        if let Some(res) = &self.res {
            visitor.module("res", res);
        }
        if let Some(bias) = &self.bias {
            visitor.parameter("bias", bias);
        }
    }
}
