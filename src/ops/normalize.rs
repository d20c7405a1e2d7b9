use super::{OpError, Tape, Var};

/// `x_r / max(|x_r|, epsilon)` row by row, with the Euclidean norm.
///
/// # Errors
/// What the device reports.
pub fn l2_normalize(tape: &Tape, x: &Var, epsilon: f32) -> Result<Var, OpError> {
    let out = x.tensor().like("normalised rows")?;
    tape.device().l2_normalize(x.tensor(), epsilon, &out)?;
    let kept = x.tensor().clone();
    tape.record(out, &[x], move |g, sink| {
        let grad = g.like("gradient of normalised rows")?;
        g.device().l2_normalize_grad(&kept, g, epsilon, &grad)?;
        sink.give(0, grad)
    })
}
