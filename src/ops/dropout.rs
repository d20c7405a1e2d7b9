use super::{OpError, StepState, Tape, Var, error::expect};
use crate::backend::{DeviceGraph, kernels::DropoutMask};

/// Sets entries to zero with probability `p` and divides the others by `1 - p`; outside training, `x` as it is. The mask is a hash of seed, step,
/// the number of the dropout in the step, row and column: the same on every device, and recomputed for the gradient.
///
/// # Errors
/// If `p` is not in `0.0..1.0`, or what the device reports.
pub fn dropout(tape: &Tape, x: &Var, p: f32) -> Result<Var, OpError> {
    let Some((state, layer)) = active(tape, p)? else { return Ok(x.clone()) };
    let out = x.tensor().like("dropout")?;
    tape.device().dropout(&DropoutMask { state: state.buffer(), layer, p }, x.tensor(), &out)?;
    tape.record(out, &[x], move |g, sink| {
        let grad = g.like("gradient of a dropout")?;
        g.device().dropout(&DropoutMask { state: state.buffer(), layer, p }, g, &grad)?;
        sink.give(0, grad)
    })
}

/// [`dropout`] of a sparse matrix: `values` are the entries of `pattern`, whose rows are destinations and columns sources. Entries meet the fate that
/// they would in the dense matrix.
///
/// # Errors
/// As [`dropout`], and if there is not one value an entry.
pub fn dropout_sparse(tape: &Tape, pattern: &DeviceGraph, values: &Var, p: f32) -> Result<Var, OpError> {
    expect("dropout_sparse", "the values", values.tensor(), [pattern.num_edges(), 1])?;
    let Some((state, layer)) = active(tape, p)? else { return Ok(values.clone()) };
    let out = values.tensor().like("sparse dropout")?;
    let mask = DropoutMask { state: state.buffer(), layer, p };
    tape.device().dropout_sparse(&mask, pattern, values.tensor(), &out)?;
    let pattern = pattern.clone();
    tape.record(out, &[values], move |g, sink| {
        let grad = g.like("gradient of a sparse dropout")?;
        let mask = DropoutMask { state: state.buffer(), layer, p };
        g.device().dropout_sparse(&mask, &pattern, g, &grad)?;
        sink.give(0, grad)
    })
}

/// The state and the number of this dropout, if anything is to be dropped.
pub(super) fn active(tape: &Tape, p: f32) -> Result<Option<(StepState, u32)>, OpError> {
    if !(0.0..1.0).contains(&p) {
        return Err(OpError::Argument {
            op: "dropout",
            what: "the probability",
            got: p.to_string(),
            expected: "at least 0 and below 1".into(),
        });
    }
    let layer = tape.next_layer();
    Ok(tape.step_state().filter(|_| p > 0.0).map(|state| (state.clone(), layer)))
}
