use super::{OpError, Tape, Var, error::expect};
use crate::backend::{DType, Tensor, kernels::Gemm};

/// `y = x W^T + b`; `x` is `[rows, in]`, `weight` `[out, in]`, `bias` `[1, out]`. `y` is stored as `x` is, parameters and
/// their gradients in 32 bits.
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn linear(tape: &Tape, x: &Var, weight: &Var, bias: Option<&Var>) -> Result<Var, OpError> {
    linear_typed(tape, x, weight, bias, x.tensor().dtype())
}

/// [`linear`] with the result stored as `dtype`: scores of a half's features, say, are computed in 32 bits and may stay so.
///
/// # Errors
/// As [`linear`].
pub fn linear_typed(tape: &Tape, x: &Var, weight: &Var, bias: Option<&Var>, dtype: DType) -> Result<Var, OpError> {
    let ([rows, width], [out_width, _]) = (x.shape(), weight.shape());
    expect("linear", "the weight", weight.tensor(), [out_width, width])?;
    if let Some(bias) = bias {
        expect("linear", "the bias", bias.tensor(), [1, out_width])?;
    }
    let out = Tensor::uninit_typed(tape.device(), dtype, rows, out_width, "linear")?;
    tape.device().gemm(&Gemm {
        a: x.tensor(),
        transpose_a: false,
        b: weight.tensor(),
        transpose_b: true,
        bias: bias.map(Var::tensor),
        out: &out,
        accumulate: false,
    })?;
    let (kept_x, kept_weight) = (x.tensor().clone(), weight.tensor().clone());
    let mut inputs = vec![x, weight];
    inputs.extend(bias);
    let has_bias = bias.is_some();
    tape.record(out, &inputs, move |g, sink| {
        let product = Product { g, x: &kept_x, weight: &kept_weight };
        if sink.wants(0) {
            sink.add(0, &kept_x, "gradient of a linear input", |grad, accumulate| {
                product.add_grad_x(grad, accumulate)
            })?;
        }
        if sink.wants(1) {
            let grad = kept_weight.like("gradient of a weight")?;
            product.add_grad_weight(&grad, false)?;
            sink.give(1, grad)?;
        }
        if has_bias && sink.wants(2) {
            let grad = Tensor::uninit(g.device(), 1, g.cols(), "gradient of a bias")?;
            g.device().column_sums(g, &grad, false)?;
            sink.give(2, grad)?;
        }
        Ok(())
    })
}

/// The gradients of `x W^T`, given that of the product.
pub(super) struct Product<'a> {
    pub(super) g: &'a Tensor,
    pub(super) x: &'a Tensor,
    pub(super) weight: &'a Tensor,
}

impl Product<'_> {
    /// `g W`.
    pub(super) fn grad_x(&self) -> Result<Tensor, OpError> {
        let grad = self.x.like("gradient of a linear input")?;
        self.add_grad_x(&grad, false)?;
        Ok(grad)
    }

    /// `g W`, added to what `grad` holds if `accumulate`.
    pub(super) fn add_grad_x(&self, grad: &Tensor, accumulate: bool) -> Result<(), OpError> {
        Ok(self.g.device().gemm(&Gemm {
            a: self.g,
            transpose_a: false,
            b: self.weight,
            transpose_b: false,
            bias: None,
            out: grad,
            accumulate,
        })?)
    }

    /// `g^T x`, added to what `grad` holds if `accumulate`.
    pub(super) fn add_grad_weight(&self, grad: &Tensor, accumulate: bool) -> Result<(), OpError> {
        Ok(self.g.device().gemm(&Gemm {
            a: self.g,
            transpose_a: true,
            b: self.x,
            transpose_b: false,
            bias: None,
            out: grad,
            accumulate,
        })?)
    }
}

/// `x^T`.
///
/// # Errors
/// What the device reports.
pub fn transpose(tape: &Tape, x: &Var) -> Result<Var, OpError> {
    let flip = |x: &Tensor| -> Result<Tensor, OpError> {
        let out = x.with_shape(x.cols(), x.rows(), "transpose")?;
        x.device().transpose(x, &out)?;
        Ok(out)
    };
    tape.record(flip(x.tensor())?, &[x], move |g, sink| sink.give(0, flip(g)?))
}
