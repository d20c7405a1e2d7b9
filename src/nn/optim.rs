use std::collections::HashMap;

use super::{Module, NnError, Parameter};
use crate::{
    backend::{BackendError, Device, Tensor, kernels::AdamUpdate},
    ops::{Gradients, StepState},
};

/// The settings of [`Adam`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    /// The learning rate.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Keeps the denominator from zero.
    pub epsilon: f32,
    /// The weight decay.
    pub weight_decay: f32,
    /// Whether the decay acts on the weights (AdamW) rather than on the gradient.
    pub decoupled: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, decoupled: false }
    }
}

impl AdamOptions {
    /// Checks that every number has a meaning.
    ///
    /// # Errors
    /// [`NnError::Argument`] with the number that has none.
    pub fn validate(&self) -> Result<(), NnError> {
        let positive = |v: f32| v.is_finite() && v > 0.0;
        let share = |v: f64| (0.0..1.0).contains(&v);
        for (what, value, fine, expected) in [
            ("the learning rate", self.learning_rate.to_string(), positive(self.learning_rate), "a positive number"),
            ("beta1", self.beta1.to_string(), share(self.beta1), "at least 0 and below 1"),
            ("beta2", self.beta2.to_string(), share(self.beta2), "at least 0 and below 1"),
            ("epsilon", self.epsilon.to_string(), positive(self.epsilon), "a positive number"),
            (
                "the weight decay",
                self.weight_decay.to_string(),
                self.weight_decay.is_finite() && self.weight_decay >= 0.0,
                "0 or a positive number",
            ),
        ] {
            if !fine {
                return Err(NnError::Argument { what, got: value, expected: expected.into() });
            }
        }
        Ok(())
    }
}

/// Adam and AdamW as PyTorch defines them; the formula is at [`AdamUpdate`].
#[derive(Debug)]
pub struct Adam {
    options: AdamOptions,
    state: StepState,
    step: u32,
    /// First and second moment of each parameter, by its key.
    moments: HashMap<usize, (Tensor, Tensor)>,
}

impl Adam {
    /// An optimiser for a model; `seed` is that of the dropout masks.
    ///
    /// # Errors
    /// If an option has no meaning, or what the device reports.
    pub fn new(device: &Device, model: &dyn Module, seed: u64, options: AdamOptions) -> Result<Self, NnError> {
        options.validate()?;
        let zeros = |p: &Parameter| {
            let [rows, cols] = p.value().shape();
            Tensor::full(device, rows, cols, 0.0, "moment")
        };
        let moments = model
            .parameters()
            .into_iter()
            .map(|(_, p)| Ok((p.key(), (zeros(p)?, zeros(p)?))))
            .collect::<Result<_, BackendError>>()?;
        Ok(Self { options, state: StepState::new(device, seed)?, step: 0, moments })
    }

    /// The state that a training tape takes.
    pub fn state(&self) -> &StepState {
        &self.state
    }

    /// Prepares the next step. Call it before the forward pass, which draws its dropout masks for this step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn begin_step(&mut self) -> Result<(), BackendError> {
        let AdamOptions { learning_rate, beta1, beta2, .. } = self.options;
        self.state.set(self.step, learning_rate, beta1, beta2)?;
        self.step += 1;
        Ok(())
    }

    /// Updates the parameters of `model`. Those without a gradient, or that the optimiser was not made for, stay.
    ///
    /// # Errors
    /// What the device reports.
    pub fn update(&self, model: &dyn Module, gradients: &Gradients) -> Result<(), BackendError> {
        for (_, parameter) in model.parameters() {
            let (Some(g), Some((m, v))) = (gradients.of_parameter(parameter.key()), self.moments.get(&parameter.key()))
            else {
                continue;
            };
            parameter.value().device().adam(&AdamUpdate {
                state: self.state.buffer(),
                w: parameter.value(),
                g,
                m,
                v,
                beta1: self.options.beta1 as f32,
                beta2: self.options.beta2 as f32,
                epsilon: self.options.epsilon,
                weight_decay: self.options.weight_decay,
                decoupled: self.options.decoupled,
            })?;
        }
        Ok(())
    }
}
