use crate::{
    backend::{BackendError, Tensor},
    graph::GraphError,
};

/// What can be wrong with the arguments of an operation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// A tensor has the wrong shape.
    #[error("{op}: {what} is [{}, {}], expected [{}, {}]", got[0], got[1], expected[0], expected[1])]
    Shape {
        /// The operation.
        op: &'static str,
        /// The tensor.
        what: &'static str,
        /// Its shape.
        got: [usize; 2],
        /// The shape it must have.
        expected: [usize; 2],
    },
    /// A number is out of its range.
    #[error("{op}: {what} is {got}, expected {expected}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// The argument.
        what: &'static str,
        /// Its value.
        got: String,
        /// What it may be.
        expected: String,
    },
    /// The device reports an error.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A graph could not be derived.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Checks a tensor's shape.
pub(super) fn expect(
    op: &'static str,
    what: &'static str,
    tensor: &Tensor,
    expected: [usize; 2],
) -> Result<(), OpError> {
    if tensor.shape() == expected {
        return Ok(());
    }
    Err(OpError::Shape { op, what, got: tensor.shape(), expected })
}
