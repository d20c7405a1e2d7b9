use super::{OpError, Tape, Var};

/// Channels of a head, given the columns of all.
pub(super) fn channels_of(op: &'static str, heads: usize, columns: usize) -> Result<usize, OpError> {
    if heads > 0 && columns > 0 && columns.is_multiple_of(heads) {
        return Ok(columns / heads);
    }
    let expected = format!("a divisor of {columns} columns");
    Err(OpError::Argument { op, what: "the number of heads", got: heads.to_string(), expected })
}

/// The mean of heads that stand side by side: from `[rows, heads * channels]` to `[rows, channels]`.
///
/// # Errors
/// If the columns are not those of so many heads, or what the device reports.
pub fn mean_heads(tape: &Tape, x: &Var, heads: usize) -> Result<Var, OpError> {
    let [rows, columns] = x.shape();
    let channels = channels_of("mean_heads", heads, columns)?;
    let out = x.tensor().with_shape(rows, channels, "mean of heads")?;
    tape.device().mean_heads(heads, x.tensor(), &out)?;
    tape.record(out, &[x], move |g, sink| {
        let grad = g.with_shape(rows, columns, "gradient of heads")?;
        g.device().spread_heads(heads, g, &grad)?;
        sink.give(0, grad)
    })
}
