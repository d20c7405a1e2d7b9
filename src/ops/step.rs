use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::{BackendError, Buffer, Device, kernels::StepData};

/// What changes from step to step, in device memory: seed, step, learning rate and the optimiser's corrections. Clones are the same state.
#[derive(Clone, Debug)]
pub struct StepState {
    device: Device,
    buffer: Buffer,
    data: Arc<Mutex<StepData>>,
}

impl StepState {
    /// The state before the first step.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &Device, seed: u64) -> Result<Self, BackendError> {
        let data = StepData { seed_low: seed as u32, seed_high: (seed >> 32) as u32, ..Default::default() };
        let buffer = device.allocate(size_of::<StepData>() / 4, "step state")?;
        let state = Self { device: device.clone(), buffer, data: Arc::new(Mutex::new(data)) };
        state.write()?;
        Ok(state)
    }

    /// Goes on to the step number `step` (from 0) with a learning rate, and the factors of moments that decay by `beta1` and `beta2`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn set(&self, step: u32, learning_rate: f32, beta1: f64, beta2: f64) -> Result<(), BackendError> {
        // In 64 bits: 1 - 0.999^t loses four digits in 32.
        let t = f64::from(step) + 1.0;
        let next = StepData {
            step,
            learning_rate,
            bias_correction1: (1.0 - beta1.powf(t)) as f32,
            bias_correction2_sqrt: (1.0 - beta2.powf(t)).sqrt() as f32,
            ..self.data()
        };
        *self.data.lock().unwrap_or_else(PoisonError::into_inner) = next;
        self.write()
    }

    fn write(&self) -> Result<(), BackendError> {
        self.device.write(&self.buffer, bytemuck::cast_slice(&[self.data()]))
    }

    /// The device that it is kept on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The memory that kernels read.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The current values.
    pub fn data(&self) -> StepData {
        *self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
