use super::{CpuBackend, Input, Output, threads};
use crate::backend::{
    BackendError, Tensor,
    kernels::{ColumnNorm, ColumnNormBackward, NormKernels, RowNorm, RowNormBackward},
};

/// Rows that are added up apart: blocks keep the rounding error of long sums small.
const BLOCK: usize = 512;

impl NormKernels for CpuBackend {
    unsafe fn column_moments(
        &self,
        x: &Tensor,
        center: &Tensor,
        weight: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "column_moments";
        let rows = x.rows();
        let (x, center, weight) = (Input::new(x, KERNEL)?, Input::new(center, KERNEL)?, Input::maybe(weight, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(0, |_, out| {
            out.fill(0.0);
            for block in (0..rows).step_by(BLOCK) {
                let mut sum = vec![0.0; out.len()];
                for r in block..(block + BLOCK).min(rows) {
                    let deviations = x.row(r).iter().zip(center.row(0)).map(|(x, c)| x - c);
                    match &weight {
                        Some(w) => sum.iter_mut().zip(deviations).zip(w.row(r)).for_each(|((s, d), w)| *s += w * d),
                        None => sum.iter_mut().zip(deviations).for_each(|(s, d)| *s += d * d),
                    }
                }
                out.iter_mut().zip(&sum).for_each(|(o, s)| *o += s);
            }
        });
        Ok(())
    }

    unsafe fn column_norm(&self, args: &ColumnNorm<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "column_norm";
        let (x, mean) = (Input::new(args.x, KERNEL)?, Input::new(args.mean, KERNEL)?);
        let inverse_deviation = Input::new(args.inverse_deviation, KERNEL)?;
        let affine = inputs(args.affine, KERNEL)?;
        Output::new(args.out, KERNEL)?.for_each_row(args.out.words(), |r, out| {
            let moments = mean.row(0).iter().zip(inverse_deviation.row(0));
            for ((o, x), (mean, scale)) in out.iter_mut().zip(x.row(r)).zip(moments) {
                *o = (x - mean) * scale;
            }
            apply(&affine, out);
        });
        Ok(())
    }

    unsafe fn column_norm_grad(&self, args: &ColumnNormBackward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "column_norm_grad";
        let (g, inverse_deviation) = (Input::new(args.g, KERNEL)?, Input::new(args.inverse_deviation, KERNEL)?);
        let weight = Input::maybe(args.weight, KERNEL)?;
        let own = args.own.map(|own| -> Result<[Input<'_>; 4], BackendError> {
            let [x, mean] = [Input::new(own.x, KERNEL)?, Input::new(own.mean, KERNEL)?];
            Ok([x, mean, Input::new(own.g_sum, KERNEL)?, Input::new(own.product_sum, KERNEL)?])
        });
        let own = own.transpose()?;
        let share = 1.0 / args.g.rows() as f32;
        Output::new(args.out, KERNEL)?.for_each_row(args.out.words(), |r, out| {
            out.copy_from_slice(g.row(r));
            let scales = inverse_deviation.row(0);
            if let Some([x, mean, g_sum, product_sum]) = &own {
                let (x, mean, g_sum, product_sum) = (x.row(r), mean.row(0), g_sum.row(0), product_sum.row(0));
                for (c, o) in out.iter_mut().enumerate() {
                    let along = (x[c] - mean[c]) * scales[c] * scales[c] * product_sum[c];
                    *o -= (g_sum[c] + along) * share;
                }
            }
            if let Some(weight) = &weight {
                out.iter_mut().zip(weight.row(0)).for_each(|(o, w)| *o *= w);
            }
            out.iter_mut().zip(scales).for_each(|(o, s)| *o *= s);
        });
        Ok(())
    }

    unsafe fn row_norm(&self, args: &RowNorm<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "row_norm";
        let (x, affine) = (Input::new(args.x, KERNEL)?, inputs(args.affine, KERNEL)?);
        Output::new(args.out, KERNEL)?.for_each_row(args.out.words(), |r, out| {
            let (mean, scale) = moments(x.row(r), args.epsilon);
            out.iter_mut().zip(x.row(r)).for_each(|(o, x)| *o = (x - mean) * scale);
            apply(&affine, out);
        });
        Ok(())
    }

    unsafe fn row_norm_grad(&self, args: &RowNormBackward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "row_norm_grad";
        let (x, g) = (Input::new(args.x, KERNEL)?, Input::new(args.g, KERNEL)?);
        let weight = Input::maybe(args.weight, KERNEL)?;
        let cols = args.x.cols();
        let mut grad_x = Output::new(args.grad_x, KERNEL)?;
        let mut scaled = args.scaled.map(|scaled| Output::new(scaled, KERNEL)).transpose()?;
        let (stride, work) = (grad_x.stride, args.x.words());
        let scaled = scaled.as_mut().map_or([].as_mut_slice(), |scaled| scaled.all());
        threads::for_each_row_of_two((grad_x.all(), stride), (scaled, stride), work, |r, grad_x, scaled| {
            let (x, g) = (x.row(r), g.row(r));
            let (mean, scale) = moments(x, args.epsilon);
            let h = |c: usize| (x[c] - mean) * scale;
            let v = |c: usize| weight.as_ref().map_or(g[c], |w| g[c] * w.row(0)[c]);
            let average = |f: &dyn Fn(usize) -> f32| (0..cols).map(f).sum::<f32>() / cols as f32;
            let (v_mean, product_mean) = (average(&v), average(&|c| v(c) * h(c)));
            for (c, grad) in grad_x[..cols].iter_mut().enumerate() {
                *grad = scale * (v(c) - v_mean - h(c) * product_mean);
            }
            scaled.iter_mut().take(cols).enumerate().for_each(|(c, s)| *s = g[c] * h(c));
        });
        Ok(())
    }
}

fn inputs<'a>(affine: Option<[&'a Tensor; 2]>, kernel: &'static str) -> Result<Option<[Input<'a>; 2]>, BackendError> {
    affine.map(|[weight, bias]| Ok([Input::new(weight, kernel)?, Input::new(bias, kernel)?])).transpose()
}

/// `row * weight + bias`.
fn apply(affine: &Option<[Input<'_>; 2]>, row: &mut [f32]) {
    if let Some([weight, bias]) = affine {
        row.iter_mut().zip(weight.row(0)).zip(bias.row(0)).for_each(|((o, w), b)| *o = *o * w + b);
    }
}

/// Mean and `1 / sqrt(variance + epsilon)`.
fn moments(row: &[f32], epsilon: f32) -> (f32, f32) {
    let len = row.len() as f32;
    let mean = row.iter().sum::<f32>() / len;
    let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / len;
    (mean, 1.0 / (variance + epsilon).sqrt())
}
