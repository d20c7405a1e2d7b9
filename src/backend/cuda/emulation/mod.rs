//! The CUDA kernels on the processor, for tests on machines without an NVIDIA GPU.
//!
//! The same text that NVRTC takes goes to the machine's C++ compiler, behind `cuda/emulation.h`, which runs every thread of a block
//! as a fiber. It finds what CUDA leaves undefined: waits that never end, shuffles from lanes that do not take part, writes past the end
//! of a buffer. Results are the same in every run. It is slow, and says nothing about speed.

mod library;
mod memory;
mod product;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use library::{Compiler, Library};
use memory::HostMemory;

use super::{
    CudaBackend,
    compile::KernelCache,
    runtime::{DevicePtr, Grid, Product, Runtime},
    source::Module,
};
use crate::{
    backend::{BackendError, DeviceInfo, DeviceKind, pool::Pool},
    plan::Capabilities,
};

impl CudaBackend {
    /// A device that is not there: memory is the processor's, and so is the code of the kernels, by the compiler that `CXX` names (`c++` if
    /// it is not set).
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] without a compiler.
    pub fn emulated(cache: &KernelCache) -> Result<Self, BackendError> {
        let runtime = Emulation::new(cache)?;
        let info = DeviceInfo {
            backend: "cuda",
            name: "emulation on the processor".into(),
            kind: DeviceKind::Cpu,
            driver: runtime.compiler.version().to_owned(),
            subgroup_sizes: None,
        };
        let capabilities = Capabilities {
            max_binding_bytes: 1 << 36,
            max_buffer_bytes: 1 << 36,
            workgroup_size: 256,
            concurrent_workgroups: 1024,
        };
        Ok(Self { info, capabilities, pool: Pool::new(), runtime: Arc::new(runtime), stream: None })
    }
}

/// Kernels as functions of the process. Everything is done when its call returns.
#[derive(Debug)]
struct Emulation {
    compiler: Compiler,
    libraries: Mutex<HashMap<Module, Arc<Library>>>,
    memory: HostMemory,
}

impl Emulation {
    fn new(cache: &KernelCache) -> Result<Self, BackendError> {
        Ok(Self {
            compiler: Compiler::new(cache.folder())?,
            libraries: Mutex::new(HashMap::new()),
            memory: HostMemory::default(),
        })
    }

    fn library(&self, module: &Module) -> Result<Arc<Library>, BackendError> {
        if let Some(library) = self.libraries.lock().unwrap_or_else(PoisonError::into_inner).get(module) {
            return Ok(library.clone());
        }
        let library = self.compiler.library(&module.label(), &module.text())?;
        self.libraries.lock().unwrap_or_else(PoisonError::into_inner).insert(module.clone(), library.clone());
        Ok(library)
    }

    /// # Safety
    /// As [`Runtime::launch`].
    unsafe fn run(&self, library: &Library, entry: &str, grid: Grid, arguments: &[u8]) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { library.run(entry, grid, arguments) }?;
        self.memory.check(entry)
    }
}

impl Runtime for Emulation {
    fn allocate(&self, bytes: u64, label: &str) -> Result<DevicePtr, BackendError> {
        self.memory.allocate(bytes, label)
    }

    fn free(&self, at: DevicePtr) {
        self.memory.free(at);
    }

    fn upload(&self, to: DevicePtr, words: &[u32]) -> Result<(), BackendError> {
        self.memory.upload(to, words)
    }

    fn download(&self, from: DevicePtr, words: &mut [u32]) -> Result<(), BackendError> {
        self.memory.download(from, words)
    }

    fn fill(&self, at: DevicePtr, words: usize, value: u32) -> Result<(), BackendError> {
        self.memory.fill(at, words, value)
    }

    unsafe fn launch(
        &self,
        module: &Module,
        entry: &'static str,
        grid: Grid,
        arguments: &[u8],
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.run(&*self.library(module)?, entry, grid, arguments) }
    }

    unsafe fn product(&self, product: &Product) -> Result<(), BackendError> {
        product::check(product, &self.memory)?;
        // SAFETY: the matrices lie in memory of this device, as was just checked.
        unsafe { product::compute(product) };
        Ok(())
    }
}
