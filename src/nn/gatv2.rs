use super::{Conv, ConvInput, GatOptions, Initializer, Linear, Module, NnError, Parameter, Visitor, attention::Head};
use crate::ops::{self, EdgeAttention, Tape, Var};

/// `out_i = sum_j a_ji W_l x_j` for each head, `a` the softmax over the edges into `i` of
/// `att . leaky(W_l x_j + W_r x_i + W_e e_ji)` (Brody, Alon, Yahav, "How Attentive are Graph Attention Networks?", ICLR
/// 2022).
///
/// Then the heads one after the other or their mean, the residual, the bias. A node without edges gets these alone.
#[derive(Debug)]
pub struct GatV2Conv {
    /// Of the sources.
    pub lin_l: Linear,
    /// Of the destinations; shared weights have `lin_l` for both.
    pub lin_r: Option<Linear>,
    /// `[1, heads, channels]`.
    pub att: Parameter,
    /// Of the edges, without a bias.
    pub lin_edge: Option<Linear>,
    head: Head,
    options: GatOptions,
}

impl GatV2Conv {
    /// Glorot's weights and biases of zeros, for heads of `channels` channels.
    ///
    /// # Errors
    /// If there are no heads, or the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        channels: usize,
        options: GatOptions,
    ) -> Result<Self, NnError> {
        let width = options.checked_width("GatV2Conv", channels)?;
        let mut lin = || -> Result<Linear, NnError> {
            let weight = init.glorot(width, in_width)?;
            Ok(Linear { weight, bias: if options.bias { Some(init.constant(&[width], 0.0)?) } else { None } })
        };
        let lin_l = lin()?;
        let lin_r = if options.share_weights { None } else { Some(lin()?) };
        Ok(Self {
            lin_l,
            lin_r,
            att: init.glorot_attention(options.heads, channels)?,
            lin_edge: options.edge_width.map(|d| Linear::glorot(init, d, width)).transpose()?,
            head: Head::new(init, in_width, channels, &options)?,
            options,
        })
    }
}

impl Conv for GatV2Conv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        let (graph, attr) = self.options.edges(tape, input, "GatV2Conv")?;
        let l = self.lin_l.forward(tape, input.x)?;
        let r = match &self.lin_r {
            Some(lin_r) => input.of_destinations(tape, None, |x| lin_r.forward(tape, x))?,
            None => input.of_destinations(tape, Some(&l), |x| self.lin_l.forward(tape, x))?,
        };
        let edge_weight = self.lin_edge.as_ref().map(|lin| lin.weight.on(tape));
        let edge = attr.as_ref().zip(edge_weight.as_ref()).map(|(attr, weight)| EdgeAttention { attr, weight });
        let out = ops::gatv2(tape, &graph, &l, &r, &self.att.on(tape), edge, self.options.attention())?;
        self.head.forward(tape, input, out)
    }
}

impl Module for GatV2Conv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("att", &self.att);
        visitor.module("lin_l", &self.lin_l);
        if let Some(lin_r) = &self.lin_r {
            visitor.module("lin_r", lin_r);
        }
        if let Some(lin_edge) = &self.lin_edge {
            visitor.module("lin_edge", lin_edge);
        }
        self.head.visit(visitor);
    }
}
