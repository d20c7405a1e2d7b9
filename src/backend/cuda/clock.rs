use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{BackendError, Buffer, Memory, mark::WORDS};

const THREADS: u32 = 32;
/// Ticks are nanoseconds.
const TICK: f64 = 1e-9;

/// `ClockArgs` of `cuda/clock.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct ClockArgs {
    ticks: DevicePtr,
}

fn module() -> Module {
    Module::new("clock").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    /// See [`Memory::read_clock`].
    pub(super) fn clock(&self) -> Result<(Buffer, f64), BackendError> {
        let ticks = self.allocate(WORDS, "a mark")?;
        let args = ClockArgs { ticks: self.at(&ticks)? };
        // SAFETY: the buffer has the two words that one thread writes.
        unsafe { self.launch(&module(), "read_clock", blocks_for(1, THREADS)?, &args)? };
        Ok((ticks, TICK))
    }
}
