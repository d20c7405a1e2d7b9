//! What the driver reports, as values.

use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::BackendError;

/// Remembers the first thing that went wrong out of sight.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorWatch(Arc<Mutex<Option<BackendError>>>);

impl ErrorWatch {
    /// Listens to a device that belongs to the backend alone.
    pub(super) fn owning(device: &wgpu::Device) -> Self {
        let watch = Self::default();
        let lost = watch.clone();
        device.set_device_lost_callback(move |reason, message| {
            lost.report(BackendError::DeviceLost { reason: format!("{reason:?}: {message}") });
        });
        let uncaptured = watch.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            uncaptured.report(BackendError::Driver(error.to_string()));
        }));
        watch
    }

    fn report(&self, error: BackendError) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A lost device explains everything after it.
        if slot.is_none() || matches!(error, BackendError::DeviceLost { .. }) {
            *slot = Some(error);
        }
    }

    /// The error reported, if any. A lost device stays lost; others are reported once.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let error = match &*slot {
            Some(lost @ BackendError::DeviceLost { .. }) => lost.clone(),
            Some(_) => slot.take().expect("it was just seen"),
            None => return Ok(()),
        };
        Err(error)
    }

    /// Runs `f` and returns what the driver has against it.
    pub(super) fn scoped<T>(
        &self,
        device: &wgpu::Device,
        out_of_memory: impl FnOnce() -> BackendError,
        f: impl FnOnce() -> T,
    ) -> Result<T, BackendError> {
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let value = f();
        let (memory, validation) = (memory.pop(), validation.pop());
        // Native drivers have answered by now. The browser answers later, to the console.
        #[cfg(not(target_arch = "wasm32"))]
        {
            if pollster::block_on(memory).is_some() {
                return Err(out_of_memory());
            }
            if let Some(error) = pollster::block_on(validation) {
                // Everything fails on a lost device; that it is lost is told by the next poll.
                _ = device.poll(wgpu::PollType::Poll);
                self.check()?;
                return Err(BackendError::Driver(error.to_string()));
            }
        }
        #[cfg(target_arch = "wasm32")]
        drop((memory, validation, out_of_memory));
        Ok(value)
    }
}
