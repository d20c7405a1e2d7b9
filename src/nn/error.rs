use crate::{backend::BackendError, graph::GraphError, ops::OpError};

/// What can go wrong with layers, models and their files.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NnError {
    /// A layer or model was asked for something that it is not made for.
    #[error("{what} is {got}, expected {expected}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// Its value.
        got: String,
        /// What it may be.
        expected: String,
    },
    /// A file of weights cannot be written.
    #[error("{path}: cannot write the weights: {reason}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// A file of weights cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The weights of another model.
    #[error("{path} holds the weights of another model: {reason}")]
    OtherModel {
        /// The file.
        path: String,
        /// The first difference.
        reason: String,
    },
    /// An operation refuses its arguments or the device reports an error.
    #[error(transparent)]
    Op(#[from] OpError),
}

impl From<BackendError> for NnError {
    fn from(error: BackendError) -> Self {
        Self::Op(error.into())
    }
}

impl From<GraphError> for NnError {
    fn from(error: GraphError) -> Self {
        Self::Op(error.into())
    }
}
