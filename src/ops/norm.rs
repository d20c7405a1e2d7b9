use super::{OpError, Tape, Var, error::expect};
use crate::backend::{
    Device, Tensor,
    kernels::{ColumnNorm, ColumnNormBackward, OwnMoments, RowNorm, RowNormBackward, Unary},
};

/// Mean and variance of columns, `[1, cols]` each.
#[derive(Clone, Debug)]
pub struct ColumnMoments {
    /// `sum over r of x_r / rows`.
    pub mean: Tensor,
    /// `sum over r of (x_r - mean)^2 / rows`.
    pub variance: Tensor,
}

impl ColumnMoments {
    fn of(x: &Tensor) -> Result<Self, OpError> {
        let row = |label| Tensor::uninit(x.device(), 1, x.cols(), label);
        let (device, share) = (x.device(), 1.0 / x.rows() as f32);
        let (sums, mean) = (row("column sums")?, row("column means")?);
        device.column_sums(x, &sums, false)?;
        device.combine(share, &sums, None, &mean)?;
        let variance = row("column variances")?;
        device.column_moments(x, &mean, None, &sums)?;
        device.combine(share, &sums, None, &variance)?;
        Ok(Self { mean, variance })
    }

    /// `1 / sqrt(variance + epsilon)`.
    fn inverse_deviation(&self, epsilon: f32) -> Result<Tensor, OpError> {
        let device = self.variance.device();
        let ones = Tensor::full(device, 1, self.variance.cols(), 1.0, "ones")?;
        let (sum, out) = (ones.like("variances and epsilon")?, ones.like("inverse deviations")?);
        device.combine(1.0, &self.variance, Some((epsilon, &ones)), &sum)?;
        device.unary(Unary::InverseSqrt, &sum, &out)?;
        Ok(out)
    }
}

/// `out = (x - mean) / sqrt(variance + epsilon) * weight + bias` column by column, with the moments of `x` itself,
/// which come with the result; `x` is `[rows, cols]`, `affine` weight and bias, `[1, cols]` each, 1 and 0 without. The
/// gradient goes through the moments (Ioffe, Szegedy, "Batch Normalization", ICML 2015).
///
/// # Errors
/// If there are less than two rows, which have no deviation, if the shapes do not fit or epsilon is not positive, or
/// what the device reports.
pub fn batch_norm(
    tape: &Tape,
    x: &Var,
    affine: Option<[&Var; 2]>,
    epsilon: f32,
) -> Result<(Var, ColumnMoments), OpError> {
    if x.shape()[0] < 2 {
        return Err(OpError::Argument {
            op: "batch_norm",
            what: "the number of rows",
            got: x.shape()[0].to_string(),
            expected: "at least 2: one row has no deviation".into(),
        });
    }
    let moments = ColumnMoments::of(x.tensor())?;
    Ok((column_norm("batch_norm", tape, x, &moments, true, affine, epsilon)?, moments))
}

/// [`batch_norm`] with given moments, which get no gradient: how a model is used after training.
///
/// # Errors
/// If the shapes do not fit or epsilon is not positive, or what the device reports.
pub fn normalize_columns(
    tape: &Tape,
    x: &Var,
    moments: &ColumnMoments,
    affine: Option<[&Var; 2]>,
    epsilon: f32,
) -> Result<Var, OpError> {
    column_norm("normalize_columns", tape, x, moments, false, affine, epsilon)
}

/// `own` says that the moments are those of `x`.
fn column_norm(
    op: &'static str,
    tape: &Tape,
    x: &Var,
    moments: &ColumnMoments,
    own: bool,
    affine: Option<[&Var; 2]>,
    epsilon: f32,
) -> Result<Var, OpError> {
    let cols = x.shape()[1];
    expect(op, "the mean", &moments.mean, [1, cols])?;
    expect(op, "the variance", &moments.variance, [1, cols])?;
    check_arguments(op, cols, affine, epsilon)?;
    let inverse_deviation = moments.inverse_deviation(epsilon)?;
    let out = x.tensor().like("normalised columns")?;
    tape.device().column_norm(&ColumnNorm {
        x: x.tensor(),
        mean: &moments.mean,
        inverse_deviation: &inverse_deviation,
        affine: affine.map(|affine| affine.map(Var::tensor)),
        out: &out,
    })?;
    let (kept_x, mean) = (x.tensor().clone(), moments.mean.clone());
    let weight = affine.map(|[weight, _]| weight.tensor().clone());
    tape.record(out, &inputs(x, affine), move |g, sink| {
        let device = g.device().clone();
        let row = || Tensor::uninit(&device, 1, cols, "column sums of a gradient");
        let (g_sum, product_sum) = (row()?, row()?);
        let affine = weight.is_some();
        if own || affine {
            device.column_sums(g, &g_sum, false)?;
            device.column_moments(&kept_x, &mean, Some(g), &product_sum)?;
        }
        if sink.wants(0) {
            let grad = g.like("gradient of normalised columns")?;
            let moments = OwnMoments { x: &kept_x, mean: &mean, g_sum: &g_sum, product_sum: &product_sum };
            device.column_norm_grad(&ColumnNormBackward {
                g,
                inverse_deviation: &inverse_deviation,
                weight: weight.as_ref(),
                own: own.then_some(moments),
                out: &grad,
            })?;
            sink.give(0, grad)?;
        }
        if affine {
            let grad = row()?;
            device.mul(&product_sum, &inverse_deviation, &grad)?;
            sink.give(1, grad)?;
            sink.give(2, g_sum)?;
        }
        Ok(())
    })
}

/// `out_r = (x_r - mean(x_r)) / sqrt(var(x_r) + epsilon) * weight + bias` row by row; `x` is `[rows, cols]`, `affine`
/// weight and bias, `[1, cols]` each, 1 and 0 without (Ba, Kiros, Hinton, "Layer Normalization", 2016).
///
/// # Errors
/// If the shapes do not fit or epsilon is not positive, or what the device reports.
pub fn layer_norm(tape: &Tape, x: &Var, affine: Option<[&Var; 2]>, epsilon: f32) -> Result<Var, OpError> {
    check_arguments("layer_norm", x.shape()[1], affine, epsilon)?;
    let out = x.tensor().like("normalised rows")?;
    let tensors = affine.map(|affine| affine.map(Var::tensor));
    tape.device().row_norm(&RowNorm { x: x.tensor(), affine: tensors, epsilon, out: &out })?;
    let kept = x.tensor().clone();
    let weight = affine.map(|[weight, _]| weight.tensor().clone());
    tape.record(out, &inputs(x, affine), move |g, sink| {
        let device = g.device().clone();
        let grad_x = g.like("gradient of normalised rows")?;
        let scaled = weight.is_some().then(|| g.like("gradients of a weight by row")).transpose()?;
        device.row_norm_grad(&RowNormBackward {
            x: &kept,
            g,
            weight: weight.as_ref(),
            epsilon,
            grad_x: &grad_x,
            scaled: scaled.as_ref(),
        })?;
        sink.give(0, grad_x)?;
        if let Some(scaled) = scaled {
            sink.give(1, column_sums(&device, &scaled)?)?;
            sink.give(2, column_sums(&device, g)?)?;
        }
        Ok(())
    })
}

fn column_sums(device: &Device, x: &Tensor) -> Result<Tensor, OpError> {
    let sums = Tensor::uninit(device, 1, x.cols(), "gradient of a normalisation's weight or bias")?;
    device.column_sums(x, &sums, false)?;
    Ok(sums)
}

fn inputs<'a>(x: &'a Var, affine: Option<[&'a Var; 2]>) -> Vec<&'a Var> {
    std::iter::once(x).chain(affine.into_iter().flatten()).collect()
}

fn check_arguments(op: &'static str, cols: usize, affine: Option<[&Var; 2]>, epsilon: f32) -> Result<(), OpError> {
    if let Some([weight, bias]) = affine {
        expect(op, "the weight", weight.tensor(), [1, cols])?;
        expect(op, "the bias", bias.tensor(), [1, cols])?;
    }
    if epsilon.is_finite() && epsilon > 0.0 {
        return Ok(());
    }
    let (what, got, expected) = ("epsilon", epsilon.to_string(), "a positive number".into());
    Err(OpError::Argument { op, what, got, expected })
}
