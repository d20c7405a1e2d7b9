use super::{Features, Initializer, Linear, Module, NnError, Norm, Visitor, linear::product, norm::Normalization};
use crate::{
    backend::kernels::Unary,
    ops::{self, Tape, Var},
};

/// A network over a model's input and the outputs of all of its layers: `lin2(activation(norm(lin1([x, h_1, ...,
/// h_L]))))`, twice as wide inside as outside, with the names of PyTorch Geometric's `MLP`.
#[derive(Debug)]
pub(super) struct JumpingHead {
    first: Linear,
    norm: Option<Normalization>,
    second: Linear,
}

impl JumpingHead {
    /// For an input and layers of so many columns, and so many outputs.
    pub(super) fn new(
        init: &mut Initializer<'_>,
        [input, layers, outputs]: [usize; 3],
        norm: Norm,
    ) -> Result<Self, NnError> {
        Ok(Self {
            first: Linear::new(init, input + layers, 2 * outputs, true)?,
            norm: Normalization::new(init, norm, 2 * outputs)?,
            second: Linear::new(init, 2 * outputs, outputs, true)?,
        })
    }

    pub(super) fn forward(
        &self,
        tape: &Tape,
        x: &Features,
        layers: &[Var],
        dropout: f32,
        activation: Unary,
    ) -> Result<Var, NnError> {
        // The input, which may be sparse, has its own columns of the weight, and is not copied.
        let weight = self.first.weight.on(tape);
        let of_input = ops::column_range(tape, &weight, 0..x.shape()[1])?;
        let of_layers = ops::column_range(tape, &weight, x.shape()[1]..self.first.in_width())?;
        let layers = ops::concat_columns(tape, &layers.iter().collect::<Vec<_>>())?;
        let own = product(tape, &x.dropout(tape, dropout)?, &of_input, None)?;
        let sum = ops::add(tape, &own, &ops::linear(tape, &ops::dropout(tape, &layers, dropout)?, &of_layers, None)?)?;
        let mut hidden = self.first.add_bias(tape, sum)?;
        if let Some(norm) = &self.norm {
            hidden = norm.forward(tape, &hidden)?;
        }
        self.second.forward(tape, &ops::activation(tape, &hidden, activation)?.into())
    }
}

impl Module for JumpingHead {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.module("lins.0", &self.first);
        if let Some(norm) = &self.norm {
            visitor.module("norms.0", norm);
        }
        visitor.module("lins.1", &self.second);
    }
}
