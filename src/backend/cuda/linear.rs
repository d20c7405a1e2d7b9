use bytemuck::{Pod, Zeroable};

use super::{
    CudaBackend, Grid, blocks_for,
    runtime::{DevicePtr, MatrixAt, Product},
    source::Module,
};
use crate::backend::{
    BackendError, Memory, Tensor,
    kernels::{ElementwiseKernels, Gemm, LinearKernels},
};

const THREADS: u32 = 256;
const TILE: usize = 32;
/// Rows that a block adds up.
const ROWS_PER_PART: usize = 1024;

/// `LinearArgs` of `cuda/linear.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct LinearArgs {
    x: DevicePtr,
    center: DevicePtr,
    weight: DevicePtr,
    out: DevicePtr,
    partials: DevicePtr,
    sums: DevicePtr,
    stride: u64,
    out_stride: u64,
    rows: u64,
    cols: u32,
    width: u32,
    parts: u32,
    column_blocks: u32,
    accumulate: u32,
    padding: u32,
}

fn module() -> Module {
    Module::new("linear").define("THREADS", THREADS).define("ROWS_PER_PART", ROWS_PER_PART as u32)
}

pub(super) fn modules() -> Vec<Module> {
    vec![module()]
}

impl CudaBackend {
    fn matrix(&self, tensor: &Tensor) -> Result<MatrixAt, BackendError> {
        Ok(MatrixAt { at: self.tensor(tensor)?, dtype: tensor.dtype(), stride: tensor.stride() as u64 })
    }

    /// Sums of the columns of `x`, or of `(x - center) * weight`, or of `(x - center)^2`, given a centre.
    ///
    /// # Safety
    /// The shapes fit.
    pub(super) unsafe fn sum_columns(
        &self,
        x: &Tensor,
        moment: Option<(&Tensor, Option<&Tensor>)>,
        out: &Tensor,
        accumulate: bool,
    ) -> Result<(), BackendError> {
        let parts = x.rows().div_ceil(ROWS_PER_PART);
        if x.rows() == 0 && !accumulate {
            self.fill(out.buffer(), out.words(), 0)?;
        }
        if x.rows() == 0 || x.cols() == 0 {
            return Ok(());
        }
        let partials = Tensor::uninit(x.device(), parts, x.cols(), "sums of rows")?;
        let args = LinearArgs {
            x: self.tensor(x)?,
            center: self.maybe_tensor(moment.map(|(center, _)| center))?,
            weight: self.maybe_tensor(moment.and_then(|(_, weight)| weight))?,
            partials: self.tensor(&partials)?,
            sums: self.tensor(out)?,
            stride: x.stride() as u64,
            rows: x.rows() as u64,
            cols: x.cols() as u32,
            width: partials.stride() as u32,
            parts: parts as u32,
            column_blocks: x.cols().div_ceil(TILE) as u32,
            accumulate: accumulate.into(),
            ..LinearArgs::zeroed()
        };
        let work = parts as u64 * u64::from(args.column_blocks) * u64::from(THREADS);
        // SAFETY: the shapes fit, which is the caller's promise.
        unsafe {
            self.launch(&module(), "column_sums", blocks_for(work, THREADS)?, &args)?;
            self.launch(&module(), "column_merge", blocks_for(x.cols() as u64 * 32, THREADS)?, &args)
        }
    }
}

impl LinearKernels for CudaBackend {
    unsafe fn gemm(&self, args: &Gemm<'_>) -> Result<(), BackendError> {
        let (m, n, k) = args.dims();
        if m == 0 || n == 0 {
            return Ok(());
        }
        if k == 0 {
            // A sum of nothing, which the library does not take.
            if !args.accumulate {
                self.fill(args.out.buffer(), args.out.words(), 0)?;
            }
            if let Some(bias) = args.bias {
                // SAFETY: the shapes fit, which is the caller's promise.
                unsafe { self.add_row(args.out, bias, args.out)? };
            }
            return Ok(());
        }
        let product = Product {
            m: m as u64,
            n: n as u64,
            k: k as u64,
            a: self.matrix(args.a)?,
            transpose_a: args.transpose_a,
            b: self.matrix(args.b)?,
            transpose_b: args.transpose_b,
            out: self.matrix(args.out)?,
            bias: self.maybe_tensor(args.bias)?,
            accumulate: args.accumulate,
        };
        // SAFETY: the shapes fit, which is the caller's promise.
        unsafe { self.runtime.product(&product) }
    }

    unsafe fn column_sums(&self, x: &Tensor, out: &Tensor, accumulate: bool) -> Result<(), BackendError> {
        // SAFETY: the caller's promise.
        unsafe { self.sum_columns(x, None, out, accumulate) }
    }

    unsafe fn transpose(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = LinearArgs {
            x: self.tensor(x)?,
            out: self.tensor(out)?,
            stride: x.stride() as u64,
            out_stride: out.stride() as u64,
            rows: x.rows() as u64,
            cols: x.cols() as u32,
            column_blocks: x.cols().div_ceil(TILE) as u32,
            ..LinearArgs::zeroed()
        };
        let tiles = x.rows().div_ceil(TILE) as u64 * u64::from(args.column_blocks);
        let Grid { blocks, .. } = blocks_for(tiles * u64::from(THREADS), THREADS)?;
        // SAFETY: the shapes fit, which is the caller's promise.
        unsafe { self.launch(&module(), "transpose", Grid { blocks, threads: THREADS, shared: 0 }, &args) }
    }
}
