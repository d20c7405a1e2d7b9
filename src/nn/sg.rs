use super::{Conv, ConvInput, Features, GcnOptions, Initializer, Linear, Module, NnError, Visitor, gcn::Propagation};
use crate::ops::{Tape, Var};

/// `out = S^K x W^T + b` with GCN's normalised graph `S` (Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019).
#[derive(Debug)]
pub struct SgConv {
    /// The one product.
    pub lin: Linear,
    hops: u32,
}

impl SgConv {
    /// A layer of `hops` rounds.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(init: &mut Initializer<'_>, in_width: usize, out_width: usize, hops: u32) -> Result<Self, NnError> {
        Ok(Self { lin: Linear::new(init, in_width, out_width, true)?, hops })
    }
}

impl Conv for SgConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("SgConv", true, false)?;
        input.refuse_destinations("SgConv")?;
        let sum = Propagation::new(tape, input, GcnOptions::default())?;
        let rounds = |x: Var| (0..self.hops).try_fold(x, |x, _| sum.apply(tape, &x));
        match input.x {
            Features::Dense(x) if self.lin.in_width() <= self.lin.out_width() => {
                self.lin.forward(tape, &rounds(x.clone())?.into())
            }
            x => self.lin.add_bias(tape, rounds(self.lin.forward_without_bias(tape, x)?)?),
        }
    }
}

impl Module for SgConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.module("lin", &self.lin);
    }
}
