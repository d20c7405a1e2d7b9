use std::{fmt, process::ExitCode};

use hopwise::{backend::BackendError, data::DataError, graph::GraphError, nn::NnError, ops::OpError};

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments do not go together, or do not fit the data.
    Usage(String),
    /// The input is not what it should be.
    Data(String),
    /// The device is not there.
    Device(String),
    /// Something failed on the way.
    Run(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Run(_) => 1,
            Self::Usage(_) => 2,
            Self::Data(_) => 3,
            Self::Device(_) => 4,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(message) | Self::Data(message) | Self::Device(message) | Self::Run(message)) = self;
        f.write_str(message)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Self::Data(error.to_string())
    }
}

impl From<GraphError> for Failure {
    fn from(error: GraphError) -> Self {
        Self::Data(error.to_string())
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Unavailable { .. } => Self::Device(error.to_string()),
            other => Self::Run(other.to_string()),
        }
    }
}

impl From<NnError> for Failure {
    fn from(error: NnError) -> Self {
        match error {
            NnError::Op(OpError::Backend(error)) => error.into(),
            NnError::Op(OpError::Graph(error)) => error.into(),
            NnError::File { .. } | NnError::OtherModel { .. } => Self::Data(error.to_string()),
            NnError::Argument { .. } => Self::Usage(error.to_string()),
            NnError::Write { .. } => Self::Run(error.to_string()),
            other => Self::Run(other.to_string()),
        }
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Self {
        NnError::from(error).into()
    }
}
