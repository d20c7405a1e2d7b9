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
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
    backend::{BackendError, DeviceInfo, DeviceKind, Replay, pool::Pool},
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
            driver: runtime.machine.compiler.version().to_owned(),
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

/// Kernels as functions of the process. Everything is done when its call returns, or written down while it is recorded.
#[derive(Debug)]
struct Emulation {
    machine: Arc<Machine>,
    recording: Mutex<Option<Vec<Command>>>,
}

/// What runs the kernels.
#[derive(Debug)]
struct Machine {
    compiler: Compiler,
    libraries: Mutex<HashMap<Module, Arc<Library>>>,
    memory: HostMemory,
}

/// What is recorded.
#[derive(Debug)]
enum Command {
    Fill { at: DevicePtr, words: usize, value: u32 },
    Launch { module: Module, entry: &'static str, grid: Grid, arguments: Vec<u8> },
    Product(Product),
}

/// Commands to be run again.
#[derive(Debug)]
struct Recorded {
    machine: Arc<Machine>,
    commands: Vec<Command>,
}

impl Replay for Recorded {
    fn replay(&self) -> Result<(), BackendError> {
        // SAFETY: each was valid when it was recorded, and whoever replays keeps the memory.
        self.commands.iter().try_for_each(|command| unsafe { self.machine.run(command) })
    }
}

impl Emulation {
    fn new(cache: &KernelCache) -> Result<Self, BackendError> {
        let machine = Machine {
            compiler: Compiler::new(cache.folder())?,
            libraries: Mutex::new(HashMap::new()),
            memory: HostMemory::default(),
        };
        Ok(Self { machine: Arc::new(machine), recording: Mutex::new(None) })
    }

    fn recording(&self) -> MutexGuard<'_, Option<Vec<Command>>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command, or writes it down.
    ///
    /// # Safety
    /// As [`Runtime::launch`].
    unsafe fn enqueue(&self, command: Command) -> Result<(), BackendError> {
        if let Some(commands) = &mut *self.recording() {
            commands.push(command);
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.machine.run(&command) }
    }

    fn not_while_recording(&self, what: &str) -> Result<(), BackendError> {
        match *self.recording() {
            Some(_) => Err(BackendError::Driver(format!("{what} cannot be recorded: copy before or after"))),
            None => Ok(()),
        }
    }
}

impl Machine {
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
    unsafe fn launch(&self, library: &Library, entry: &str, grid: Grid, arguments: &[u8]) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { library.run(entry, grid, arguments) }?;
        self.memory.check(entry)
    }

    /// # Safety
    /// As [`Runtime::launch`].
    unsafe fn run(&self, command: &Command) -> Result<(), BackendError> {
        match command {
            Command::Fill { at, words, value } => self.memory.fill(*at, *words, *value),
            Command::Launch { module, entry, grid, arguments } => {
                // SAFETY: the caller's promise.
                unsafe { self.launch(&*self.library(module)?, entry, *grid, arguments) }
            }
            Command::Product(product) => {
                product::check(product, &self.memory)?;
                // SAFETY: the matrices lie in memory of this device, as was just checked.
                unsafe { product::compute(product) };
                Ok(())
            }
        }
    }
}

impl Runtime for Emulation {
    fn allocate(&self, bytes: u64, label: &str) -> Result<DevicePtr, BackendError> {
        self.machine.memory.allocate(bytes, label)
    }

    fn free(&self, at: DevicePtr) {
        self.machine.memory.free(at);
    }

    fn upload(&self, to: DevicePtr, words: &[u32]) -> Result<(), BackendError> {
        self.not_while_recording("a copy to the device")?;
        self.machine.memory.upload(to, words)
    }

    fn download(&self, from: DevicePtr, words: &mut [u32]) -> Result<(), BackendError> {
        self.not_while_recording("a copy from the device")?;
        self.machine.memory.download(from, words)
    }

    fn fill(&self, at: DevicePtr, words: usize, value: u32) -> Result<(), BackendError> {
        // SAFETY: memory looks where the words are before it writes them.
        unsafe { self.enqueue(Command::Fill { at, words, value }) }
    }

    unsafe fn launch(
        &self,
        module: &Module,
        entry: &'static str,
        grid: Grid,
        arguments: &[u8],
    ) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(Command::Launch { module: module.clone(), entry, grid, arguments: arguments.into() }) }
    }

    unsafe fn product(&self, product: &Product) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(Command::Product(*product)) }
    }

    fn begin_recording(&self) -> Result<bool, BackendError> {
        *self.recording() = Some(Vec::new());
        Ok(true)
    }

    fn end_recording(&self) -> Result<Box<dyn Replay>, BackendError> {
        let commands = self.recording().take();
        let commands = commands.ok_or_else(|| BackendError::Driver("nothing is being recorded".into()))?;
        Ok(Box::new(Recorded { machine: self.machine.clone(), commands }))
    }
}
