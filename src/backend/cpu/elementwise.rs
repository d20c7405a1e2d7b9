use super::{CpuBackend, Input, Output, step_data, threads};
use crate::backend::{
    BackendError, DeviceGraph, Tensor,
    kernels::{DropoutKey, DropoutMask, ElementwiseKernels, Unary, dropout_threshold},
};

/// Operations that one entry costs, for the choice of how many threads.
const COST: usize = 4;

impl ElementwiseKernels for CpuBackend {
    unsafe fn unary(&self, f: Unary, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let x = Input::new(x, "unary")?;
        zip(out, "unary", |at, o| o.iter_mut().zip(&x.all()[at..]).for_each(|(o, &v)| *o = f.apply(v)))
    }

    unsafe fn unary_grad(&self, f: Unary, y: &Tensor, g: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let (y, g) = (Input::new(y, "unary_grad")?, Input::new(g, "unary_grad")?);
        zip(out, "unary_grad", |at, o| {
            o.iter_mut().zip(&y.all()[at..]).zip(&g.all()[at..]).for_each(|((o, &y), g)| *o = g * f.derivative(y));
        })
    }

    unsafe fn unary_dropout(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        x: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "unary_dropout";
        let (factor, x) = (dropout_factor(mask, KERNEL)?, Input::new(x, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words() * COST, |r, o| {
            for (c, (o, &v)) in o.iter_mut().zip(x.row(r)).enumerate() {
                *o = factor(r, c).map_or(0.0, |scale| f.apply(v) * scale);
            }
        });
        Ok(())
    }

    unsafe fn unary_dropout_grad(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        y: &Tensor,
        g: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "unary_dropout_grad";
        let (factor, share) = (dropout_factor(mask, KERNEL)?, 1.0 - mask.p);
        let (y, g) = (Input::new(y, KERNEL)?, Input::new(g, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words() * COST, |r, o| {
            for (c, ((o, &y), g)) in o.iter_mut().zip(y.row(r)).zip(g.row(r)).enumerate() {
                *o = factor(r, c).map_or(0.0, |scale| g * scale * f.derivative(share * y));
            }
        });
        Ok(())
    }

    unsafe fn add(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let (a, b) = (Input::new(a, "add")?, Input::new(b, "add")?);
        zip(out, "add", |at, o| o.iter_mut().zip(&a.all()[at..]).zip(&b.all()[at..]).for_each(|((o, a), b)| *o = a + b))
    }

    unsafe fn mul(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let (a, b) = (Input::new(a, "mul")?, Input::new(b, "mul")?);
        zip(out, "mul", |at, o| o.iter_mut().zip(&a.all()[at..]).zip(&b.all()[at..]).for_each(|((o, a), b)| *o = a * b))
    }

    unsafe fn combine(&self, a: f32, x: &Tensor, y: Option<(f32, &Tensor)>, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "combine";
        let (x, b) = (Input::new(x, KERNEL)?, y.map_or(0.0, |(b, _)| b));
        let y = Input::maybe(y.map(|(_, y)| y), KERNEL)?;
        zip(out, KERNEL, |at, o| {
            o.iter_mut().zip(&x.all()[at..]).for_each(|(o, v)| *o = a * v);
            if let Some(y) = &y {
                o.iter_mut().zip(&y.all()[at..]).for_each(|(o, v)| *o += b * v);
            }
        })
    }

    unsafe fn add_row(&self, x: &Tensor, row: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "add_row";
        let (x, row) = (Input::new(x, KERNEL)?, Input::new(row, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words(), |r, o| {
            o.iter_mut().zip(x.row(r)).zip(row.row(0)).for_each(|((o, x), b)| *o = x + b);
        });
        Ok(())
    }

    unsafe fn add_assign(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let x = Input::new(x, "add_assign")?;
        zip(out, "add_assign", |at, o| o.iter_mut().zip(&x.all()[at..]).for_each(|(o, v)| *o += v))
    }

    unsafe fn scale_add(
        &self,
        offset: f32,
        factor: &Tensor,
        x: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "scale_add";
        let scale = offset + Input::new(factor, KERNEL)?.at(0);
        let (x, y) = (Input::new(x, KERNEL)?, Input::maybe(y, KERNEL)?);
        zip(out, KERNEL, |at, o| {
            o.iter_mut().zip(&x.all()[at..]).for_each(|(o, v)| *o = scale * v);
            if let Some(y) = &y {
                o.iter_mut().zip(&y.all()[at..]).for_each(|(o, v)| *o += v);
            }
        })
    }

    unsafe fn dropout(&self, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "dropout";
        let (factor, x) = (dropout_factor(mask, KERNEL)?, Input::new(x, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words() * COST, |r, o| {
            for (c, (o, v)) in o.iter_mut().zip(x.row(r)).enumerate() {
                *o = factor(r, c).map_or(0.0, |scale| v * scale);
            }
        });
        Ok(())
    }

    unsafe fn dropout_sparse(
        &self,
        mask: &DropoutMask<'_>,
        pattern: &DeviceGraph,
        values: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "dropout_sparse";
        let (factor, values) = (dropout_factor(mask, KERNEL)?, Input::new(values, KERNEL)?);
        threads::for_each_edge(pattern.host(), Output::new(out, KERNEL)?.all(), COST, |k, i, j, out| {
            *out = factor(i, j).map_or(0.0, |scale| values.at(k) * scale);
        });
        Ok(())
    }
}

/// What a mask multiplies the entry in a row and column with; `None` where it drops it.
fn dropout_factor(
    mask: &DropoutMask<'_>,
    kernel: &'static str,
) -> Result<impl Fn(usize, usize) -> Option<f32> + Sync + use<>, BackendError> {
    let key = DropoutKey::new(&step_data(mask.state, kernel)?, mask.layer);
    let (threshold, scale) = (dropout_threshold(mask.p), 1.0 / (1.0 - mask.p));
    Ok(move |r: usize, c: usize| (key.hash(r as u32, c as u32) >= threshold).then_some(scale))
}

/// Cuts the output into pieces, padding included, and calls `f(first, piece)`.
fn zip(out: &Tensor, kernel: &'static str, f: impl Fn(usize, &mut [f32]) + Sync) -> Result<(), BackendError> {
    threads::for_each_piece(Output::new(out, kernel)?.all(), COST, f);
    Ok(())
}
