use std::sync::atomic::{AtomicUsize, Ordering};

use super::NnError;
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
    /// Calls the visitor with every parameter and buffer, in a fixed order.
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>);

    /// Every parameter with its name: the names of PyTorch Geometric's modules, joined by dots.
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let trained = collect(self).into_iter().filter(|found| found.trained);
        trained.map(|found| (found.name, found.parameter)).collect()
    }

    /// Every parameter and buffer with its name: what a file of weights holds.
    fn state(&self) -> Vec<(String, &Parameter)> {
        collect(self).into_iter().map(|found| (found.name, found.parameter)).collect()
    }
}

fn collect<M: Module + ?Sized>(module: &M) -> Vec<Found<'_>> {
    let mut found = Vec::new();
    module.visit(&mut Visitor { prefix: String::new(), found: &mut found });
    found
}

#[derive(Debug)]
struct Found<'a> {
    name: String,
    parameter: &'a Parameter,
    trained: bool,
}

/// Collects parameters and their names.
#[derive(Debug)]
pub struct Visitor<'v, 'a> {
    prefix: String,
    found: &'v mut Vec<Found<'a>>,
}

impl<'a> Visitor<'_, 'a> {
    /// A parameter of the module.
    pub fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        self.push(name, parameter, true);
    }

    /// What belongs to the module's weights though no gradient changes it, as averages of the data do.
    pub fn buffer(&mut self, name: &str, buffer: &'a Parameter) {
        self.push(name, buffer, false);
    }

    fn push(&mut self, name: &str, parameter: &'a Parameter, trained: bool) {
        self.found.push(Found { name: format!("{}{name}", self.prefix), parameter, trained });
    }

    /// A module within the module.
    pub fn module(&mut self, name: &str, module: &'a (impl Module + ?Sized)) {
        let prefix = format!("{}{name}.", self.prefix);
        module.visit(&mut Visitor { prefix, found: self.found });
    }
}

impl Parameter {
    /// A parameter of PyTorch's `shape`, its values made one after the other, row by row. One dimension is a single row, and so is `[1, rows, cols]`,
    /// the shape of attention.
    ///
    /// # Errors
    /// [`NnError::Argument`] for another number of dimensions; if there is no room for the values.
    pub fn new(device: &Device, shape: &[usize], mut next: impl FnMut() -> f32) -> Result<Self, NnError> {
        static NEXT_KEY: AtomicUsize = AtomicUsize::new(0);
        let (rows, cols) = match *shape {
            [cols] => (1, cols),
            [rows, cols] => (rows, cols),
            [1, heads, channels] => (1, heads.saturating_mul(channels)),
            _ => {
                let (what, got) = ("a parameter's shape", format!("{shape:?}"));
                return Err(NnError::Argument {
                    what,
                    got,
                    expected: "one or two dimensions, or three that start with 1".into(),
                });
            }
        };
        // The device goes first: it refuses what is too large before the host makes it.
        let value = Tensor::uninit(device, rows, cols, "parameter")?;
        let mut values = Vec::new();
        values.try_reserve_exact(rows * cols).map_err(|_| BackendError::OutOfMemory {
            what: "initial weights".into(),
            requested: (rows * cols) as u64 * 4,
            in_use: device.memory().in_use,
        })?;
        values.extend((0..rows * cols).map(|_| next()));
        value.write(&values)?;
        Ok(Self { key: NEXT_KEY.fetch_add(1, Ordering::Relaxed), shape: shape.to_vec(), value })
    }

    /// What tells it from all other parameters of the process.
    pub fn key(&self) -> usize {
        self.key
    }

    /// The shape that PyTorch would show.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The value, `[rows, cols]`; parameters of one or three dimensions are a single row.
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
    /// As [`Parameter::new`].
    pub fn uniform(&mut self, shape: &[usize], bound: f32) -> Result<Parameter, NnError> {
        Parameter::new(self.device, shape, || (2.0 * self.random.uniform() - 1.0) * bound)
    }

    /// Glorot's uniform distribution for a weight `[out, in]`: the bound is `sqrt(6 / (in + out))`.
    ///
    /// # Errors
    /// As [`Parameter::new`].
    pub fn glorot(&mut self, out_width: usize, in_width: usize) -> Result<Parameter, NnError> {
        self.uniform(&[out_width, in_width], (6.0 / (in_width + out_width).max(1) as f32).sqrt())
    }

    /// Glorot's uniform distribution for attention `[1, heads, channels]`: the bound is `sqrt(6 / (heads + channels))`.
    ///
    /// # Errors
    /// As [`Parameter::new`].
    pub fn glorot_attention(&mut self, heads: usize, channels: usize) -> Result<Parameter, NnError> {
        self.uniform(&[1, heads, channels], (6.0 / (heads + channels).max(1) as f32).sqrt())
    }

    /// The device that weights are drawn for.
    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    /// One value throughout.
    ///
    /// # Errors
    /// As [`Parameter::new`].
    pub fn constant(&mut self, shape: &[usize], value: f32) -> Result<Parameter, NnError> {
        Parameter::new(self.device, shape, || value)
    }
}
