use super::{OpError, Tape, Var, error::expect, linear::Product};
use crate::backend::{
    Tensor,
    kernels::{Gate, GateBackward},
};

/// `b_i r_i + (1 - b_i) x_i` with `b_i = sigmoid(<weight, (x_i, r_i, x_i - r_i)>)`; `x` and `r` are `[rows, cols]`,
/// `weight` `[1, 3 * cols]`.
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn gate(tape: &Tape, x: &Var, r: &Var, weight: &Var) -> Result<Var, OpError> {
    let [rows, cols] = x.shape();
    expect("gate", "the second term", r.tensor(), [rows, cols])?;
    expect("gate", "the weight", weight.tensor(), [1, 3 * cols])?;
    let out = x.tensor().like("gated sum")?;
    let b = Tensor::uninit(tape.device(), rows, 1, "gates")?;
    let [kept_x, kept_r, kept_weight] = [x, r, weight].map(|v| v.tensor().clone());
    tape.device().gate(&Gate { x: &kept_x, r: &kept_r, weight: &kept_weight, out: &out, b: &b })?;
    tape.record(out, &[x, r, weight], move |g, sink| {
        let device = g.device();
        let (grad_x, grad_r) = (g.like("gradient of a gated term")?, g.like("gradient of a gated term")?);
        let z = b.like("slopes of gates")?;
        device.gate_grad(&GateBackward {
            x: &kept_x,
            r: &kept_r,
            weight: &kept_weight,
            b: &b,
            g,
            grad_x: &grad_x,
            grad_r: &grad_r,
            z: &z,
        })?;
        if sink.wants(2) {
            let row = |x: &Tensor| -> Result<Tensor, OpError> {
                let sum = Tensor::uninit(device, 1, cols, "gradient of a gate's weight")?;
                Product { g: &z, x, weight: &kept_weight }.add_grad_weight(&sum, false)?;
                Ok(sum)
            };
            let grad = kept_weight.like("gradient of a gate's weight")?;
            device.gate_weight(&row(&kept_x)?, &row(&kept_r)?, &grad)?;
            sink.give(2, grad)?;
        }
        sink.give(0, grad_x)?;
        sink.give(1, grad_r)
    })
}
