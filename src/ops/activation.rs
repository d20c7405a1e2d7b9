use super::{OpError, Tape, Var};
use crate::backend::kernels::Unary;

/// `f(x)` entry by entry. The gradient is read off the result, which is all that is kept.
///
/// # Errors
/// If a slope or alpha is not positive, or what the device reports.
pub fn activation(tape: &Tape, x: &Var, f: Unary) -> Result<Var, OpError> {
    let positive = !matches!(f, Unary::LeakyRelu(p) | Unary::Elu(p) if p <= 0.0 || !p.is_finite());
    if !positive {
        return Err(OpError::Argument {
            op: "activation",
            what: "the slope or alpha",
            got: f.parameter().to_string(),
            expected: "a positive number".into(),
        });
    }
    let y = x.tensor().like("activation")?;
    tape.device().unary(f, x.tensor(), &y)?;
    let kept = y.clone();
    tape.record(y, &[x], move |g, sink| {
        let grad = g.like("gradient of an activation")?;
        g.device().unary_grad(f, &kept, g, &grad)?;
        sink.give(0, grad)
    })
}
