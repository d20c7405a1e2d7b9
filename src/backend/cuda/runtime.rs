use std::fmt;

use super::source::Module;
use crate::backend::{BackendError, DType, Replay};

/// An address in device memory; 0 where there is none.
pub(super) type DevicePtr = u64;

/// The blocks of a launch, and the bytes of dynamic shared memory that each asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) shared: u32,
}

/// What a kernel library must do: memory, copies and launches, all in one order.
///
/// There are two: the CUDA driver, and [`super::emulation`], which compiles the same kernels for the processor, so that
/// they are tested where there is no NVIDIA GPU.
pub(super) trait Runtime: fmt::Debug + Send + Sync {
    /// New device memory of `bytes` bytes, aligned to 256.
    ///
    /// # Errors
    /// [`BackendError::OutOfMemory`] if there is no room.
    fn allocate(&self, bytes: u64, label: &str) -> Result<DevicePtr, BackendError>;

    /// Gives memory back, after everything enqueued so far.
    fn free(&self, at: DevicePtr);

    /// Copies words to the device, in stream order.
    ///
    /// # Errors
    /// What the driver reports.
    fn upload(&self, to: DevicePtr, words: &[u32]) -> Result<(), BackendError>;

    /// Copies words from the device after everything enqueued so far, and waits.
    ///
    /// # Errors
    /// What the driver reports.
    fn download(&self, from: DevicePtr, words: &mut [u32]) -> Result<(), BackendError>;

    /// Sets words, in stream order.
    ///
    /// # Errors
    /// What the driver reports.
    fn fill(&self, at: DevicePtr, words: usize, value: u32) -> Result<(), BackendError>;

    /// Enqueues the kernel `entry` of a module, which is compiled on its first use. `arguments` are the bytes of the
    /// kernel's one parameter, a struct.
    ///
    /// # Safety
    /// The struct is the kernel's own, and its pointers and sizes are valid until the launch is done.
    ///
    /// # Errors
    /// What the compiler or the driver reports.
    unsafe fn launch(
        &self,
        module: &Module,
        entry: &'static str,
        grid: Grid,
        arguments: &[u8],
    ) -> Result<(), BackendError>;

    /// Enqueues a dense product, see [`Product`].
    ///
    /// # Safety
    /// Pointers and sizes are valid until the product is done.
    ///
    /// # Errors
    /// What the library reports.
    unsafe fn product(&self, product: &Product) -> Result<(), BackendError>;

    /// Starts to record launches; `false` where that cannot be.
    ///
    /// # Errors
    /// What the driver reports.
    fn begin_recording(&self) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Ends a recording.
    ///
    /// # Errors
    /// What the driver reports.
    fn end_recording(&self) -> Result<Box<dyn Replay>, BackendError> {
        Err(BackendError::Driver("nothing is being recorded".into()))
    }
}

/// A row-major matrix in device memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatrixAt {
    pub(super) at: DevicePtr,
    pub(super) dtype: DType,
    /// Elements from one row to the next.
    pub(super) stride: u64,
}

/// `out [m, n] = op(a) op(b) (+ bias) (+ out)`, `op` the transpose where asked; `op(a)` is `[m, k]`, `op(b)` `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) a: MatrixAt,
    pub(super) transpose_a: bool,
    pub(super) b: MatrixAt,
    pub(super) transpose_b: bool,
    pub(super) out: MatrixAt,
    /// One 32-bit float a column of `out`; 0 for none.
    pub(super) bias: DevicePtr,
    /// Whether the product is added to what `out` holds.
    pub(super) accumulate: bool,
}
