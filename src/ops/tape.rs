use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{OpError, StepState};
use crate::backend::{BackendError, Device, Tensor};

/// Records operations so that their gradients can be computed.
#[derive(Debug)]
pub struct Tape {
    /// Tells the variables of one tape from those of another.
    number: usize,
    device: Device,
    /// Where dropout takes its randomness from; nothing is dropped without it.
    state: Option<StepState>,
    /// The step that the state was at.
    step: u32,
    recording: bool,
    records: RefCell<Vec<Record>>,
    parameters: RefCell<Vec<(usize, Var)>>,
    next_id: Cell<usize>,
    next_layer: Cell<u32>,
}

/// A tensor that operations take, and its place on the tape if a gradient may reach it.
#[derive(Clone, Debug)]
pub struct Var {
    tensor: Tensor,
    id: Option<VarId>,
}

/// Which variable of which tape.
#[derive(Clone, Copy, Debug)]
struct VarId {
    tape: usize,
    index: usize,
}

type Backward = Box<dyn FnOnce(&Tensor, &mut Sink<'_>) -> Result<(), OpError> + Send>;

struct Record {
    output: usize,
    inputs: Vec<Option<usize>>,
    backward: Backward,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Record({:?} -> {})", self.inputs, self.output)
    }
}

/// Takes the gradients of an operation's inputs, by their position.
pub(super) struct Sink<'a> {
    inputs: &'a [Option<usize>],
    gradients: &'a mut Vec<Option<Gradient>>,
}

/// A gradient, and whether its memory may be added to.
#[derive(Debug)]
struct Gradient {
    tensor: Tensor,
    owned: bool,
}

/// The gradients of one loss.
#[derive(Debug)]
pub struct Gradients {
    tape: usize,
    gradients: Vec<Option<Gradient>>,
    /// The leaves of parameters, by their keys.
    parameters: Vec<(usize, Var)>,
}

impl Tape {
    /// A tape for inference: nothing is recorded and nothing dropped.
    pub fn inference(device: &Device) -> Self {
        Self::make(device, None, false)
    }

    /// A tape that records, without dropout.
    pub fn recording(device: &Device) -> Self {
        Self::make(device, None, true)
    }

    /// A tape for a training step: records, and drops entries as `state` says.
    pub fn training(device: &Device, state: &StepState) -> Self {
        Self::make(device, Some(state.clone()), true)
    }

    fn make(device: &Device, state: Option<StepState>, recording: bool) -> Self {
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            device: device.clone(),
            step: state.as_ref().map_or(0, |s| s.data().step),
            state,
            recording,
            records: RefCell::default(),
            parameters: RefCell::default(),
            next_id: Cell::new(0),
            next_layer: Cell::new(0),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The state of the training step, `None` outside training.
    pub fn step_state(&self) -> Option<&StepState> {
        self.state.as_ref()
    }

    /// A number for the next dropout, from 0.
    pub(super) fn next_layer(&self) -> u32 {
        self.next_layer.replace(self.next_layer.get() + 1)
    }

    /// A tensor that no gradient is wanted for.
    pub fn constant(&self, tensor: &Tensor) -> Var {
        Var { tensor: tensor.clone(), id: None }
    }

    /// A tensor whose gradient [`Gradients::of`] gives.
    pub fn leaf(&self, tensor: &Tensor) -> Var {
        Var { tensor: tensor.clone(), id: self.recording.then(|| VarId { tape: self.number, index: self.new_id() }) }
    }

    /// The leaf of a parameter, the same on every call with one `key`: shared weights gather all of their gradient.
    pub fn parameter(&self, key: usize, tensor: &Tensor) -> Var {
        let mut parameters = self.parameters.borrow_mut();
        if let Some((_, var)) = parameters.iter().find(|(k, _)| *k == key) {
            return var.clone();
        }
        let var = self.leaf(tensor);
        parameters.push((key, var.clone()));
        var
    }

    fn new_id(&self) -> usize {
        self.next_id.replace(self.next_id.get() + 1)
    }

    /// The place of a variable on this tape.
    fn index_of(&self, var: &Var) -> Result<Option<usize>, OpError> {
        match var.id {
            Some(id) if id.tape != self.number => Err(OpError::Argument {
                op: "the tape",
                what: "a variable",
                got: "one of another tape".into(),
                expected: "one of this tape: make leaves and constants anew for every step".into(),
            }),
            id => Ok(id.map(|id| id.index)),
        }
    }

    /// Records an operation that made `output` from `inputs`. `backward` gets the gradient of the output and gives those of the inputs.
    pub(super) fn record(
        &self,
        output: Tensor,
        inputs: &[&Var],
        backward: impl FnOnce(&Tensor, &mut Sink<'_>) -> Result<(), OpError> + Send + 'static,
    ) -> Result<Var, OpError> {
        let inputs = inputs.iter().map(|v| self.index_of(v)).collect::<Result<Vec<_>, _>>()?;
        if !self.recording || inputs.iter().all(Option::is_none) {
            return Ok(Var { tensor: output, id: None });
        }
        let index = self.new_id();
        self.records.borrow_mut().push(Record { output: index, inputs, backward: Box::new(backward) });
        Ok(Var { tensor: output, id: Some(VarId { tape: self.number, index }) })
    }

    /// The gradients of `loss`, a `[1, 1]` variable, towards every leaf.
    ///
    /// # Errors
    /// If `loss` is no single number, or what the device reports.
    pub fn backward(self, loss: &Var) -> Result<Gradients, OpError> {
        super::error::expect("backward", "the loss", &loss.tensor, [1, 1])?;
        let one = Tensor::full(&self.device, 1, 1, 1.0, "gradient of the loss")?;
        self.backward_from(loss, one)
    }

    /// The gradients of `sum(output * gradient)`, towards every leaf.
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn backward_from(self, output: &Var, gradient: Tensor) -> Result<Gradients, OpError> {
        super::error::expect("backward", "the gradient", &gradient, output.tensor.shape())?;
        if let Some(state) = self.state.as_ref().filter(|s| s.data().step != self.step) {
            return Err(OpError::Argument {
                op: "backward",
                what: "the step",
                got: state.data().step.to_string(),
                expected: format!("{}: begin the next step after the gradients of this one", self.step),
            });
        }
        let output = self.index_of(output)?;
        let mut gradients: Vec<Option<Gradient>> = Vec::new();
        gradients.resize_with(self.next_id.get(), || None);
        if let Some(index) = output {
            gradients[index] = Some(Gradient { tensor: gradient, owned: false });
        }
        let mut records = self.records.into_inner();
        // Popping drops what an operation kept, so that its memory serves the gradients that follow.
        while let Some(record) = records.pop() {
            let Some(gradient) = gradients[record.output].take() else { continue };
            let mut sink = Sink { inputs: &record.inputs, gradients: &mut gradients };
            (record.backward)(&gradient.tensor, &mut sink)?;
        }
        Ok(Gradients { tape: self.number, gradients, parameters: self.parameters.into_inner() })
    }
}

impl Sink<'_> {
    /// Whether the gradient of input `i` is of use.
    pub(super) fn wants(&self, i: usize) -> bool {
        self.inputs[i].is_some()
    }

    /// Adds a fresh tensor to the gradient of input `i`.
    pub(super) fn give(&mut self, i: usize, tensor: Tensor) -> Result<(), OpError> {
        self.accumulate(i, Gradient { tensor, owned: true })
    }

    /// Adds to the gradient of input `i` what `compute` writes to a tensor like `like`, or, told so, adds to one that is
    /// there: a sum then takes no memory and no pass of its own.
    pub(super) fn add(
        &mut self,
        i: usize,
        like: &Tensor,
        label: &'static str,
        compute: impl FnOnce(&Tensor, bool) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let sum = self.inputs[i].and_then(|id| self.gradients[id].as_ref());
        // Halves would be rounded just as often, after a copy to 32 bits.
        if let Some(sum) = sum.filter(|sum| sum.owned && !sum.tensor.dtype().is_half()) {
            return compute(&sum.tensor, true);
        }
        let tensor = like.like(label)?;
        compute(&tensor, false)?;
        self.give(i, tensor)
    }

    /// Adds a tensor that is in use elsewhere to the gradient of input `i`.
    pub(super) fn lend(&mut self, i: usize, tensor: &Tensor) -> Result<(), OpError> {
        self.accumulate(i, Gradient { tensor: tensor.clone(), owned: false })
    }

    fn accumulate(&mut self, i: usize, new: Gradient) -> Result<(), OpError> {
        let Some(id) = self.inputs[i] else { return Ok(()) };
        let sum = match self.gradients[id].take() {
            None => new,
            Some(old) if old.owned => add_to(old, &new.tensor)?,
            Some(old) if new.owned => add_to(new, &old.tensor)?,
            Some(old) => {
                let tensor = old.tensor.like("sum of gradients")?;
                tensor.device().add(&old.tensor, &new.tensor, &tensor)?;
                Gradient { tensor, owned: true }
            }
        };
        self.gradients[id] = Some(sum);
        Ok(())
    }
}

fn add_to(sum: Gradient, term: &Tensor) -> Result<Gradient, BackendError> {
    sum.tensor.device().add_assign(term, &sum.tensor)?;
    Ok(sum)
}

impl Gradients {
    /// The gradient of a leaf; `None` if it had no part in the loss.
    pub fn of(&self, var: &Var) -> Option<&Tensor> {
        let id = var.id.filter(|id| id.tape == self.tape)?;
        self.gradients.get(id.index)?.as_ref().map(|g| &g.tensor)
    }

    /// The gradient of the parameter that [`Tape::parameter`] was given this key for.
    pub fn of_parameter(&self, key: usize) -> Option<&Tensor> {
        self.of(&self.parameters.iter().find(|(k, _)| *k == key)?.1)
    }
}

impl Var {
    /// The value.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// `[rows, cols]`.
    pub fn shape(&self) -> [usize; 2] {
        self.tensor.shape()
    }

    /// Whether a gradient may reach it.
    pub fn is_tracked(&self) -> bool {
        self.id.is_some()
    }
}
