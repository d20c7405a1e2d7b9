//! Training epoch by epoch, whatever is trained.

use std::time::{Duration, Instant};

use hopwise::backend::Tensor;

use super::Args;
use crate::{failure::Failure, output::Progress};

/// What is trained epoch by epoch.
pub(super) trait Learner {
    /// Enqueues the steps of the next epoch: the loss of each, and its share in that of the epoch.
    fn epoch(&mut self) -> Result<Vec<(Tensor, f32)>, Failure>;

    /// The accuracy on what validates.
    fn validate(&self) -> Result<f64, Failure>;
}

/// How training went.
#[derive(Debug)]
pub(super) struct Curves {
    /// Of each epoch.
    pub(super) losses: Vec<f32>,
    /// (epoch, validation accuracy).
    pub(super) validation: Vec<(u32, f64)>,
    /// Time of the steps alone. The first epoch, in which a GPU compiles its kernels, does not count unless it is the only one.
    pub(super) seconds_per_epoch: f64,
}

impl Args {
    /// Trains for all epochs; `title` says what, in the progress bar.
    pub(super) fn train(&self, learner: &mut impl Learner, title: String) -> Result<Curves, Failure> {
        let progress = Progress::new(u64::from(self.epochs), title);
        let (mut losses, mut validation) = (Vec::new(), Vec::new());
        let mut pending: Vec<Vec<(Tensor, f32)>> = Vec::new();
        let mut elapsed = Duration::ZERO;
        let mut started = Instant::now();
        for epoch in 1..=self.epochs {
            pending.push(learner.epoch()?);
            if epoch == 1 && self.epochs > 1 {
                losses.push(read_loss(&pending.remove(0))?);
                started = Instant::now();
            }
            if !epoch.is_multiple_of(self.eval_every) && epoch != self.epochs {
                continue;
            }
            // Reading waits for the device; until here steps were only enqueued.
            for steps in pending.drain(..) {
                losses.push(read_loss(&steps)?);
            }
            elapsed += started.elapsed();
            let loss = losses.last().copied().unwrap_or(f32::NAN);
            if !loss.is_finite() {
                return Err(Failure::Run(format!(
                    "the loss is {loss} after epoch {epoch}: try a smaller --lr, or normalised features"
                )));
            }
            let accuracy = learner.validate()?;
            validation.push((epoch, accuracy));
            let message = format!("loss {loss:.4}, validation accuracy {:.2} %", 100.0 * accuracy);
            progress.advance_to(u64::from(epoch));
            progress.report(u64::from(epoch), message);
            started = Instant::now();
        }
        let seconds_per_epoch = elapsed.as_secs_f64() / f64::from((self.epochs - 1).max(1));
        Ok(Curves { losses, validation, seconds_per_epoch })
    }
}

/// The loss of an epoch.
fn read_loss(steps: &[(Tensor, f32)]) -> Result<f32, Failure> {
    let mut sum = 0.0;
    for (loss, share) in steps {
        sum += loss.to_matrix_blocking()?.data()[0] * share;
    }
    Ok(sum)
}
