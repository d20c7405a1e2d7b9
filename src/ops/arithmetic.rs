use super::{OpError, Tape, Var, error::expect};
use crate::backend::Tensor;

/// `a + b`, of one shape.
///
/// # Errors
/// If the shapes differ, or what the device reports.
pub fn add(tape: &Tape, a: &Var, b: &Var) -> Result<Var, OpError> {
    expect("add", "the second term", b.tensor(), a.shape())?;
    let out = a.tensor().like("sum")?;
    tape.device().add(a.tensor(), b.tensor(), &out)?;
    tape.record(out, &[a, b], |g, sink| {
        sink.lend(0, g)?;
        sink.lend(1, g)
    })
}

/// `a * b` entry by entry, of one shape.
///
/// # Errors
/// If the shapes differ, or what the device reports.
pub fn mul(tape: &Tape, a: &Var, b: &Var) -> Result<Var, OpError> {
    expect("mul", "the second factor", b.tensor(), a.shape())?;
    let out = a.tensor().like("product")?;
    tape.device().mul(a.tensor(), b.tensor(), &out)?;
    let (kept_a, kept_b) = (a.tensor().clone(), b.tensor().clone());
    tape.record(out, &[a, b], move |g, sink| {
        for (i, other) in [&kept_b, &kept_a].into_iter().enumerate() {
            if sink.wants(i) {
                let grad = g.like("gradient of a factor")?;
                g.device().mul(g, other, &grad)?;
                sink.give(i, grad)?;
            }
        }
        Ok(())
    })
}

/// `a * x`, and `+ b * y` where given, with numbers `a` and `b`.
///
/// # Errors
/// If the shapes differ, or what the device reports.
pub fn combine(tape: &Tape, a: f32, x: &Var, y: Option<(f32, &Var)>) -> Result<Var, OpError> {
    if let Some((_, y)) = y {
        expect("combine", "the second term", y.tensor(), x.shape())?;
    }
    let out = x.tensor().like("combination")?;
    tape.device().combine(a, x.tensor(), y.map(|(b, y)| (b, y.tensor())), &out)?;
    let mut terms = vec![(a, x)];
    terms.extend(y);
    let (factors, inputs): (Vec<f32>, Vec<&Var>) = terms.into_iter().unzip();
    tape.record(out, &inputs, move |g, sink| {
        for (i, factor) in factors.into_iter().enumerate() {
            if sink.wants(i) {
                let grad = g.like("gradient of a term")?;
                g.device().combine(factor, g, None, &grad)?;
                sink.give(i, grad)?;
            }
        }
        Ok(())
    })
}

/// `x_r + b` for every row; `bias` is `[1, cols]`.
///
/// # Errors
/// If the widths differ, or what the device reports.
pub fn add_row(tape: &Tape, x: &Var, bias: &Var) -> Result<Var, OpError> {
    expect("add_row", "the bias", bias.tensor(), [1, x.shape()[1]])?;
    let out = x.tensor().like("rows with a bias")?;
    tape.device().add_row(x.tensor(), bias.tensor(), &out)?;
    tape.record(out, &[x, bias], |g, sink| {
        if sink.wants(1) {
            let grad = Tensor::uninit(g.device(), 1, g.cols(), "gradient of a bias")?;
            g.device().column_sums(g, &grad, false)?;
            sink.give(1, grad)?;
        }
        sink.lend(0, g)
    })
}

/// `(1 + eps) * x + y` with `eps` of `[1, 1]`: how GIN weighs a node against its neighbours.
///
/// # Errors
/// If the shapes differ, or what the device reports.
pub fn scale_add(tape: &Tape, eps: &Var, x: &Var, y: &Var) -> Result<Var, OpError> {
    expect("scale_add", "eps", eps.tensor(), [1, 1])?;
    expect("scale_add", "y", y.tensor(), x.shape())?;
    let out = x.tensor().like("scaled sum")?;
    tape.device().scale_add(1.0, eps.tensor(), x.tensor(), Some(y.tensor()), &out)?;
    let (kept_eps, kept_x) = (eps.tensor().clone(), x.tensor().clone());
    tape.record(out, &[eps, x, y], move |g, sink| {
        let device = g.device().clone();
        if sink.wants(0) {
            let dots = Tensor::uninit(&device, g.rows(), 1, "row products")?;
            device.row_dot(g, &kept_x, None, &dots)?;
            let grad = Tensor::uninit(&device, 1, 1, "gradient of eps")?;
            device.column_sums(&dots, &grad, false)?;
            sink.give(0, grad)?;
        }
        if sink.wants(1) {
            let grad = g.like("gradient of a scaled term")?;
            device.scale_add(1.0, &kept_eps, g, None, &grad)?;
            sink.give(1, grad)?;
        }
        sink.lend(2, g)
    })
}

/// The first `rows` rows of `x`: the targets of a block among its sources. Nothing is copied.
///
/// # Errors
/// If there are fewer, or what the device reports.
pub fn head_rows(tape: &Tape, x: &Var, rows: usize) -> Result<Var, OpError> {
    let [all, cols] = x.shape();
    if rows > all {
        return Err(OpError::Argument {
            op: "head_rows",
            what: "the number of rows",
            got: rows.to_string(),
            expected: format!("at most {all}"),
        });
    }
    tape.record(x.tensor().head_rows(rows), &[x], move |g, sink| {
        let grad = g.zeros(all, cols, "gradient of the first rows")?;
        g.device().add_assign(g, &grad.head_rows(rows))?;
        sink.give(0, grad)
    })
}
