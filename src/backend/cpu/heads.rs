use super::{CpuBackend, Input, Output};
use crate::backend::{BackendError, Tensor, kernels::HeadKernels};

impl HeadKernels for CpuBackend {
    unsafe fn extend_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "extend_heads";
        let (channels, attributes) = (x.cols() / heads, weight.cols());
        let (x, weight) = (Input::new(x, KERNEL)?, Input::new(weight, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words() * channels, |i, out| {
            for (head, out) in out.chunks_exact_mut(channels + attributes).enumerate() {
                let x = &x.row(i)[head * channels..][..channels];
                let (same, more) = out.split_at_mut(channels);
                same.copy_from_slice(x);
                more.fill(0.0);
                for (c, x) in x.iter().enumerate() {
                    more.iter_mut().zip(weight.row(head * channels + c)).for_each(|(o, w)| *o += x * w);
                }
            }
        });
        Ok(())
    }

    unsafe fn fold_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "fold_heads";
        let (channels, attributes) = (out.cols() / heads, weight.cols());
        let (x, weight) = (Input::new(x, KERNEL)?, Input::new(weight, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words() * attributes, |i, out| {
            for (at, o) in out.iter_mut().enumerate() {
                let x = &x.row(i)[at / channels * (channels + attributes)..][..channels + attributes];
                let more = weight.row(at).iter().zip(&x[channels..]).map(|(w, x)| w * x);
                *o = x[at % channels] + more.sum::<f32>();
            }
        });
        Ok(())
    }

    unsafe fn head_blocks(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "head_blocks";
        let (channels, attributes) = (out.rows() / heads, out.cols());
        let x = Input::new(x, KERNEL)?;
        Output::new(out, KERNEL)?.for_each_row(out.words(), |r, out| {
            let first = r / channels * (channels + attributes) + channels;
            out.copy_from_slice(&x.row(r)[first..][..attributes]);
        });
        Ok(())
    }

    unsafe fn mean_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "mean_heads";
        let x = Input::new(x, KERNEL)?;
        Output::new(out, KERNEL)?.for_each_row(x.words, |i, out| {
            out.fill(0.0);
            for x in x.row(i).chunks_exact(out.len()) {
                out.iter_mut().zip(x).for_each(|(o, x)| *o += x);
            }
            out.iter_mut().for_each(|o| *o /= heads as f32);
        });
        Ok(())
    }

    unsafe fn spread_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "spread_heads";
        let x = Input::new(x, KERNEL)?;
        Output::new(out, KERNEL)?.for_each_row(out.words(), |i, out| {
            out.iter_mut().zip(x.row(i).iter().cycle()).for_each(|(o, x)| *o = x / heads as f32);
        });
        Ok(())
    }
}
