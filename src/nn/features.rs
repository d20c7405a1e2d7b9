use std::sync::Arc;

use super::NnError;
use crate::{
    backend::{BackendError, DType, Device, DeviceGraph, Tensor},
    graph::Graph,
    matrix::{Matrix, SparseMatrix},
    ops::{self, OpError, Tape, Var},
};

/// Node features on a device, one row a node. Mostly-zero ones stay sparse: the first product of a model then costs as much as there are entries.
#[derive(Clone, Debug)]
pub enum FeatureInput {
    /// Every entry.
    Dense(Tensor),
    /// Stored entries only.
    Sparse {
        /// Rows are nodes, columns features.
        pattern: DeviceGraph,
        /// The entries, `[entries, 1]`, in 32 bits.
        values: Tensor,
        /// How what a layer makes of them is stored.
        dtype: DType,
    },
}

/// Node features on a tape.
#[derive(Clone, Debug)]
pub enum Features {
    /// `[nodes, width]`.
    Dense(Var),
    /// A sparse matrix.
    Sparse {
        /// Rows are nodes, columns features.
        pattern: DeviceGraph,
        /// The entries, `[entries, 1]`, in 32 bits.
        values: Var,
        /// How what a layer makes of them is stored.
        dtype: DType,
    },
}

impl FeatureInput {
    /// Brings a dense matrix to a device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn dense(device: &Device, matrix: &Matrix) -> Result<Self, BackendError> {
        Ok(Self::Dense(Tensor::from_matrix(device, matrix, "features")?))
    }

    /// Brings a sparse matrix to a device.
    ///
    /// # Errors
    /// If the matrix is too large, or what the device reports.
    pub fn sparse(device: &Device, matrix: &SparseMatrix) -> Result<Self, NnError> {
        let columns = u32::try_from(matrix.cols()).map_err(|_| NnError::Argument {
            what: "the number of features",
            got: matrix.cols().to_string(),
            expected: format!("at most {}", u32::MAX),
        })?;
        let pattern = Graph::from_csr(columns, matrix.offsets().to_vec(), matrix.indices().to_vec())?;
        Ok(Self::Sparse {
            pattern: DeviceGraph::new(device, Arc::new(pattern)),
            values: Tensor::from_column(device, matrix.values(), "feature entries")?,
            dtype: DType::F32,
        })
    }

    /// The features on a tape, without a gradient.
    pub fn on(&self, tape: &Tape) -> Features {
        match self {
            Self::Dense(x) => Features::Dense(tape.constant(x)),
            Self::Sparse { pattern, values, dtype } => {
                Features::Sparse { pattern: pattern.clone(), values: tape.constant(values), dtype: *dtype }
            }
        }
    }

    /// The features stored as `dtype`, so that a model computes in it. Sparse ones stay as they are, and what is made of
    /// them is rounded.
    ///
    /// # Errors
    /// What the device reports.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self, BackendError> {
        Ok(match self {
            Self::Dense(x) => Self::Dense(x.to_dtype(dtype, "features")?),
            Self::Sparse { pattern, values, .. } => {
                Self::Sparse { pattern: pattern.clone(), values: values.clone(), dtype }
            }
        })
    }

    /// `[nodes, width]`.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Dense(x) => x.shape(),
            Self::Sparse { pattern, .. } => [pattern.num_dst(), pattern.num_src()],
        }
    }
}

impl Features {
    /// `[nodes, width]`.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Dense(x) => x.shape(),
            Self::Sparse { pattern, .. } => [pattern.num_dst(), pattern.num_src()],
        }
    }

    /// Dropout of the entries, see [`ops::dropout()`]; sparse and dense forms of one matrix lose the same ones.
    ///
    /// # Errors
    /// As [`ops::dropout()`].
    pub fn dropout(&self, tape: &Tape, p: f32) -> Result<Self, OpError> {
        Ok(match self {
            Self::Dense(x) => Self::Dense(ops::dropout(tape, x, p)?),
            Self::Sparse { pattern, values, dtype } => Self::Sparse {
                pattern: pattern.clone(),
                values: ops::dropout_sparse(tape, pattern, values, p)?,
                dtype: *dtype,
            },
        })
    }

    /// As [`FeatureInput::to_dtype`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn to_dtype(&self, tape: &Tape, dtype: DType) -> Result<Self, OpError> {
        Ok(match self {
            Self::Dense(x) => Self::Dense(ops::to_dtype(tape, x, dtype)?),
            Self::Sparse { pattern, values, .. } => {
                Self::Sparse { pattern: pattern.clone(), values: values.clone(), dtype }
            }
        })
    }

    /// The dense form, `[nodes, width]`.
    ///
    /// # Errors
    /// [`NnError::Argument`] if the features are sparse: layers that are not linear in them need every entry.
    pub fn dense(&self, layer: &'static str) -> Result<&Var, NnError> {
        match self {
            Self::Dense(x) => Ok(x),
            Self::Sparse { .. } => Err(NnError::Argument {
                what: layer,
                got: "given sparse features".into(),
                expected: "dense ones (SparseMatrix::to_dense)".into(),
            }),
        }
    }
}

impl From<Var> for Features {
    fn from(x: Var) -> Self {
        Self::Dense(x)
    }
}
