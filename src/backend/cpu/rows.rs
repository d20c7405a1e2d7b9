use super::{CpuBackend, Input, Output, vectors::dot, write};
use crate::backend::{BackendError, Indices, Tensor, kernels::RowKernels};

impl RowKernels for CpuBackend {
    unsafe fn row_dot(
        &self,
        a: &Tensor,
        b: &Tensor,
        divisor: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "row_dot";
        let work = a.words();
        let (a, b, divisor) = (Input::new(a, KERNEL)?, Input::new(b, KERNEL)?, Input::maybe(divisor, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(work, |r, out| {
            let dot = dot(a.row(r), b.row(r));
            out[0] = match divisor.as_ref().map(|d| d.at(r)) {
                Some(0.0) => 0.0,
                Some(d) => dot / d,
                None => dot,
            };
        });
        Ok(())
    }

    unsafe fn l2_normalize(&self, x: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "l2_normalize";
        let x = Input::new(x, KERNEL)?;
        Output::new(out, KERNEL)?.for_each_row(out.words(), |r, out| {
            let scale = 1.0 / dot(x.row(r), x.row(r)).sqrt().max(epsilon);
            out.iter_mut().zip(x.row(r)).for_each(|(o, v)| *o = v * scale);
        });
        Ok(())
    }

    unsafe fn l2_normalize_grad(&self, x: &Tensor, g: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "l2_normalize_grad";
        let (x, g) = (Input::new(x, KERNEL)?, Input::new(g, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words(), |r, out| {
            let norm = dot(x.row(r), x.row(r)).sqrt();
            let scale = 1.0 / norm.max(epsilon);
            let along = if norm > epsilon { dot(g.row(r), x.row(r)) * scale * scale } else { 0.0 };
            for ((o, x), g) in out.iter_mut().zip(x.row(r)).zip(g.row(r)) {
                *o = (g - x * along) * scale;
            }
        });
        Ok(())
    }

    unsafe fn argmax(&self, x: &Tensor, out: &Indices) -> Result<(), BackendError> {
        const KERNEL: &str = "argmax";
        let rows = x.rows();
        let x = Input::new(x, KERNEL)?;
        let mut out = write(out.buffer(), KERNEL)?;
        for (r, out) in out[..rows].iter_mut().enumerate() {
            let mut best = 0;
            for (c, v) in x.row(r).iter().enumerate() {
                if *v > x.row(r)[best] {
                    best = c;
                }
            }
            *out = f32::from_bits(best as u32);
        }
        Ok(())
    }
}
