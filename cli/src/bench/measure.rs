use std::time::{Duration, Instant};

use hopwise::{
    Matrix,
    backend::{Device, DeviceKind, Tensor},
};

use rayon::prelude::*;

use crate::failure::Failure;

/// Samples that a median is taken of.
const SAMPLES: usize = 9;
/// Runs that are submitted together, as the operations of a training step are.
const SUBMITTED: u32 = 8;

/// How long a measurement may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    seconds: f64,
}

impl Budget {
    /// As `--seconds` says.
    pub(crate) fn new(seconds: f64) -> Result<Self, Failure> {
        if seconds > 0.0 && seconds <= 3600.0 {
            return Ok(Self { seconds });
        }
        Err(Failure::Usage(format!("--seconds {seconds} is not in 0..=3600, 0 excluded")))
    }

    /// The median time of one run in milliseconds. Runs are enqueued back to back and waited for together; the time of a few runs is
    /// taken from that of many, so that waiting is no part of it, nor the host where the device is slower. The clock is the device's
    /// own where it has one.
    pub(crate) fn median_ms(
        self,
        device: &Device,
        mut run: impl FnMut() -> Result<(), Failure>,
    ) -> Result<f64, Failure> {
        let mut time = |runs: u32| -> Result<Duration, Failure> {
            let start = Instant::now();
            let before = device.mark()?;
            for number in 1..=runs {
                run()?;
                if number % SUBMITTED == 0 {
                    device.flush()?;
                }
            }
            let after = device.mark()?;
            let (Some(before), Some(after)) = (before, after) else {
                wait(device)?;
                return Ok(start.elapsed());
            };
            Ok(Duration::from_secs_f64(pollster::block_on(after.seconds_since(&before))?))
        };
        // Compiles, allocates and warms up; then as many runs a sample as fit. What takes longer than all of them may is timed by
        // itself: waiting is a small part of it.
        time(1)?;
        let single = time(1)?;
        if single.as_secs_f64() > self.seconds {
            let mut times = [single, time(1)?, time(1)?];
            times.sort();
            return Ok(times[1].as_secs_f64() * 1e3);
        }
        time(2)?;
        let few = time(2)?.as_secs_f64();
        let once = (time(6)?.as_secs_f64() - few).max(0.0) / 4.0;
        let runs = (self.seconds / SAMPLES as f64 / once.max(1e-6)).clamp(4.0, 10_000.0) as u32 / 4;
        let samples = if once * 4.0 > self.seconds { 3 } else { SAMPLES };
        let mut times = (0..samples)
            .map(|_| {
                let few = time(runs)?.as_secs_f64();
                let many = time(4 * runs)?.as_secs_f64();
                Ok((many - few).max(0.0) * 1e3 / f64::from(3 * runs))
            })
            .collect::<Result<Vec<f64>, Failure>>()?;
        times.sort_by(f64::total_cmp);
        // No clock is finer, and rates stay numbers.
        Ok(times[samples / 2].max(1e-6))
    }
}

/// Waits for everything enqueued: reads a number back.
fn wait(device: &Device) -> Result<(), Failure> {
    let tensor = Tensor::full(device, 1, 1, 0.0, "a number to wait for")?;
    tensor.to_matrix_blocking()?;
    Ok(())
}

/// Bytes a second, read and written, of a copy that no cache holds.
pub(crate) fn copy_rate(device: &Device, budget: Budget) -> Result<f64, Failure> {
    // A quarter of a GiB each way on a GPU; a processor has smaller caches and less time.
    let rows = if device.info().kind == DeviceKind::Cpu { 1 << 17 } else { 1 << 20 };
    let from = Tensor::full(device, rows, 64, 1.0, "copied from")?;
    let to = from.like("copied to")?;
    let ms = budget.median_ms(device, || Ok(device.combine(1.0, &from, None, &to)?))?;
    Ok(2.0 * rows as f64 * 256.0 / (ms / 1e3))
}

/// Numbers that one thread makes from a stream of its own.
const NUMBERS_A_STREAM: usize = 1 << 18;

/// Standard normal numbers, the same for a seed on every machine.
pub(crate) fn normal(rows: usize, cols: usize, seed: u64) -> Matrix {
    let mut values = vec![0.0; rows * cols];
    values.par_chunks_mut(NUMBERS_A_STREAM).enumerate().for_each(|(stream, part)| {
        let mut random = hopwise::graph::generate::SplitMix::stream(seed, 3 + stream as u64);
        for pair in part.chunks_mut(2) {
            // Box and Muller's transform.
            let (u, v) = (1.0 - f64::from(random.uniform()), f64::from(random.uniform()));
            let (r, angle) = ((-2.0 * u.ln()).sqrt(), std::f64::consts::TAU * v);
            let both = [(r * angle.cos()) as f32, (r * angle.sin()) as f32];
            pair.copy_from_slice(&both[..pair.len()]);
        }
    });
    Matrix::new(rows, cols, values).expect("as many numbers as entries")
}
