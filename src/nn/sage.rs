use super::{Conv, ConvInput, Features, Initializer, Linear, Module, NnError, Visitor};
use crate::{
    backend::kernels::{Statistic, Unary},
    ops::{self, SpmmInput, Tape, Var},
};

/// How the neighbours of a node become one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Aggregation {
    /// Their sum.
    Sum,
    /// Their mean, 0 without neighbours.
    Mean,
    /// The smallest of each feature, 0 without neighbours.
    Min,
    /// The largest of each feature, 0 without neighbours.
    Max,
}

/// The variants of a SAGE layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct SageOptions {
    /// How neighbours are combined.
    pub aggregation: Aggregation,
    /// Divide each row of the output by its Euclidean norm.
    pub normalize: bool,
    /// Add a linear function of the node itself.
    pub root_weight: bool,
    /// Send neighbours through `relu(lin(x))` first.
    pub project: bool,
    /// A bias after the neighbours' product. It has no effect before a batch norm.
    pub bias: bool,
}

impl Default for SageOptions {
    fn default() -> Self {
        Self { aggregation: Aggregation::Mean, normalize: false, root_weight: true, project: false, bias: true }
    }
}

/// `out_i = W_l AGG_j x_j + b_l + W_r x_i` (Hamilton, Ying, Leskovec, "Inductive Representation Learning on Large
/// Graphs", NeurIPS 2017).
#[derive(Debug)]
pub struct SageConv {
    /// Of the neighbours, with the bias if there is one.
    pub lin_l: Linear,
    /// Of the node itself, without a bias.
    pub lin_r: Option<Linear>,
    /// Of the neighbours, before they are combined.
    pub lin: Option<Linear>,
    options: SageOptions,
}

impl SageConv {
    /// PyTorch's initialisation.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        out_width: usize,
        options: SageOptions,
    ) -> Result<Self, NnError> {
        Ok(Self {
            lin: if options.project { Some(Linear::new(init, in_width, in_width, true)?) } else { None },
            lin_l: Linear::new(init, in_width, out_width, options.bias)?,
            lin_r: if options.root_weight { Some(Linear::new(init, in_width, out_width, false)?) } else { None },
            options,
        })
    }

    fn aggregate(&self, tape: &Tape, input: &ConvInput<'_>, x: &Var) -> Result<Var, NnError> {
        let scale = match self.options.aggregation {
            Aggregation::Sum => None,
            Aggregation::Mean => Some(tape.constant(&input.graph.inverse_in_degree()?)),
            Aggregation::Min => return Ok(ops::reduce(tape, input.graph, x, &[Statistic::Min])?),
            Aggregation::Max => return Ok(ops::reduce(tape, input.graph, x, &[Statistic::Max])?),
        };
        Ok(ops::spmm(tape, input.graph, x, SpmmInput { row_scale: scale.as_ref(), ..Default::default() })?)
    }
}

impl Conv for SageConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("SageConv", false, false)?;
        let projected = match &self.lin {
            Some(lin) => Some(ops::activation(tape, &lin.forward(tape, input.x)?, Unary::Relu)?.into()),
            None => None,
        };
        // Sums and means are linear: they run on the narrower side of the product. The others need every entry of what
        // they combine.
        let linear = matches!(self.options.aggregation, Aggregation::Sum | Aggregation::Mean);
        let neighbours = projected.as_ref().unwrap_or(input.x);
        if !linear {
            neighbours.dense("SageConv with min or max")?;
        }
        let mut out = match neighbours {
            Features::Dense(x) if !linear || self.lin_l.in_width() <= self.lin_l.out_width() => {
                self.lin_l.forward(tape, &self.aggregate(tape, input, x)?.into())?
            }
            x => {
                let product = self.lin_l.forward_without_bias(tape, x)?;
                self.lin_l.add_bias(tape, self.aggregate(tape, input, &product)?)?
            }
        };
        if let Some(lin_r) = &self.lin_r {
            let root = input.of_destinations(tape, None, |x| lin_r.forward(tape, x))?;
            out = ops::add(tape, &out, &root)?;
        }
        if self.options.normalize {
            out = ops::l2_normalize(tape, &out, 1e-12)?;
        }
        Ok(out)
    }
}

impl Module for SageConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        if let Some(lin) = &self.lin {
            visitor.module("lin", lin);
        }
        visitor.module("lin_l", &self.lin_l);
        if let Some(lin_r) = &self.lin_r {
            visitor.module("lin_r", lin_r);
        }
    }
}
