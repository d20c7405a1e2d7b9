//! CUDA C++ on NVIDIA GPUs.
//!
//! The driver, NVRTC and cuBLASLt are loaded when a device is opened, so that the crate builds on machines without CUDA. Kernels
//! stand in `cuda/`; each variant that is used is compiled for the device's own architecture and kept on disk. Everything runs in
//! the order of one stream, which is why memory can change hands while its last use is still only enqueued.

mod attention;
mod blas;
mod blocks;
mod cast;
mod clock;
mod compile;
mod driver;
mod elementwise;
#[cfg(feature = "cuda-emulation")]
mod emulation;
mod extreme;
mod gat;
mod gate;
mod gather;
mod gatv2;
mod gine;
mod graph;
mod heads;
mod linear;
mod norm;
mod optim;
mod reduce;
mod rows;
mod runtime;
mod sddmm;
mod softmax;
mod source;
mod spmm;
mod transformer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compile::Compiler;
pub use compile::{CompiledModule, KernelCache};
pub use cudarc;
use cudarc::driver::{CudaContext, CudaStream, sys};
use driver::{Driver, failed};
use rayon::prelude::*;
use runtime::{DevicePtr, Grid, Runtime};
use source::Module;

use super::{
    Backend, BackendError, Buffer, DType, DeviceInfo, DeviceKind, Indices, Memory, MemoryStats, ReadFuture, Recording,
    Replay, Tensor,
    kernels::Family,
    pool::{Pool, Pooled},
};
use crate::plan::Capabilities;

/// Which device to take, and how.
#[derive(Clone, Debug, Default)]
pub struct CudaOptions {
    /// The number of the device, in the driver's order.
    pub device: usize,
    /// Let dense products round their 32-bit factors to TF32, which Tensor Cores multiply: about three digits instead of seven.
    pub tf32: bool,
    /// Where compiled kernels are kept.
    pub cache: KernelCache,
}

/// A CUDA device.
#[derive(Debug)]
pub struct CudaBackend {
    info: DeviceInfo,
    capabilities: Capabilities,
    /// Before the runtime, so that memory goes back first.
    pool: Arc<Pool<DeviceMemory>>,
    runtime: Arc<dyn Runtime>,
    stream: Option<Arc<CudaStream>>,
}

/// Memory of the device, freed when dropped.
#[derive(Debug)]
struct DeviceMemory {
    at: DevicePtr,
    runtime: Arc<dyn Runtime>,
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.runtime.free(self.at);
    }
}

/// Recorded launches, and the memory that they use.
#[derive(Debug)]
struct RecordedStep {
    commands: Box<dyn Replay>,
    memory: Mutex<RecordedMemory>,
    pool: Arc<Pool<DeviceMemory>>,
}

/// Memory that recorded commands name and nobody holds.
#[derive(Debug)]
enum RecordedMemory {
    Held(Vec<Pooled<DeviceMemory>>),
    /// Sizes and addresses of what the pool hands out to others.
    Lent(Vec<(u64, DevicePtr)>),
}

impl RecordedStep {
    fn memory(&self) -> MutexGuard<'_, RecordedMemory> {
        // It is consistent after every statement.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replay for RecordedStep {
    fn replay(&self) -> Result<(), BackendError> {
        if !self.take_memory_back() {
            let reason = "memory of the recorded commands is in use: drop what was computed since, or record again";
            return Err(BackendError::Driver(reason.into()));
        }
        self.commands.replay()
    }

    fn lend_memory(&self) {
        let mut memory = self.memory();
        if let RecordedMemory::Held(held) = &*memory {
            // The pieces return to the pool as they are dropped.
            *memory = RecordedMemory::Lent(held.iter().map(|piece| (piece.bytes(), piece.at)).collect());
        }
    }

    fn take_memory_back(&self) -> bool {
        let mut memory = self.memory();
        if let RecordedMemory::Lent(lent) = &*memory {
            match self.pool.take_back(lent, |piece| piece.at) {
                Some(back) => *memory = RecordedMemory::Held(back),
                None => return false,
            }
        }
        true
    }
}

/// What stands behind a [`Buffer`].
#[derive(Debug)]
enum CudaBuffer {
    Pooled(Pooled<DeviceMemory>),
    /// The application's own.
    Borrowed(DevicePtr),
}

impl CudaBackend {
    /// Opens a device.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the driver, NVRTC or the device is missing, or the driver is too old.
    pub fn new(options: &CudaOptions) -> Result<Self, BackendError> {
        check_driver()?;
        let count = CudaContext::device_count().map_err(unavailable)?;
        if options.device >= count as usize {
            return Err(BackendError::Unavailable {
                backend: "cuda",
                reason: format!("device {} was asked for, the driver knows {count}", options.device),
                remedy: "count from 0, or use another backend",
            });
        }
        let context = CudaContext::new(options.device).map_err(unavailable)?;
        let stream = context.new_stream().map_err(unavailable)?;
        Self::from_stream(stream, options)
    }

    /// Runs on a stream of the application's own, in its context. Work that the application enqueues there before and after is in order
    /// with this crate's.
    ///
    /// # Errors
    /// As [`CudaBackend::new`].
    pub fn from_stream(stream: Arc<CudaStream>, options: &CudaOptions) -> Result<Self, BackendError> {
        check_driver()?;
        let context = stream.context();
        context.bind_to_thread().map_err(unavailable)?;
        let (major, minor) = context.compute_capability().map_err(unavailable)?;
        // The instructions of one architecture alone have a name of their own from Hopper on.
        let architecture = format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" });
        let compiler = Compiler::new(architecture.clone(), &options.cache)?;
        let attribute = |which| context.attribute(which).map_err(unavailable);
        let processors = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let threads = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
        let memory = context.total_mem().map_err(unavailable)?;
        let version = driver_version()?;
        let info = DeviceInfo {
            backend: "cuda",
            name: context.name().map_err(unavailable)?,
            kind: DeviceKind::DiscreteGpu,
            driver: format!("CUDA {}.{}, {architecture}", version / 1000, version % 1000 / 10),
            subgroup_sizes: Some([32, 32]),
        };
        let capabilities = Capabilities {
            max_binding_bytes: memory as u64,
            max_buffer_bytes: memory as u64,
            workgroup_size: 256,
            concurrent_workgroups: (processors * threads / 256) as u32,
        };
        tracing::debug!(name = info.name, driver = info.driver, "opened a CUDA device");
        let runtime = Arc::new(Driver::new(stream.clone(), compiler, options.tf32));
        Ok(Self { info, capabilities, pool: Pool::new(), runtime, stream: Some(stream) })
    }

    /// The stream that everything is enqueued on.
    ///
    /// # Panics
    /// Never on a real device.
    pub fn stream(&self) -> Option<&Arc<CudaStream>> {
        self.stream.as_ref()
    }

    /// Device memory of the application's own as a buffer: tensors over it read and write that memory.
    ///
    /// # Safety
    /// `address` is device memory of this context, aligned to 16 bytes, large enough for the tensors made of it, and outlives the
    /// buffer and all work enqueued on it.
    pub unsafe fn wrap(&self, address: u64) -> Buffer {
        Buffer::new(CudaBuffer::Borrowed(address))
    }

    /// The address behind a tensor's memory, for kernels of the application's own on [`CudaBackend::stream`].
    pub fn address(&self, buffer: &Buffer) -> Option<u64> {
        buffer.downcast_ref::<CudaBuffer>().map(CudaBuffer::at)
    }

    /// The address of a buffer of this device.
    fn at(&self, buffer: &Buffer) -> Result<DevicePtr, BackendError> {
        self.address(buffer).ok_or(BackendError::WrongDevice("a CUDA kernel"))
    }

    fn tensor(&self, tensor: &Tensor) -> Result<DevicePtr, BackendError> {
        self.at(tensor.buffer())
    }

    /// 0 for none.
    fn maybe_tensor(&self, tensor: Option<&Tensor>) -> Result<DevicePtr, BackendError> {
        tensor.map_or(Ok(0), |t| self.tensor(t))
    }

    fn indices(&self, indices: &Indices) -> Result<DevicePtr, BackendError> {
        self.at(indices.buffer())
    }

    /// Enqueues a kernel; nothing if there are no blocks.
    ///
    /// # Safety
    /// `arguments` is the kernel's own struct, and its pointers and sizes are valid.
    unsafe fn launch(
        &self,
        module: &Module,
        entry: &'static str,
        grid: Grid,
        arguments: &impl bytemuck::NoUninit,
    ) -> Result<(), BackendError> {
        if grid.blocks == 0 {
            return Ok(());
        }
        debug_assert!(modules().contains(module), "{} is not in the list of its family", module.label());
        // SAFETY: the caller's promise.
        unsafe { self.runtime.launch(module, entry, grid, bytemuck::bytes_of(arguments)) }
    }
}

impl CudaBuffer {
    fn at(&self) -> DevicePtr {
        match self {
            Self::Pooled(memory) => memory.at,
            Self::Borrowed(at) => *at,
        }
    }
}

/// The devices of the driver, in its order.
///
/// # Errors
/// [`BackendError::Unavailable`] with what is missing: the driver, a GPU, or NVRTC.
pub fn devices() -> Result<Vec<DeviceInfo>, BackendError> {
    check_driver()?;
    let count = CudaContext::device_count().map_err(unavailable)?;
    (0..count as usize)
        .map(|device| CudaBackend::new(&CudaOptions { device, ..Default::default() }).map(|backend| backend.info))
        .collect()
}

/// Every module that the host may ask for.
fn modules() -> Vec<Module> {
    [
        blocks::modules(),
        cast::modules(),
        clock::modules(),
        elementwise::modules(),
        extreme::modules(),
        gat::modules(),
        gate::modules(),
        gather::modules(),
        gatv2::modules(),
        gine::modules(),
        heads::modules(),
        linear::modules(),
        norm::modules(),
        optim::modules(),
        reduce::modules(),
        rows::modules(),
        sddmm::modules(),
        softmax::modules(),
        spmm::modules(),
        transformer::modules(),
    ]
    .concat()
}

/// Compiles every kernel that the host may ask for, for an architecture such as `sm_90a`; no GPU is needed. `each` is told of every module, with
/// its code and what the assembler says of registers and spills.
///
/// # Errors
/// [`BackendError::Unavailable`] without NVRTC, [`BackendError::Driver`] for a kernel that it refuses.
pub fn compile_all(architecture: &str, mut each: impl FnMut(CompiledModule)) -> Result<(), BackendError> {
    let compiler = Compiler::new(architecture.into(), &KernelCache::Off)?;
    let compile = |module: &Module| compiler.compile(module.label(), &module.text());
    let compiled: Result<Vec<_>, _> = modules().par_iter().map(compile).collect();
    compiled?.into_iter().for_each(&mut each);
    Ok(())
}

/// `DTYPE` of `cuda/common.cuh`.
fn dtype_code(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::BF16 => 2,
    }
}

/// Numbers in 16 bytes: `CHUNK` of `cuda/common.cuh`.
const fn chunk_of(dtype: DType) -> usize {
    4 * dtype.per_word()
}

/// Everything that features may be stored as.
const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Blocks of `threads` threads for `work` threads.
fn blocks_for(work: u64, threads: u32) -> Result<Grid, BackendError> {
    let blocks = work.div_ceil(u64::from(threads));
    let limit = i32::MAX as u64;
    let blocks =
        u32::try_from(blocks).ok().filter(|&b| u64::from(b) <= limit).ok_or_else(|| BackendError::TooLarge {
            what: format!("a launch of {work} threads"),
            requested: blocks,
            limit,
            remedy: "use a smaller graph or hidden size",
        })?;
    Ok(Grid { blocks, threads, shared: 0 })
}

/// Whether there is a driver that this crate can use.
fn check_driver() -> Result<(), BackendError> {
    // SAFETY: it only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(BackendError::Unavailable {
            backend: "cuda",
            reason: "the NVIDIA driver's library was not found".into(),
            remedy: "install the NVIDIA driver, or use the wgpu or cpu backend",
        });
    }
    let version = driver_version()?;
    if version < 12_000 {
        return Err(BackendError::Unavailable {
            backend: "cuda",
            reason: format!("the driver supports CUDA {}.{}, 12.0 is needed", version / 1000, version % 1000 / 10),
            remedy: "update the NVIDIA driver, or use the wgpu backend",
        });
    }
    Ok(())
}

/// `13000` for CUDA 13.0.
fn driver_version() -> Result<i32, BackendError> {
    let mut version = 0;
    // SAFETY: the pointer is valid.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed)?;
    Ok(version)
}

fn unavailable(error: cudarc::driver::DriverError) -> BackendError {
    BackendError::Unavailable {
        backend: "cuda",
        reason: error.to_string(),
        remedy: "check that nvidia-smi lists the GPU, or use the wgpu or cpu backend",
    }
}

impl Backend for CudaBackend {
    fn takes(&self, family: Family, _dtype: DType, aligned: bool) -> bool {
        // Single columns are scales and scores, few and narrow; dense products would round their 32-bit weights to halves.
        aligned
            && matches!(
                family,
                Family::Elementwise
                    | Family::Gat
                    | Family::Gather
                    | Family::Gatv2
                    | Family::Reduce
                    | Family::Spmm
                    | Family::Transformer
            )
    }
}

impl Memory for CudaBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn allocate(&self, words: usize, label: &'static str) -> Result<Buffer, BackendError> {
        let bytes = Pool::<DeviceMemory>::size_class(words as u64 * 4);
        let make = || {
            let at = self.runtime.allocate(bytes, label)?;
            Ok(DeviceMemory { at, runtime: self.runtime.clone() })
        };
        let memory = match self.pool.take(bytes, make) {
            Err(BackendError::OutOfMemory { .. }) => {
                // Memory kept for other sizes may make room.
                self.pool.trim();
                self.pool.take(bytes, make).map_err(|error| match error {
                    BackendError::OutOfMemory { what, requested, .. } => {
                        BackendError::OutOfMemory { what, requested, in_use: self.pool.stats().in_use }
                    }
                    other => other,
                })
            }
            other => other,
        }?;
        Ok(Buffer::new(CudaBuffer::Pooled(memory)))
    }

    fn write(&self, buffer: &Buffer, words: &[u32]) -> Result<(), BackendError> {
        self.runtime.upload(self.at(buffer)?, words)
    }

    fn fill(&self, buffer: &Buffer, words: usize, value: u32) -> Result<(), BackendError> {
        self.runtime.fill(self.at(buffer)?, words, value)
    }

    fn read<'a>(&'a self, buffer: &Buffer, words: usize) -> ReadFuture<'a> {
        let copy = self.at(buffer).and_then(|at| {
            let mut copy = vec![0; words];
            self.runtime.download(at, &mut copy)?;
            Ok(copy)
        });
        Box::pin(std::future::ready(copy))
    }

    fn flush(&self) -> Result<(), BackendError> {
        // Launches are with the driver already.
        Ok(())
    }

    fn begin_recording(&self) -> Result<bool, BackendError> {
        let begun = self.runtime.begin_recording()?;
        self.pool.set_recording(begun);
        Ok(begun)
    }

    fn end_recording(&self) -> Result<Recording, BackendError> {
        self.pool.set_recording(false);
        let commands = self.runtime.end_recording()?;
        // The commands name memory that went back to the pool meanwhile: it must not be handed out to others.
        let memory = Mutex::new(RecordedMemory::Held(self.pool.take_free()));
        Ok(Recording::new(RecordedStep { commands, memory, pool: self.pool.clone() }))
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn reset_peak(&self) {
        self.pool.reset_peak();
    }

    fn read_clock(&self) -> Result<Option<(Buffer, f64)>, BackendError> {
        self.clock().map(Some)
    }
}
