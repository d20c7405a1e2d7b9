use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc};

use super::{BackendError, DType, cpu::CpuBackend, kernels};
use crate::plan::Capabilities;

/// The words of a buffer, on their way from the device.
pub type ReadFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<u32>, BackendError>> + Send + 'a>>;

/// What a device implementation provides: memory, and every kernel family.
///
/// Kernels trust their arguments: that is why their methods are unsafe. [`Device`] has a checked method for each.
pub trait Backend:
    Memory
    + kernels::BlockKernels
    + kernels::CastKernels
    + kernels::ElementwiseKernels
    + kernels::GatKernels
    + kernels::GateKernels
    + kernels::GatherKernels
    + kernels::Gatv2Kernels
    + kernels::GineKernels
    + kernels::HeadKernels
    + kernels::LinearKernels
    + kernels::LossKernels
    + kernels::NormKernels
    + kernels::OptimKernels
    + kernels::ReduceKernels
    + kernels::RowKernels
    + kernels::SddmmKernels
    + kernels::SoftmaxKernels
    + kernels::SpmmKernels
    + kernels::TransformerKernels
{
    /// Whether the kernels of `family` take features stored as `dtype`, a half; `aligned` is whether the heads, and rows of
    /// more than one column, begin at multiples of four numbers. What a backend does not take is widened to 32 bits
    /// before its kernels see it.
    fn takes(&self, family: kernels::Family, dtype: DType, aligned: bool) -> bool {
        let _ = (family, dtype, aligned);
        false
    }
}

/// Buffers of 32-bit words, and the queue of commands.
pub trait Memory: fmt::Debug + Send + Sync + 'static {
    /// Who this device is.
    fn info(&self) -> &DeviceInfo;

    /// What the planner needs to know.
    fn capabilities(&self) -> &Capabilities;

    /// A buffer of at least `words` 32-bit words with undefined contents, from the pool where one fits. Dropping the last clone gives it back.
    ///
    /// # Errors
    /// [`BackendError::TooLarge`] past the device's limit, [`BackendError::OutOfMemory`] when there is no room.
    fn allocate(&self, words: usize, label: &'static str) -> Result<Buffer, BackendError>;

    /// Copies `words` to the start of `buffer`.
    ///
    /// # Errors
    /// If the buffer is of another device or the device is lost.
    fn write(&self, buffer: &Buffer, words: &[u32]) -> Result<(), BackendError>;

    /// Sets the first `words` words of `buffer` to `value`.
    ///
    /// # Errors
    /// As [`Memory::write`].
    fn fill(&self, buffer: &Buffer, words: usize, value: u32) -> Result<(), BackendError>;

    /// Reads the first `words` words of `buffer` after everything enqueued so far.
    fn read<'a>(&'a self, buffer: &Buffer, words: usize) -> ReadFuture<'a>;

    /// Hands the commands recorded so far to the device, as one submission. Reading back does so by itself.
    ///
    /// # Errors
    /// What the driver has reported since the last call.
    fn flush(&self) -> Result<(), BackendError>;

    /// Starts to record what is enqueued, instead of running it; `false` where the device cannot, and everything goes on as before.
    /// Copies to and from the device are errors until the end. One thread records, and no other may use the device meanwhile.
    ///
    /// # Errors
    /// What the device reports.
    fn begin_recording(&self) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Ends what [`Memory::begin_recording`] began. The recording keeps the memory that the commands use and nobody holds any more.
    ///
    /// # Errors
    /// What the device reports; nothing is recorded then.
    fn end_recording(&self) -> Result<Recording, BackendError> {
        Err(BackendError::Driver(format!("{} devices do not record", self.info().backend)))
    }

    /// How much memory is in use.
    fn memory(&self) -> MemoryStats;

    /// Lets [`MemoryStats::peak`] count from now on.
    fn reset_peak(&self);

    /// Enqueues a look at the device's clock: a buffer whose first two words, the lower one first, are its ticks when
    /// everything enqueued before is done, and the seconds of a tick. `None` where it has no clock that can be read so.
    ///
    /// # Errors
    /// If there is no room, or what the device reports.
    fn read_clock(&self) -> Result<Option<(Buffer, f64)>, BackendError> {
        Ok(None)
    }
}

/// Commands that were recorded, to be enqueued again as often as is wanted.
///
/// Tensors that were alive when the recording ended hold the results of the last replay, as long as they are kept.
#[derive(Debug)]
pub struct Recording(Box<dyn Replay>);

/// What a backend keeps for a [`Recording`].
pub trait Replay: fmt::Debug + Send + Sync {
    /// Enqueues the commands.
    ///
    /// # Errors
    /// If memory that was lent is not back, or what the device reports.
    fn replay(&self) -> Result<(), BackendError>;

    /// See [`Recording::lend_memory`].
    fn lend_memory(&self) {}

    /// See [`Recording::take_memory_back`].
    fn take_memory_back(&self) -> bool {
        true
    }
}

impl Recording {
    /// Wraps what a backend keeps.
    pub fn new(commands: impl Replay + 'static) -> Self {
        Self(Box::new(commands))
    }

    /// Enqueues the commands.
    ///
    /// # Errors
    /// If memory that was lent is not back, or what the device reports.
    pub fn replay(&self) -> Result<(), BackendError> {
        self.0.replay()
    }

    /// Lets others have the memory that only the commands use, until the next replay: nothing in it outlasts one.
    pub fn lend_memory(&self) {
        self.0.lend_memory();
    }

    /// Takes back what was lent. `false` if somebody has some of it still: then the commands cannot be replayed now, and
    /// if it was freed, never.
    #[must_use]
    pub fn take_memory_back(&self) -> bool {
        self.0.take_memory_back()
    }
}

/// The kind of a device, in the order in which an automatic choice prefers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A graphics card of its own.
    DiscreteGpu,
    /// A GPU that shares the processor's memory.
    IntegratedGpu,
    /// A GPU handed to a virtual machine, or one that does not say what it is.
    VirtualGpu,
    /// A processor, or a driver that runs shaders on one.
    Cpu,
}

/// Who a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `cpu`, `wgpu`, `cuda`.
    pub backend: &'static str,
    /// The device's name.
    pub name: String,
    /// What kind of device it is.
    pub kind: DeviceKind,
    /// The interface and driver, with version.
    pub driver: String,
    /// The smallest and the largest number of threads that run in step and exchange values; `None` where there are no
    /// such subgroups.
    pub subgroup_sizes: Option<[u32; 2]>,
}

/// Memory in use on a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Held by live buffers.
    pub in_use: u64,
    /// The largest value of `in_use` so far, or since the last [`Memory::reset_peak`].
    pub peak: u64,
    /// Taken from the system: `in_use` and what the pool keeps for reuse.
    pub reserved: u64,
    /// How many times memory was taken from the system.
    pub allocations: u64,
}

/// A shared handle to device memory; what it holds is the backend's own business.
#[derive(Clone)]
pub struct Buffer(Arc<dyn Any + Send + Sync>);

impl Buffer {
    /// Wraps what a backend keeps for a buffer.
    pub fn new(inner: impl Any + Send + Sync) -> Self {
        Self(Arc::new(inner))
    }

    /// What the backend keeps, if it is a `T`.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Whether this is the only handle, so that nobody else can tell when the contents change.
    pub(crate) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether both handles mean the same memory.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:p})", Arc::as_ptr(&self.0))
    }
}

/// A device that tensors live on. Clones are the same device.
#[derive(Clone, Debug)]
pub struct Device(Arc<dyn Backend>);

impl Device {
    /// Wraps an implementation.
    pub fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }

    /// The processor: the twin of every kernel in plain Rust, on all cores.
    pub fn cpu() -> Self {
        Self::new(CpuBackend::new())
    }

    /// The best GPU that wgpu finds, hardware before software.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if there is none.
    #[cfg(feature = "wgpu")]
    pub async fn wgpu() -> Result<Self, BackendError> {
        Ok(Self::new(super::wgpu::WgpuBackend::new(&super::wgpu::WgpuOptions::default()).await?))
    }

    /// The first CUDA device.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the driver, NVRTC or a GPU is missing.
    #[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
    pub fn cuda() -> Result<Self, BackendError> {
        Ok(Self::new(super::cuda::CudaBackend::new(&super::cuda::CudaOptions::default())?))
    }

    /// The best device there is: CUDA, else a hardware GPU through wgpu, else the processor.
    pub async fn auto() -> Self {
        #[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
        match Self::cuda() {
            Ok(device) => return device,
            Err(error) => tracing::debug!(%error, "no CUDA device"),
        }
        #[cfg(feature = "wgpu")]
        {
            let options = super::wgpu::WgpuOptions { hardware_only: true, ..Default::default() };
            match super::wgpu::WgpuBackend::new(&options).await {
                Ok(backend) => return Self::new(backend),
                Err(error) => tracing::debug!(%error, "no hardware GPU, using the processor"),
            }
        }
        Self::cpu()
    }

    /// See [`Memory::begin_recording`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn begin_recording(&self) -> Result<bool, BackendError> {
        self.0.begin_recording()
    }

    /// See [`Memory::end_recording`].
    ///
    /// # Errors
    /// What the device reports; nothing is recorded then.
    pub fn end_recording(&self) -> Result<Recording, BackendError> {
        self.0.end_recording()
    }

    /// The implementation.
    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.0
    }

    /// Whether both are the same device.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
