use super::{Conv, ConvInput, GatOptions, Initializer, Linear, Module, NnError, Parameter, Visitor, attention::Head};
use crate::{
    backend::{DType, Device, DeviceGraph, Tensor},
    graph::Graph,
    matrix::Matrix,
    ops::{self, EdgeAttention, SpmmInput, Tape, Var},
};

/// `out_i = sum_j a_ji z_j` for each head with `z = W x`, `a` the softmax over the edges into `i` of
/// `leaky(att_src . z_j + att_dst . z_i + att_edge . W_e e_ji)` (Velickovic et al., "Graph Attention Networks", ICLR
/// 2018).
///
/// Then the heads one after the other or their mean, the residual, the bias. A node without edges gets these alone.
#[derive(Debug)]
pub struct GatConv {
    /// Of sources and destinations, without a bias.
    pub lin: Linear,
    /// `[1, heads, channels]`.
    pub att_src: Parameter,
    /// `[1, heads, channels]`.
    pub att_dst: Parameter,
    /// Of the edges, without a bias, and its attention `[1, heads, channels]`.
    pub edge: Option<(Linear, Parameter)>,
    folding: Folding,
    head: Head,
    options: GatOptions,
}

impl GatConv {
    /// Glorot's weights and a bias of zeros, for heads of `channels` channels.
    ///
    /// # Errors
    /// If there are no heads or weights are to be shared, or the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        channels: usize,
        options: GatOptions,
    ) -> Result<Self, NnError> {
        let width = options.checked_width("GatConv", channels)?;
        if options.share_weights {
            return Err(NnError::Argument {
                what: "GatConv",
                got: "asked to share weights".into(),
                expected: "`share_weights: false`: both ends of an edge have one weight anyhow".into(),
            });
        }
        let edge = match options.edge_width {
            Some(d) => Some((Linear::glorot(init, d, width)?, init.glorot_attention(options.heads, channels)?)),
            None => None,
        };
        Ok(Self {
            lin: Linear::glorot(init, in_width, width)?,
            att_src: init.glorot_attention(options.heads, channels)?,
            att_dst: init.glorot_attention(options.heads, channels)?,
            edge,
            folding: Folding::new(init.device(), options.heads, channels)?,
            head: Head::new(init, in_width, channels, &options)?,
            options,
        })
    }
}

impl Conv for GatConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        let (graph, attr) = self.options.edges(tape, input, "GatConv")?;
        let z = self.lin.forward(tape, input.x)?;
        let z_dst = input.of_destinations(tape, Some(&z), |x| self.lin.forward(tape, x))?;
        // Scores stay in 32 bits: the softmax is about their differences.
        let scores = |z: &Var, att: &Parameter| -> Result<Var, NnError> {
            Ok(ops::linear_typed(tape, z, &self.folding.of(tape, att)?, None, DType::F32)?)
        };
        let source = scores(&z, &self.att_src)?;
        let destination = scores(&z_dst, &self.att_dst)?;
        // Attention and weight of the edges become one matrix, so that an edge costs its attributes and no more.
        let weight = match &self.edge {
            Some((lin, att)) => {
                let transposed = ops::transpose(tape, &lin.weight.on(tape))?;
                Some(ops::linear(tape, &self.folding.of(tape, att)?, &transposed, None)?)
            }
            None => None,
        };
        let edge = attr.as_ref().zip(weight.as_ref()).map(|(attr, weight)| EdgeAttention { attr, weight });
        let out = ops::gat(tape, &graph, &z, [&source, &destination], edge, self.options.attention())?;
        self.head.forward(tape, input, out)
    }
}

impl Module for GatConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("att_src", &self.att_src);
        visitor.parameter("att_dst", &self.att_dst);
        visitor.module("lin", &self.lin);
        if let Some((lin, att)) = &self.edge {
            visitor.parameter("att_edge", att);
            visitor.module("lin_edge", lin);
        }
        self.head.visit(visitor);
    }
}

/// Makes the product of every head with its own part of an attention vector a product of matrices.
#[derive(Debug)]
struct Folding {
    /// Every feature by itself.
    diagonal: DeviceGraph,
    /// `[features, heads]`: 1 where the feature is of the head.
    heads: Tensor,
}

impl Folding {
    fn new(device: &Device, heads: usize, channels: usize) -> Result<Self, NnError> {
        let features = u32::try_from(heads * channels).map_err(|_| NnError::Argument {
            what: "the width of an attention layer",
            got: (heads * channels).to_string(),
            expected: format!("at most {}", u32::MAX),
        })?;
        let mut of_head = Matrix::zeros(heads * channels, heads);
        for feature in 0..heads * channels {
            of_head.data_mut()[feature * heads + feature / channels] = 1.0;
        }
        let diagonal = Graph::from_csr(features, (0..=features).collect(), (0..features).collect())?;
        Ok(Self {
            diagonal: DeviceGraph::new(device, diagonal),
            heads: Tensor::from_matrix(device, &of_head, "features of heads")?,
        })
    }

    /// `[heads, features]`: row `h` is the attention of head `h`, and 0 elsewhere.
    fn of(&self, tape: &Tape, att: &Parameter) -> Result<Var, NnError> {
        let weight = ops::transpose(tape, &att.on(tape))?;
        let input = SpmmInput { weight: Some(&weight), ..Default::default() };
        let folded = ops::spmm(tape, &self.diagonal, &tape.constant(&self.heads), input)?;
        Ok(ops::transpose(tape, &folded)?)
    }
}
