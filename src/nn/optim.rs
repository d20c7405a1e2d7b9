use std::collections::HashMap;

use super::{Module, NnError, Parameter};
use crate::{
    backend::{
        BackendError, Buffer, DType, Device, Tensor,
        kernels::{AdamUpdate, LossScale, ScaleUpdate},
    },
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

/// How the gradient of the loss is scaled where gradients are stored as f16, see [`LossScale`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaling {
    /// The first factor, a power of two from 1 to [`LossScale::LARGEST`].
    pub initial: f32,
    /// Steps without an overflow after which a factor twice as large is tried.
    pub growth_interval: u32,
}

impl Default for LossScaling {
    fn default() -> Self {
        Self { initial: 65_536.0, growth_interval: 2_000 }
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
    /// Holds a [`LossScale`].
    scaling: Option<(LossScaling, Buffer)>,
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
        Ok(Self { options, state: StepState::new(device, seed)?, step: 0, moments, scaling: None })
    }

    /// An optimiser for a model that stores its features as `dtype`: in f16 with a scaled loss.
    pub(super) fn for_dtype(
        device: &Device,
        model: &dyn Module,
        dtype: DType,
        seed: u64,
        options: AdamOptions,
    ) -> Result<Self, NnError> {
        let optimizer = Self::new(device, model, seed, options)?;
        // The gradients of bf16 have the range of 32 bits.
        if dtype == DType::F16 { optimizer.with_loss_scaling(LossScaling::default()) } else { Ok(optimizer) }
    }

    /// Scales the gradient of the loss ([`Adam::loss_gradient`]), and skips steps that overflow.
    ///
    /// # Errors
    /// If the factor is no power of two in its range or the interval 0, or what the device reports.
    pub fn with_loss_scaling(self, scaling: LossScaling) -> Result<Self, NnError> {
        let initial = scaling.initial;
        if !(1.0..=LossScale::LARGEST).contains(&initial) || initial.log2().fract() != 0.0 {
            let expected = format!("a power of two from 1 to {}", LossScale::LARGEST);
            return Err(NnError::Argument { what: "the scale of the loss", got: initial.to_string(), expected });
        }
        if scaling.growth_interval == 0 {
            let (what, expected) = ("the steps between two scales", "at least 1".into());
            return Err(NnError::Argument { what, got: "0".into(), expected });
        }
        let device = self.state.device();
        let buffer = device.allocate(size_of::<LossScale>() / 4, "loss scale")?;
        device.write(&buffer, bytemuck::cast_slice(&[LossScale { scale: initial, ..Default::default() }]))?;
        Ok(Self { scaling: Some((scaling, buffer)), ..self })
    }

    /// What [`Tape::backward_from`](crate::ops::Tape::backward_from) starts from at the loss: the scale on the device, 1
    /// without scaling.
    ///
    /// # Errors
    /// What the device reports.
    pub fn loss_gradient(&self) -> Result<Tensor, BackendError> {
        match &self.scaling {
            Some((_, buffer)) => Ok(Tensor::of_word(self.state.device(), buffer)),
            None => Tensor::full(self.state.device(), 1, 1, 1.0, "gradient of the loss"),
        }
    }

    /// The scale of the loss, after everything enqueued so far; `None` without scaling.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn loss_scale(&self) -> Result<Option<LossScale>, BackendError> {
        let Some((_, buffer)) = &self.scaling else { return Ok(None) };
        let words = self.state.device().read(buffer, size_of::<LossScale>() / 4).await?;
        Ok(Some(bytemuck::pod_read_unaligned(bytemuck::cast_slice(&words))))
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
        if let Some((scaling, scale)) = &self.scaling {
            for g in model.parameters().iter().filter_map(|(_, p)| gradients.of_parameter(p.key())) {
                g.device().find_overflow(g, scale)?;
            }
            self.state.device().update_scale(&ScaleUpdate {
                scale,
                ln_beta1: self.options.beta1.ln() as f32,
                ln_beta2: self.options.beta2.ln() as f32,
                growth_interval: scaling.growth_interval,
            })?;
        }
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
                scale: self.scaling.as_ref().map(|(_, scale)| scale),
            })?;
        }
        Ok(())
    }
}
