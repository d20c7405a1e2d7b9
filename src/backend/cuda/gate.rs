use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, blocks_for, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, Tensor,
    kernels::{Gate, GateBackward, GateKernels},
};

const THREADS: u32 = 256;
const WARP: u64 = 32;

/// `GateArgs` of `cuda/gate.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct GateArgs {
    x: DevicePtr,
    r: DevicePtr,
    weight: DevicePtr,
    g: DevicePtr,
    out: DevicePtr,
    grad_x: DevicePtr,
    grad_r: DevicePtr,
    b: DevicePtr,
    z: DevicePtr,
    u: DevicePtr,
    t: DevicePtr,
    grad_weight: DevicePtr,
    stride: u64,
    rows: u32,
    cols: u32,
}

fn module() -> Module {
    Module::new("gate").define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    fn gate_args(&self, x: &Tensor, r: &Tensor, weight: &Tensor) -> Result<GateArgs, BackendError> {
        Ok(GateArgs {
            x: self.tensor(x)?,
            r: self.tensor(r)?,
            weight: self.tensor(weight)?,
            stride: x.stride() as u64,
            rows: x.rows() as u32,
            cols: x.cols() as u32,
            ..GateArgs::zeroed()
        })
    }
}

// SAFETY of the launches: shapes fit, which is the caller's promise.
impl GateKernels for CudaBackend {
    unsafe fn gate(&self, args: &Gate<'_>) -> Result<(), BackendError> {
        let kernel = GateArgs {
            out: self.tensor(args.out)?,
            b: self.tensor(args.b)?,
            ..self.gate_args(args.x, args.r, args.weight)?
        };
        let grid = blocks_for(u64::from(kernel.rows) * WARP, THREADS)?;
        // SAFETY: see above.
        unsafe { self.launch(&module(), "gate_forward", grid, &kernel) }
    }

    unsafe fn gate_grad(&self, args: &GateBackward<'_>) -> Result<(), BackendError> {
        let kernel = GateArgs {
            g: self.tensor(args.g)?,
            grad_x: self.tensor(args.grad_x)?,
            grad_r: self.tensor(args.grad_r)?,
            b: self.tensor(args.b)?,
            z: self.tensor(args.z)?,
            ..self.gate_args(args.x, args.r, args.weight)?
        };
        let grid = blocks_for(u64::from(kernel.rows) * WARP, THREADS)?;
        // SAFETY: see above.
        unsafe { self.launch(&module(), "gate_backward", grid, &kernel) }
    }

    unsafe fn gate_weight(&self, u: &Tensor, t: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let kernel = GateArgs {
            u: self.tensor(u)?,
            t: self.tensor(t)?,
            grad_weight: self.tensor(out)?,
            cols: u.cols() as u32,
            ..GateArgs::zeroed()
        };
        // SAFETY: see above.
        unsafe { self.launch(&module(), "gate_weight", blocks_for(u.cols() as u64, THREADS)?, &kernel) }
    }
}
