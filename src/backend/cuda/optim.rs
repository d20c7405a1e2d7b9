use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError,
    kernels::{AdamUpdate, OptimKernels},
};

const THREADS: u32 = 256;

/// `AdamArgs` of `cuda/optim.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct AdamArgs {
    state: DevicePtr,
    w: DevicePtr,
    g: DevicePtr,
    m: DevicePtr,
    v: DevicePtr,
    count: u64,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    weight_decay: f32,
    decoupled: u32,
    padding: u32,
}

fn module() -> Module {
    Module::new("optim").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl OptimKernels for CudaBackend {
    unsafe fn adam(&self, args: &AdamUpdate<'_>) -> Result<(), BackendError> {
        let kernel = AdamArgs {
            state: self.at(args.state)?,
            w: self.tensor(args.w)?,
            g: self.tensor(args.g)?,
            m: self.tensor(args.m)?,
            v: self.tensor(args.v)?,
            count: args.w.words() as u64,
            beta1: args.beta1,
            beta2: args.beta2,
            epsilon: args.epsilon,
            weight_decay: args.weight_decay,
            decoupled: args.decoupled.into(),
            padding: 0,
        };
        // SAFETY: all four tensors have one shape, which is the caller's promise.
        unsafe { self.launch(&module(), "adam", blocks_for(kernel.count, THREADS)?, &kernel) }
    }
}
