use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    backend::{BackendError, Device, Tensor},
    graph::generate::SplitMix,
    ops::{Tape, Var},
};

/// A weight that training changes.
#[derive(Debug)]
pub struct Parameter {
    key: usize,
    shape: Vec<usize>,
    value: Tensor,
}

/// Something with parameters.
pub trait Module {
    /// Calls the visitor with every parameter, in a fixed order.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>);

    /// Every parameter with its name: the names of PyTorch Geometric's modules, joined by dots.
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut found = Vec::new();
        self.visit(&mut Visitor { prefix: String::new(), found: &mut found });
        found
    }
}

/// Collects parameters and their names.
#[derive(Debug)]
pub struct Visitor<'v, 'a> {
    prefix: String,
    found: &'v mut Vec<(String, &'a Parameter)>,
}

impl<'a> Visitor<'_, 'a> {
    /// A parameter of the module.
    pub fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        self.found.push((format!("{}{name}", self.prefix), parameter));
    }

    /// A module within the module.
    pub fn module(&mut self, name: &str, module: &'a (impl Module + ?Sized)) {
        let prefix = format!("{}{name}.", self.prefix);
        module.visit(&mut Visitor { prefix, found: self.found });
    }
}

impl Parameter {
    /// A parameter of PyTorch's `shape` (at most two dimensions; one dimension is a single row) and its values, row by row.
    ///
    /// # Errors
    /// What the device reports.
    ///
    /// # Panics
    /// If there are not as many values as the shape says.
    pub fn new(device: &Device, shape: &[usize], values: &[f32]) -> Result<Self, BackendError> {
        static NEXT_KEY: AtomicUsize = AtomicUsize::new(0);
        let (rows, cols) = match *shape {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            _ => panic!("parameters have one or two dimensions, not {shape:?}"),
        };
        let value = Tensor::uninit(device, rows, cols, "parameter")?;
        value.write(values)?;
        Ok(Self { key: NEXT_KEY.fetch_add(1, Ordering::Relaxed), shape: shape.to_vec(), value })
    }

    /// The shape that PyTorch would show.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The value, `[rows, cols]`; one-dimensional parameters are a single row.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// Its leaf on a tape, the same one each time.
    pub fn on(&self, tape: &Tape) -> Var {
        tape.parameter(self.key, &self.value)
    }
}

/// Draws initial weights as PyTorch Geometric does: the same distributions, with random numbers of its own.
#[derive(Debug)]
pub struct Initializer<'a> {
    device: &'a Device,
    random: SplitMix,
}

impl<'a> Initializer<'a> {
    /// Weights that depend on the seed alone.
    pub fn new(device: &'a Device, seed: u64) -> Self {
        Self { device, random: SplitMix::stream(seed, 0) }
    }

    /// Uniform in `-bound..bound`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn uniform(&mut self, shape: &[usize], bound: f32) -> Result<Parameter, BackendError> {
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|_| (2.0 * self.random.uniform() - 1.0) * bound).collect();
        Parameter::new(self.device, shape, &values)
    }

    /// Glorot's uniform distribution for a weight `[out, in]`: the bound is `sqrt(6 / (in + out))`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn glorot(&mut self, out_width: usize, in_width: usize) -> Result<Parameter, BackendError> {
        self.uniform(&[out_width, in_width], (6.0 / (in_width + out_width).max(1) as f32).sqrt())
    }

    /// One value throughout.
    ///
    /// # Errors
    /// What the device reports.
    pub fn constant(&mut self, shape: &[usize], value: f32) -> Result<Parameter, BackendError> {
        Parameter::new(self.device, shape, &vec![value; shape.iter().product()])
    }
}
