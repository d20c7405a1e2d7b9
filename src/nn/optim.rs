use super::{Module, NnError, Parameter};
use crate::{
    backend::{BackendError, Device, Tensor, kernels::AdamUpdate},
    ops::{Gradients, StepState, Tape},
};

/// The settings of [`Adam`], with PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    /// The learning rate.
    pub learning_rate: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
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
        let share = |v: f32| (0.0..1.0).contains(&v);
        for (what, value, fine, expected) in [
            ("the learning rate", self.learning_rate, positive(self.learning_rate), "a positive number"),
            ("beta1", self.beta1, share(self.beta1), "at least 0 and below 1"),
            ("beta2", self.beta2, share(self.beta2), "at least 0 and below 1"),
            ("epsilon", self.epsilon, positive(self.epsilon), "a positive number"),
            (
                "the weight decay",
                self.weight_decay,
                self.weight_decay.is_finite() && self.weight_decay >= 0.0,
                "0 or a positive number",
            ),
        ] {
            if !fine {
                return Err(NnError::Argument { what, got: value.to_string(), expected: expected.into() });
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
    moments: Vec<(Tensor, Tensor)>,
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
            .map(|(_, p)| Ok((zeros(p)?, zeros(p)?)))
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
        // Written as decimal fractions, these are meant: 0.999 is not the nearest 32-bit float.
        let exact = |beta: f32| beta.to_string().parse().unwrap_or(f64::from(beta));
        self.state.set(self.step, learning_rate, exact(beta1), exact(beta2))?;
        self.step += 1;
        Ok(())
    }

    /// Updates the parameters of the model that the optimiser was made for. Those without a gradient stay.
    ///
    /// # Errors
    /// What the device reports.
    pub fn update(
        &self,
        model: &dyn Module,
        leaves: &[crate::ops::Var],
        gradients: &Gradients,
    ) -> Result<(), BackendError> {
        for (((_, parameter), leaf), (m, v)) in model.parameters().iter().zip(leaves).zip(&self.moments) {
            let Some(g) = gradients.of(leaf) else { continue };
            parameter.value().device().adam(&AdamUpdate {
                state: self.state.buffer(),
                w: parameter.value(),
                g,
                m,
                v,
                beta1: self.options.beta1,
                beta2: self.options.beta2,
                epsilon: self.options.epsilon,
                weight_decay: self.options.weight_decay,
                decoupled: self.options.decoupled,
            })?;
        }
        Ok(())
    }

    /// The leaves of a model's parameters on a tape, in the order that [`Adam::update`] expects.
    pub fn leaves(model: &dyn Module, tape: &Tape) -> Vec<crate::ops::Var> {
        model.parameters().iter().map(|(_, p)| p.on(tape)).collect()
    }
}
