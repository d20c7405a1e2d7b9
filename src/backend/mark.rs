use super::{BackendError, Buffer, Device};

/// Words of a buffer that holds the ticks of a clock, 64 bits.
pub(super) const WORDS: usize = 2;

/// A moment on a device's own clock: when it was done with what was enqueued before.
#[derive(Clone, Debug)]
pub struct Mark {
    device: Device,
    ticks: Buffer,
    /// Seconds of a tick.
    tick: f64,
}

impl Device {
    /// Enqueues a look at the device's clock; `None` where it has none that can be read among other commands: in browsers,
    /// and on an application's wgpu device that lacks `TIMESTAMP_QUERY` or `TIMESTAMP_QUERY_INSIDE_ENCODERS`.
    ///
    /// ```
    /// # use hopwise::backend::{Device, Tensor};
    /// let device = Device::cpu();
    /// let before = device.mark()?;
    /// let x = Tensor::full(&device, 1_000, 64, 1.0, "x")?;
    /// if let (Some(before), Some(after)) = (before, device.mark()?) {
    ///     println!("{} s", pollster::block_on(after.seconds_since(&before))?);
    /// }
    /// # Ok::<(), hopwise::backend::BackendError>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    pub fn mark(&self) -> Result<Option<Mark>, BackendError> {
        Ok(self.backend().read_clock()?.map(|(ticks, tick)| Mark { device: self.clone(), ticks, tick }))
    }
}

impl Mark {
    /// Seconds from `earlier` to this mark; waits until the device has come to both.
    ///
    /// # Errors
    /// If the marks are of different devices, or what the device reports.
    pub async fn seconds_since(&self, earlier: &Self) -> Result<f64, BackendError> {
        if !self.device.same(&earlier.device) {
            return Err(BackendError::WrongDevice("a mark"));
        }
        let mut ticks = [0u64; 2];
        for (ticks, mark) in ticks.iter_mut().zip([earlier, self]) {
            let words = self.device.backend().read(&mark.ticks, WORDS).await?;
            *ticks = u64::from(words[0]) | u64::from(words[1]) << 32;
        }
        Ok(ticks[1].saturating_sub(ticks[0]) as f64 * self.tick)
    }
}
