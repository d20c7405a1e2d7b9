//! Matrices side by side, and parts of them.

use std::ops::Range;

use super::{OpError, Tape, Var, error::expect};
use crate::backend::{Tensor, kernels::BlockCopy};

/// The columns `columns` of `x`.
///
/// # Errors
/// If `x` does not have them, or what the device reports.
pub fn column_range(tape: &Tape, x: &Var, columns: Range<usize>) -> Result<Var, OpError> {
    let [rows, cols] = x.shape();
    if columns.start > columns.end || columns.end > cols {
        return Err(OpError::Argument {
            op: "column_range",
            what: "the range",
            got: format!("{columns:?}"),
            expected: format!("one within 0..{cols}"),
        });
    }
    if columns == (0..cols) {
        return Ok(x.clone());
    }
    let (first, shape) = (columns.start, [rows, columns.len()]);
    let out = Tensor::uninit(tape.device(), rows, columns.len(), "range of columns")?;
    tape.device().copy_block(&BlockCopy { x: x.tensor(), from: [0, first], out: &out, to: [0, 0], shape })?;
    tape.record(out, &[x], move |g, sink| {
        let grad = Tensor::full(g.device(), rows, cols, 0.0, "gradient of a range of columns")?;
        g.device().copy_block(&BlockCopy { x: g, from: [0, 0], out: &grad, to: [0, first], shape })?;
        sink.give(0, grad)
    })
}

/// The matrices side by side: `[rows, sum of their columns]`.
///
/// # Errors
/// If there are none, if they differ in their rows, or what the device reports.
pub fn concat_columns(tape: &Tape, parts: &[&Var]) -> Result<Var, OpError> {
    let [first, rest @ ..] = parts else {
        return Err(OpError::Argument {
            op: "concat_columns",
            what: "the number of matrices",
            got: "0".into(),
            expected: "at least 1".into(),
        });
    };
    if rest.is_empty() {
        return Ok((*first).clone());
    }
    let rows = first.shape()[0];
    let widths: Vec<usize> = parts.iter().map(|part| part.shape()[1]).collect();
    let out = Tensor::uninit(tape.device(), rows, widths.iter().sum(), "matrices side by side")?;
    let mut at = 0;
    for (part, &width) in parts.iter().zip(&widths) {
        expect("concat_columns", "a matrix", part.tensor(), [rows, width])?;
        let (x, shape) = (part.tensor(), [rows, width]);
        tape.device().copy_block(&BlockCopy { x, from: [0, 0], out: &out, to: [0, at], shape })?;
        at += width;
    }
    tape.record(out, parts, move |g, sink| {
        let mut at = 0;
        for (i, &width) in widths.iter().enumerate() {
            if sink.wants(i) {
                let grad = Tensor::uninit(g.device(), rows, width, "gradient of a matrix beside others")?;
                let shape = [rows, width];
                g.device().copy_block(&BlockCopy { x: g, from: [0, at], out: &grad, to: [0, 0], shape })?;
                sink.give(i, grad)?;
            }
            at += width;
        }
        Ok(())
    })
}

/// Blocks of columns one below the other: from `[rows, blocks * C]` to `[blocks * rows, C]`.
///
/// # Errors
/// If the blocks do not divide the columns, or what the device reports.
pub fn stack_blocks(tape: &Tape, x: &Var, blocks: usize) -> Result<Var, OpError> {
    let [rows, columns] = x.shape();
    let cols = columns_of("stack_blocks", columns, blocks)?;
    let out = Tensor::uninit(tape.device(), blocks * rows, cols, "stacked blocks")?;
    let shape = [rows, cols];
    for b in 0..blocks {
        let (from, to) = ([0, b * cols], [b * rows, 0]);
        tape.device().copy_block(&BlockCopy { x: x.tensor(), from, out: &out, to, shape })?;
    }
    tape.record(out, &[x], move |g, sink| {
        let grad = Tensor::uninit(g.device(), rows, columns, "gradient of stacked blocks")?;
        for b in 0..blocks {
            let (from, to) = ([b * rows, 0], [0, b * cols]);
            g.device().copy_block(&BlockCopy { x: g, from, out: &grad, to, shape })?;
        }
        sink.give(0, grad)
    })
}

/// `out_ib = y_ib + weight_ib x_i` for every block `b` of columns; `x` is `[rows, C]`, `y` and `out` `[rows, blocks *
/// C]`, `weight` `[rows, blocks]`, which gets no gradient.
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn spread_blocks(tape: &Tape, y: &Var, x: &Var, weight: &Tensor) -> Result<Var, OpError> {
    let ([rows, cols], blocks) = (x.shape(), weight.cols());
    expect("spread_blocks", "the weights", weight, [rows, blocks])?;
    expect("spread_blocks", "y", y.tensor(), [rows, blocks * cols])?;
    let out = y.tensor().like("shifted blocks")?;
    tape.device().spread_blocks(x.tensor(), weight, Some(y.tensor()), &out)?;
    let weight = weight.clone();
    tape.record(out, &[y, x], move |g, sink| {
        if sink.wants(1) {
            let grad = Tensor::uninit(g.device(), rows, cols, "gradient of what blocks share")?;
            g.device().merge_blocks(g, &weight, None, &grad)?;
            sink.give(1, grad)?;
        }
        sink.lend(0, g)
    })
}

/// `out_i = y_i + sum over b of weight_ib x_ib` over blocks `b` of columns; `x` is `[rows, blocks * C]`, `y` and `out`
/// `[rows, C]`, `weight` `[rows, blocks]`, which gets no gradient.
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn merge_blocks(tape: &Tape, y: &Var, x: &Var, weight: &Tensor) -> Result<Var, OpError> {
    let ([rows, cols], blocks) = (y.shape(), weight.cols());
    expect("merge_blocks", "the weights", weight, [rows, blocks])?;
    expect("merge_blocks", "x", x.tensor(), [rows, blocks * cols])?;
    let out = y.tensor().like("weighted sum of blocks")?;
    tape.device().merge_blocks(x.tensor(), weight, Some(y.tensor()), &out)?;
    let weight = weight.clone();
    tape.record(out, &[y, x], move |g, sink| {
        if sink.wants(1) {
            let grad = Tensor::uninit(g.device(), rows, blocks * cols, "gradient of weighted blocks")?;
            g.device().spread_blocks(g, &weight, None, &grad)?;
            sink.give(1, grad)?;
        }
        sink.lend(0, g)
    })
}

/// Columns of a block, given those of all.
fn columns_of(op: &'static str, columns: usize, blocks: usize) -> Result<usize, OpError> {
    if blocks > 0 && columns.is_multiple_of(blocks) {
        return Ok(columns / blocks);
    }
    let expected = format!("a divisor of {columns} columns");
    Err(OpError::Argument { op, what: "the number of blocks", got: blocks.to_string(), expected })
}
