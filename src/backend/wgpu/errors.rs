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

    /// Runs `f` and returns what the driver has against it. The browser answers only later; there, errors reach the device's own handler.
    pub(super) fn scoped<T>(
        &self,
        device: &wgpu::Device,
        out_of_memory: impl FnOnce() -> BackendError,
        f: impl FnOnce() -> T,
    ) -> Result<T, BackendError> {
        #[cfg(target_arch = "wasm32")]
        {
            let _ = (device, out_of_memory);
            Ok(f())
        }
        #[cfg(not(target_arch = "wasm32"))]
        {
            use wgpu::ErrorFilter as Filter;

            let internal = device.push_error_scope(Filter::Internal);
            let validation = device.push_error_scope(Filter::Validation);
            let memory = device.push_error_scope(Filter::OutOfMemory);
            let value = f();
            // Scopes close in the reverse order; native drivers have answered by now.
            let (memory, validation, internal) = (memory.pop(), validation.pop(), internal.pop());
            let (validation, internal) = (pollster::block_on(validation), pollster::block_on(internal));
            if pollster::block_on(memory).is_some() {
                return Err(out_of_memory());
            }
            let Some(error) = validation.or(internal) else { return Ok(value) };
            // Everything fails on a lost device; that it is lost is told by the next poll.
            _ = device.poll(wgpu::PollType::Poll);
            self.check()?;
            Err(BackendError::Driver(error.to_string()))
        }
    }
}
