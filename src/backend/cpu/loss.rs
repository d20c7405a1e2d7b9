use super::{CpuBackend, Input, Output, words_of, write};
use crate::backend::{BackendError, Indices, Tensor, kernels::LossKernels};

impl LossKernels for CpuBackend {
    unsafe fn cross_entropy(
        &self,
        x: &Tensor,
        labels: &Indices,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "cross_entropy";
        let (x, labels, weight) = (Input::new(x, KERNEL)?, words_of(labels, KERNEL)?, Input::new(weight, KERNEL)?);
        let mut losses = write(losses.buffer(), KERNEL)?;
        let mut grad = Output::new(grad, KERNEL)?;
        let (cols, stride, words) = (grad.cols, grad.stride, grad.words);
        for (r, grad) in grad.memory[..words].chunks_exact_mut(stride).enumerate() {
            let (w, grad) = (weight.at(r), &mut grad[..cols]);
            if w == 0.0 {
                losses[r] = 0.0;
                grad.fill(0.0);
                continue;
            }
            // Labels past the last class only stand in rows that were meant to weigh nothing.
            let (x, label) = (x.row(r), (labels[r].to_bits() as usize).min(cols - 1));
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = x.iter().map(|v| (v - max).exp()).sum();
            losses[r] = w * (sum.ln() + max - x[label]);
            for (c, (g, v)) in grad.iter_mut().zip(x).enumerate() {
                *g = w * ((v - max).exp() / sum - if c == label { 1.0 } else { 0.0 });
            }
        }
        Ok(())
    }

    unsafe fn binary_cross_entropy(
        &self,
        x: &Tensor,
        targets: &Tensor,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "binary_cross_entropy";
        let (x, targets, weight) = (Input::new(x, KERNEL)?, Input::new(targets, KERNEL)?, Input::new(weight, KERNEL)?);
        let mut losses = write(losses.buffer(), KERNEL)?;
        let mut grad = Output::new(grad, KERNEL)?;
        let (cols, stride, words) = (grad.cols, grad.stride, grad.words);
        for (r, grad) in grad.memory[..words].chunks_exact_mut(stride).enumerate() {
            let w = weight.at(r) / cols as f32;
            let mut loss = 0.0;
            for ((g, &x), t) in grad[..cols].iter_mut().zip(x.row(r)).zip(targets.row(r)) {
                if w == 0.0 {
                    *g = 0.0;
                    continue;
                }
                loss += x.max(0.0) - x * t + (-x.abs()).exp().ln_1p();
                *g = w * (1.0 / (1.0 + (-x).exp()) - t);
            }
            losses[r] = w * loss;
        }
        Ok(())
    }
}
