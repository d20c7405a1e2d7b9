use std::{io, path::PathBuf};

use crate::{MatrixError, graph::GraphError};

/// Why a data set cannot be read or written. `path` is the file, or the name of a data set that is in memory only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The system refused to read or write.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such file.
    #[error("{} does not exist, nor do {looked_for}: check the path, or that the download is complete", path.display())]
    NotFound {
        /// What was asked for.
        path: PathBuf,
        /// The other names that were tried.
        looked_for: String,
    },
    /// A directory was named.
    #[error("{} is a directory: name a file in it, or what the names of a data set's files begin with, as in `planetoid/ind.cora`", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A file holds nothing.
    #[error("{} is empty: download or write it again", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file ends too early.
    #[error("{} is cut short or damaged ({detail}): download or copy it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What is missing.
        detail: String,
    },
    /// A file of a kind that no reader takes.
    #[error("{}: {reason}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do about it.
        reason: String,
    },
    /// A line of a text file is wrong.
    #[error("{}, line {line}: expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A place in a binary file is wrong.
    #[error("{}, byte {offset}: expected {expected}, found {found}", path.display())]
    Byte {
        /// The file.
        path: PathBuf,
        /// The place, counted from 0.
        offset: usize,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// Parts of a data set contradict each other.
    #[error("{}: {message}", path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// Which parts, with their numbers.
        message: String,
    },
    /// The edges do not form a graph.
    #[error("{}: {source}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: GraphError,
    },
    /// The features do not form a matrix.
    #[error("{}: {source}", path.display())]
    Matrix {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: MatrixError,
    },
}
