use super::{OpError, Tape, Var, dropout::active};
use crate::backend::kernels::{DropoutMask, Unary};

/// `f(x)` entry by entry. The gradient is read off the result, which is all that is kept.
///
/// # Errors
/// If a slope or alpha is not positive, or what the device reports.
pub fn activation(tape: &Tape, x: &Var, f: Unary) -> Result<Var, OpError> {
    check(f)?;
    let y = x.tensor().like("activation")?;
    tape.device().unary(f, x.tensor(), &y)?;
    let kept = y.clone();
    tape.record(y, &[x], move |g, sink| {
        let grad = g.like("gradient of an activation")?;
        g.device().unary_grad(f, &kept, g, &grad)?;
        sink.give(0, grad)
    })
}

/// [`dropout()`](super::dropout()) of [`activation`]: one pass over memory where the two take two each way, and one result
/// that is kept, not two. The mask is the one that dropout would have drawn.
///
/// # Errors
/// As both.
pub fn dropped_activation(tape: &Tape, x: &Var, f: Unary, p: f32) -> Result<Var, OpError> {
    check(f)?;
    let Some((state, layer)) = active(tape, p)? else { return activation(tape, x, f) };
    let y = x.tensor().like("activation with dropout")?;
    tape.device().unary_dropout(f, &DropoutMask { state: state.buffer(), layer, p }, x.tensor(), &y)?;
    let kept = y.clone();
    tape.record(y, &[x], move |g, sink| {
        let grad = g.like("gradient of an activation")?;
        g.device().unary_dropout_grad(f, &DropoutMask { state: state.buffer(), layer, p }, &kept, g, &grad)?;
        sink.give(0, grad)
    })
}

/// Refuses functions whose derivative cannot be read off their value.
fn check(f: Unary) -> Result<(), OpError> {
    if matches!(f, Unary::LeakyRelu(p) | Unary::Elu(p) if p <= 0.0 || !p.is_finite()) {
        return Err(OpError::Argument {
            op: "activation",
            what: "the slope or alpha",
            got: f.parameter().to_string(),
            expected: "a positive number".into(),
        });
    }
    Ok(())
}
