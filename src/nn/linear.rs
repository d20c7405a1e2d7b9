use super::{Features, Initializer, Module, NnError, Parameter, Visitor};
use crate::{
    backend::kernels::Unary,
    ops::{self, SpmmInput, Tape, Var},
};

/// `y = x W^T + b`; `W` is `[out, in]`, as in PyTorch.
#[derive(Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Parameter,
    /// `[out]`.
    pub bias: Option<Parameter>,
}

impl Linear {
    /// PyTorch's initialisation: weight and bias uniform in `+-1 / sqrt(in)`.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(init: &mut Initializer<'_>, in_width: usize, out_width: usize, bias: bool) -> Result<Self, NnError> {
        let bound = 1.0 / (in_width.max(1) as f32).sqrt();
        Ok(Self {
            weight: init.uniform(&[out_width, in_width], bound)?,
            bias: if bias { Some(init.uniform(&[out_width], bound)?) } else { None },
        })
    }

    /// Glorot's initialisation without a bias, which is how convolutions start.
    ///
    /// # Errors
    /// What the device reports.
    pub fn glorot(init: &mut Initializer<'_>, in_width: usize, out_width: usize) -> Result<Self, NnError> {
        Ok(Self { weight: init.glorot(out_width, in_width)?, bias: None })
    }

    /// Width of the input.
    pub fn in_width(&self) -> usize {
        self.weight.shape()[1]
    }

    /// Width of the output.
    pub fn out_width(&self) -> usize {
        self.weight.shape()[0]
    }

    /// `x W^T + b`.
    ///
    /// # Errors
    /// If the widths differ, or what the device reports.
    pub fn forward(&self, tape: &Tape, x: &Features) -> Result<Var, NnError> {
        let bias = self.bias.as_ref().map(|b| b.on(tape));
        self.apply(tape, x, bias.as_ref())
    }

    /// `x + b`: for layers that add the bias after something else.
    ///
    /// # Errors
    /// If the widths differ, or what the device reports.
    pub fn add_bias(&self, tape: &Tape, x: Var) -> Result<Var, NnError> {
        match &self.bias {
            Some(bias) => Ok(ops::add_row(tape, &x, &bias.on(tape))?),
            None => Ok(x),
        }
    }

    /// `x W^T`: for layers that sum over neighbours before they add the bias.
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward_without_bias(&self, tape: &Tape, x: &Features) -> Result<Var, NnError> {
        self.apply(tape, x, None)
    }

    fn apply(&self, tape: &Tape, x: &Features, bias: Option<&Var>) -> Result<Var, NnError> {
        if x.shape()[1] != self.in_width() {
            return Err(NnError::Argument {
                what: "the width of a layer's input",
                got: x.shape()[1].to_string(),
                expected: self.in_width().to_string(),
            });
        }
        product(tape, x, &self.weight.on(tape), bias)
    }
}

/// `x W^T + b`, in the form that suits `x`.
pub(super) fn product(tape: &Tape, x: &Features, weight: &Var, bias: Option<&Var>) -> Result<Var, NnError> {
    match x {
        Features::Dense(x) => Ok(ops::linear(tape, x, weight, bias)?),
        Features::Sparse { pattern, values } => {
            // A row of the product is the sum of those rows of W^T that the node's entries name.
            let transposed = ops::transpose(tape, weight)?;
            let input = SpmmInput { weight: Some(values), ..Default::default() };
            let product = ops::spmm(tape, pattern, &transposed, input)?;
            match bias {
                Some(bias) => Ok(ops::add_row(tape, &product, bias)?),
                None => Ok(product),
            }
        }
    }
}

impl Module for Linear {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("weight", &self.weight);
        if let Some(bias) = &self.bias {
            visitor.parameter("bias", bias);
        }
    }
}

/// `lin2(relu(lin1(x)))`: GIN's inner network, with the names `0` and `2` of a `torch.nn.Sequential`.
#[derive(Debug)]
pub struct Mlp {
    /// The first layer.
    pub first: Linear,
    /// The second layer.
    pub second: Linear,
}

impl Mlp {
    /// Two layers with PyTorch's initialisation.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(init: &mut Initializer<'_>, in_width: usize, hidden: usize, out_width: usize) -> Result<Self, NnError> {
        Ok(Self {
            first: Linear::new(init, in_width, hidden, true)?,
            second: Linear::new(init, hidden, out_width, true)?,
        })
    }

    /// The rest of the network, from the product of the first layer (without its bias) on.
    pub(super) fn forward_from_product(&self, tape: &Tape, product: Var) -> Result<Var, NnError> {
        let hidden = ops::activation(tape, &self.first.add_bias(tape, product)?, Unary::Relu)?;
        self.second.forward(tape, &hidden.into())
    }

    /// The whole network.
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward(&self, tape: &Tape, x: &Features) -> Result<Var, NnError> {
        let hidden = ops::activation(tape, &self.first.forward(tape, x)?, Unary::Relu)?;
        self.second.forward(tape, &hidden.into())
    }
}

impl Module for Mlp {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.module("0", &self.first);
        visitor.module("2", &self.second);
    }
}
