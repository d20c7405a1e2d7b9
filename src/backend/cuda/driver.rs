//! The CUDA driver: one stream of one context.

use std::{
    collections::HashMap,
    ffi::CString,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use cudarc::driver::{CudaContext, CudaGraph, CudaStream, DriverError, result, sys};

use super::{
    blas::Blas,
    compile::Compiler,
    runtime::{DevicePtr, Grid, Product, Runtime},
    source::Module,
};
use crate::backend::{BackendError, Replay};

/// A stream, and what was loaded for it.
#[derive(Debug)]
pub(super) struct Driver {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    compiler: Compiler,
    modules: Mutex<HashMap<Module, Loaded>>,
    blas: Mutex<Option<Blas>>,
    tf32: bool,
    recording: AtomicBool,
}

/// A module in the context, and the kernels that were asked for.
#[derive(Debug)]
struct Loaded {
    module: Raw<sys::CUmodule>,
    functions: HashMap<&'static str, Raw<sys::CUfunction>>,
}

/// A handle of the driver, which takes it from any thread that has bound the context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<T>(pub(super) T);

// SAFETY: the driver's handles are not tied to a thread.
unsafe impl<T> Send for Raw<T> {}

impl Driver {
    pub(super) fn new(stream: Arc<CudaStream>, compiler: Compiler, tf32: bool) -> Self {
        Self {
            context: stream.context().clone(),
            stream,
            compiler,
            modules: Mutex::new(HashMap::new()),
            blas: Mutex::new(None),
            tf32,
            recording: AtomicBool::new(false),
        }
    }

    /// A copy would be recorded with the host's memory, which is gone when it is replayed.
    fn not_while_recording(&self, what: &str) -> Result<(), BackendError> {
        if self.recording.load(Ordering::Relaxed) {
            return Err(BackendError::Driver(format!("{what} cannot be recorded: copy before or after")));
        }
        Ok(())
    }

    fn bind(&self) -> Result<(), BackendError> {
        self.context.bind_to_thread().map_err(failed)
    }

    fn function(&self, module: &Module, entry: &'static str) -> Result<sys::CUfunction, BackendError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.contains_key(module) {
            let cubin = self.compiler.cubin(module)?;
            // SAFETY: NVRTC made the image, and its hash was right if it comes from the cache.
            let raw = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.map_err(|error| {
                BackendError::Driver(format!(
                    "{error} while loading {}; the driver may be older than NVRTC: update it, or use its CUDA version's toolkit",
                    module.label()
                ))
            })?;
            modules.insert(module.clone(), Loaded { module: Raw(raw), functions: HashMap::new() });
        }
        let loaded = modules.get_mut(module).expect("it was just put there");
        if let Some(function) = loaded.functions.get(entry) {
            return Ok(function.0);
        }
        let name = CString::new(entry).expect("names of kernels hold no zero bytes");
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(loaded.module.0, name) }.map_err(failed)?;
        loaded.functions.insert(entry, Raw(function));
        Ok(function)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        _ = self.stream.synchronize();
        for loaded in self.modules.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            // SAFETY: nothing runs any more, and nobody else has the handle.
            _ = unsafe { result::module::unload(loaded.module.0) };
        }
    }
}

impl Runtime for Driver {
    fn allocate(&self, bytes: u64, label: &str) -> Result<DevicePtr, BackendError> {
        self.bind()?;
        // SAFETY: the context is bound; the memory is written before it is read, as everywhere in this crate.
        unsafe { result::malloc_sync(bytes as usize) }.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                BackendError::OutOfMemory { what: label.into(), requested: bytes, in_use: 0 }
            }
            _ => failed(error),
        })
    }

    fn free(&self, at: DevicePtr) {
        if self.bind().is_ok() {
            // SAFETY: `allocate` gave the address. The driver waits for the kernels that use it.
            _ = unsafe { result::free_sync(at) };
        }
    }

    fn upload(&self, to: DevicePtr, words: &[u32]) -> Result<(), BackendError> {
        if words.is_empty() {
            return Ok(());
        }
        self.not_while_recording("a copy to the device")?;
        self.bind()?;
        // SAFETY: the buffer has room, the caller has checked. Pageable memory is copied before the call returns.
        unsafe { result::memcpy_htod_async(to, words, self.stream.cu_stream()) }.map_err(failed)
    }

    fn download(&self, from: DevicePtr, words: &mut [u32]) -> Result<(), BackendError> {
        self.not_while_recording("a copy from the device")?;
        self.bind()?;
        if !words.is_empty() {
            // SAFETY: the buffer has as many words, and the stream is waited for.
            unsafe { result::memcpy_dtoh_async(words, from, self.stream.cu_stream()) }.map_err(failed)?;
        }
        self.stream.synchronize().map_err(failed)
    }

    fn fill(&self, at: DevicePtr, words: usize, value: u32) -> Result<(), BackendError> {
        if words == 0 {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the buffer has as many words.
        unsafe { sys::cuMemsetD32Async(at, value, words, self.stream.cu_stream()) }.result().map_err(failed)
    }

    unsafe fn launch(
        &self,
        module: &Module,
        entry: &'static str,
        grid: Grid,
        arguments: &[u8],
    ) -> Result<(), BackendError> {
        self.bind()?;
        let function = self.function(module, entry)?;
        if grid.shared > 48 << 10 {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is loaded.
            unsafe { result::function::set_function_attribute(function, attribute, grid.shared as i32) }
                .map_err(failed)?;
        }
        let mut parameters = [arguments.as_ptr().cast_mut().cast()];
        // SAFETY: the struct is the kernel's own, which is the caller's promise; the driver copies it.
        unsafe {
            result::launch_kernel(
                function,
                (grid.blocks, 1, 1),
                (grid.threads, 1, 1),
                grid.shared,
                self.stream.cu_stream(),
                &mut parameters,
            )
        }
        .map_err(failed)
    }

    unsafe fn product(&self, product: &Product) -> Result<(), BackendError> {
        self.bind()?;
        let mut blas = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
        if blas.is_none() {
            *blas = Some(Blas::new(self.tf32)?);
        }
        let blas = blas.as_mut().expect("it was just made");
        // SAFETY: the caller's promise.
        unsafe { blas.product(product, self.stream.cu_stream()) }
    }

    fn begin_recording(&self) -> Result<bool, BackendError> {
        // Relaxed: kernels that are still to be compiled may be loaded, and memory taken, while launches are recorded.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.stream.begin_capture(mode).map_err(failed)?;
        self.recording.store(true, Ordering::Relaxed);
        Ok(true)
    }

    fn end_recording(&self) -> Result<Box<dyn Replay>, BackendError> {
        self.recording.store(false, Ordering::Relaxed);
        let flags = sys::CUgraphInstantiate_flags(0);
        match self.stream.end_capture(flags).map_err(failed)? {
            Some(graph) => Ok(Box::new(Graph(Mutex::new(Raw(graph))))),
            None => Err(BackendError::Driver("the recording was broken off".into())),
        }
    }
}

/// Launches that the driver has recorded.
struct Graph(Mutex<Raw<CudaGraph>>);

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Graph")
    }
}

impl Replay for Graph {
    fn replay(&self) -> Result<(), BackendError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.launch().map_err(failed)
    }
}

/// An error of the driver in this crate's terms.
pub(super) fn failed(error: DriverError) -> BackendError {
    use sys::CUresult as Code;
    match error.0 {
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
        | Code::CUDA_ERROR_LAUNCH_FAILED
        | Code::CUDA_ERROR_LAUNCH_TIMEOUT
        | Code::CUDA_ERROR_MISALIGNED_ADDRESS
        | Code::CUDA_ERROR_ECC_UNCORRECTABLE
        | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED => BackendError::DeviceLost { reason: error.to_string() },
        Code::CUDA_ERROR_OUT_OF_MEMORY => {
            BackendError::OutOfMemory { what: "the driver's own use".into(), requested: 0, in_use: 0 }
        }
        _ => BackendError::Driver(error.to_string()),
    }
}
