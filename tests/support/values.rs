//! Putting values on a tape and comparing them, natively and in the browser.

use hopwise::{
    Matrix,
    backend::Tensor,
    ops::{Tape, Var},
};

pub(crate) fn leaf(tape: &Tape, matrix: &Matrix) -> Var {
    tape.leaf(&Tensor::from_matrix(tape.device(), matrix, "test input").unwrap())
}

/// `max |got - expected| / max |expected|`; infinite for what is not finite.
pub(crate) fn relative_error(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |m, v| m.max(f64::from(v.abs())));
    let worst = got.iter().zip(expected).fold(0.0f64, |m, (g, e)| {
        let error = f64::from(g - e).abs();
        if error.is_finite() { m.max(error) } else { f64::INFINITY }
    });
    if worst == 0.0 { 0.0 } else { worst / largest }
}
