use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, Buffer, Tensor,
    kernels::{AdamUpdate, LossScale, OptimKernels, ScaleUpdate},
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
    scale: DevicePtr,
    count: u64,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    weight_decay: f32,
    decoupled: u32,
    padding: u32,
}

/// `OverflowArgs` of `cuda/optim.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct OverflowArgs {
    g: DevicePtr,
    scale: DevicePtr,
    count: u64,
    stride: u64,
    cols: u64,
}

/// `ScaleArgs` of `cuda/optim.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct ScaleArgs {
    scale: DevicePtr,
    ln_beta1: f32,
    ln_beta2: f32,
    largest: f32,
    growth_interval: u32,
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
            scale: args.scale.map_or(Ok(0), |scale| self.at(scale))?,
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

    unsafe fn find_overflow(&self, g: &Tensor, scale: &Buffer) -> Result<(), BackendError> {
        let kernel = OverflowArgs {
            g: self.tensor(g)?,
            scale: self.at(scale)?,
            count: g.words() as u64,
            stride: g.stride().max(1) as u64,
            cols: g.cols() as u64,
        };
        // SAFETY: threads stay within the tensor; the buffer holds a scale, which is the caller's promise.
        unsafe { self.launch(&module(), "find_overflow", blocks_for(kernel.count, THREADS)?, &kernel) }
    }

    unsafe fn update_scale(&self, args: &ScaleUpdate<'_>) -> Result<(), BackendError> {
        let kernel = ScaleArgs {
            scale: self.at(args.scale)?,
            ln_beta1: args.ln_beta1,
            ln_beta2: args.ln_beta2,
            largest: LossScale::LARGEST,
            growth_interval: args.growth_interval,
        };
        // SAFETY: the buffer holds a scale, which is the caller's promise.
        unsafe { self.launch(&module(), "update_scale", blocks_for(1, THREADS)?, &kernel) }
    }
}
