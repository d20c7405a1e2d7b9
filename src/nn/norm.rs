use super::{Initializer, Module, NnError, Parameter, Visitor};
use crate::{
    backend::{Tensor, kernels::BlockCopy},
    ops::{self, ColumnMoments, Tape, Var},
};

/// Added to variances, as in PyTorch.
const EPSILON: f32 = 1e-5;

/// The share of a batch's statistics in those that are remembered, as in PyTorch.
const MOMENTUM: f32 = 0.1;

/// What normalises the features between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Norm {
    /// Nothing.
    #[default]
    None,
    /// [`BatchNorm`].
    Batch,
    /// [`LayerNorm`].
    Layer,
}

/// Batch normalisation with PyTorch's names and constants: `(x - mean) / sqrt(variance + 1e-5) * weight + bias`, column
/// by column. On a training tape mean and variance are those of the rows at hand, and a tenth of them goes into the
/// running ones (the unbiased variance there); on other tapes the running ones are used (Ioffe, Szegedy, "Batch
/// Normalization", ICML 2015).
#[derive(Debug)]
pub struct BatchNorm {
    /// `[features]`.
    pub weight: Parameter,
    /// `[features]`.
    pub bias: Parameter,
    /// `[features]`, not trained.
    pub running_mean: Parameter,
    /// `[features]`, not trained.
    pub running_var: Parameter,
}

impl BatchNorm {
    /// Weight and variance 1, bias and mean 0.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(init: &mut Initializer<'_>, features: usize) -> Result<Self, NnError> {
        Ok(Self {
            weight: init.constant(&[features], 1.0)?,
            bias: init.constant(&[features], 0.0)?,
            running_mean: init.constant(&[features], 0.0)?,
            running_var: init.constant(&[features], 1.0)?,
        })
    }

    /// The normalised `x`, `[rows, features]`.
    ///
    /// # Errors
    /// If there is but one row in training, if the width is another, or what the device reports.
    pub fn forward(&self, tape: &Tape, x: &Var) -> Result<Var, NnError> {
        let (weight, bias) = (self.weight.on(tape), self.bias.on(tape));
        let affine = Some([&weight, &bias]);
        if tape.step_state().is_none() {
            let (mean, variance) = (self.running_mean.value().clone(), self.running_var.value().clone());
            return Ok(ops::normalize_columns(tape, x, &ColumnMoments { mean, variance }, affine, EPSILON)?);
        }
        let (out, moments) = ops::batch_norm(tape, x, affine, EPSILON)?;
        let rows = x.shape()[0] as f32;
        remember(&self.running_mean, &moments.mean, MOMENTUM)?;
        remember(&self.running_var, &moments.variance, MOMENTUM * rows / (rows - 1.0))?;
        Ok(out)
    }
}

/// `running = (1 - MOMENTUM) running + share * new`.
fn remember(running: &Parameter, new: &Tensor, share: f32) -> Result<(), NnError> {
    let (running, device) = (running.value(), new.device());
    let sum = new.like("running statistics")?;
    device.combine(1.0 - MOMENTUM, running, Some((share, new)), &sum)?;
    let (from, to, shape) = ([0, 0], [0, 0], running.shape());
    Ok(device.copy_block(&BlockCopy { x: &sum, from, out: running, to, shape })?)
}

impl Module for BatchNorm {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("weight", &self.weight);
        visitor.parameter("bias", &self.bias);
        visitor.buffer("running_mean", &self.running_mean);
        visitor.buffer("running_var", &self.running_var);
    }
}

/// Layer normalisation: `(x - mean) / sqrt(variance + 1e-5) * weight + bias`, row by row (Ba, Kiros, Hinton, "Layer
/// Normalization", 2016).
#[derive(Debug)]
pub struct LayerNorm {
    /// `[features]`.
    pub weight: Parameter,
    /// `[features]`.
    pub bias: Parameter,
}

impl LayerNorm {
    /// Weight 1 and bias 0.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(init: &mut Initializer<'_>, features: usize) -> Result<Self, NnError> {
        Ok(Self { weight: init.constant(&[features], 1.0)?, bias: init.constant(&[features], 0.0)? })
    }

    /// The normalised `x`, `[rows, features]`.
    ///
    /// # Errors
    /// If the width is another, or what the device reports.
    pub fn forward(&self, tape: &Tape, x: &Var) -> Result<Var, NnError> {
        let (weight, bias) = (self.weight.on(tape), self.bias.on(tape));
        Ok(ops::layer_norm(tape, x, Some([&weight, &bias]), EPSILON)?)
    }
}

impl Module for LayerNorm {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("weight", &self.weight);
        visitor.parameter("bias", &self.bias);
    }
}

/// The normalisation of a layer of a model.
#[derive(Debug)]
pub(super) enum Normalization {
    Batch(BatchNorm),
    Layer(LayerNorm),
}

impl Normalization {
    /// What `norm` asks for.
    pub(super) fn new(init: &mut Initializer<'_>, norm: Norm, features: usize) -> Result<Option<Self>, NnError> {
        Ok(match norm {
            Norm::None => None,
            Norm::Batch => Some(Self::Batch(BatchNorm::new(init, features)?)),
            Norm::Layer => Some(Self::Layer(LayerNorm::new(init, features)?)),
        })
    }

    pub(super) fn forward(&self, tape: &Tape, x: &Var) -> Result<Var, NnError> {
        match self {
            Self::Batch(norm) => norm.forward(tape, x),
            Self::Layer(norm) => norm.forward(tape, x),
        }
    }
}

impl Module for Normalization {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        match self {
            // PyTorch Geometric wraps PyTorch's batch norm.
            Self::Batch(norm) => visitor.module("module", norm),
            Self::Layer(norm) => norm.visit(visitor),
        }
    }
}
