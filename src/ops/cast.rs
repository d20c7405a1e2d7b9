use super::{OpError, Tape, Var};
use crate::backend::DType;

/// The same numbers stored as `dtype`, rounded to nearest even; the gradient is stored as `x` is.
///
/// # Errors
/// What the device reports.
pub fn to_dtype(tape: &Tape, x: &Var, dtype: DType) -> Result<Var, OpError> {
    let stored = x.tensor().dtype();
    if stored == dtype {
        return Ok(x.clone());
    }
    let out = x.tensor().to_dtype(dtype, "cast")?;
    tape.record(out, &[x], move |g, sink| sink.give(0, g.to_dtype(stored, "gradient of a cast")?))
}
