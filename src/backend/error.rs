/// What can go wrong on a device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend, its driver or a device is not there.
    #[error("no {backend} device: {reason}; {remedy}")]
    Unavailable {
        /// The backend asked for.
        backend: &'static str,
        /// What was found instead.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Something is larger than the device's limit allows.
    #[error("{what} needs {requested} bytes, but the device's limit is {limit}: {remedy}")]
    TooLarge {
        /// What was to be placed.
        what: String,
        /// Bytes needed.
        requested: u64,
        /// The limit in bytes.
        limit: u64,
        /// The way out.
        remedy: &'static str,
    },
    /// The device's memory is used up.
    #[error(
        "out of memory: {requested} bytes for {what} on top of {in_use} in use; use a smaller hidden size or graph, or another device"
    )]
    OutOfMemory {
        /// What was to be allocated.
        what: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes that live tensors hold.
        in_use: u64,
    },
    /// The device went away; everything on it is lost.
    #[error("the device was lost: {reason}; make a new device and load the last checkpoint")]
    DeviceLost {
        /// What the driver says.
        reason: String,
    },
    /// The driver refused a command.
    #[error("the driver reports: {0}")]
    Driver(String),
    /// A tensor does not fit the others that a kernel was given.
    #[error("{kernel}: {what} is [{}, {}], expected [{}, {}]", got[0], got[1], expected[0], expected[1])]
    Shape {
        /// The kernel.
        kernel: &'static str,
        /// The tensor.
        what: &'static str,
        /// Its shape.
        got: [usize; 2],
        /// The shape it must have.
        expected: [usize; 2],
    },
    /// A tensor is not stored as the others that a kernel was given, or as the kernel needs it.
    #[error("{kernel}: {what} is stored as {got}, expected {expected}; convert it with to_dtype")]
    DType {
        /// The kernel.
        kernel: &'static str,
        /// The tensor.
        what: &'static str,
        /// How it is stored.
        got: super::DType,
        /// How it must be stored.
        expected: super::DType,
    },
    /// A number is out of its range.
    #[error("{kernel}: {what} is {got}, expected {expected}")]
    Argument {
        /// The kernel.
        kernel: &'static str,
        /// The argument.
        what: &'static str,
        /// Its value.
        got: String,
        /// What it may be.
        expected: String,
    },
    /// A graph could not be derived.
    #[error(transparent)]
    Graph(#[from] crate::graph::GraphError),
    /// A kernel was asked to write what it reads.
    #[error("{0}: the output shares its buffer with an input; give it a buffer of its own")]
    Aliased(&'static str),
    /// A tensor of one device was given to another.
    #[error(
        "a buffer of another device was given to {0}: move the data with Tensor::to_matrix and Tensor::from_matrix"
    )]
    WrongDevice(&'static str),
}
