use bytemuck::{Pod, Zeroable};

use super::{CudaBackend, DTYPES, blocks_for, chunk_of, dtype_code, runtime::DevicePtr, source::Module};
use crate::backend::{
    BackendError, DType, DeviceGraph, Direction, Tensor,
    kernels::{DropoutMask, ElementwiseKernels, Unary, dropout_threshold},
};

const THREADS: u32 = 256;

/// `Dropout` of `cuda/random.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DropoutArgs {
    state: DevicePtr,
    layer: u32,
    threshold: u32,
    scale: f32,
    padding: u32,
}

/// `ElementwiseArgs` of `cuda/elementwise.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct ElementwiseArgs {
    x: DevicePtr,
    y: DevicePtr,
    out: DevicePtr,
    row: DevicePtr,
    factor: DevicePtr,
    offsets: DevicePtr,
    columns: DevicePtr,
    dropout: DropoutArgs,
    count: u64,
    stride: u64,
    rows: u32,
    cols: u32,
    a: f32,
    b: f32,
    function: u32,
    padding: u32,
}

fn module(dtype: DType) -> Module {
    Module::new("elementwise").define("DTYPE", dtype_code(dtype)).define("THREADS", THREADS)
}

pub(super) fn modules() -> Vec<Module> {
    DTYPES.map(module).into()
}

impl CudaBackend {
    /// Dropout as kernels take it.
    pub(super) fn dropout_args(&self, mask: Option<&DropoutMask<'_>>) -> Result<DropoutArgs, BackendError> {
        let Some(mask) = mask else { return Ok(DropoutArgs::zeroed()) };
        Ok(DropoutArgs {
            state: self.at(mask.state)?,
            layer: mask.layer,
            threshold: dropout_threshold(mask.p),
            scale: 1.0 / (1.0 - mask.p),
            padding: 0,
        })
    }

    fn elementwise_args(&self, x: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Result<ElementwiseArgs, BackendError> {
        Ok(ElementwiseArgs {
            x: self.tensor(x)?,
            y: self.maybe_tensor(y)?,
            out: self.tensor(out)?,
            count: (out.words() * out.dtype().per_word()) as u64,
            stride: out.stride() as u64,
            rows: out.rows() as u32,
            cols: out.cols() as u32,
            ..ElementwiseArgs::zeroed()
        })
    }

    /// # Safety
    /// The arguments fit the kernel.
    unsafe fn each_chunk(&self, entry: &'static str, dtype: DType, args: &ElementwiseArgs) -> Result<(), BackendError> {
        let grid = blocks_for(args.count.div_ceil(chunk_of(dtype) as u64), THREADS)?;
        // SAFETY: the caller's promise.
        unsafe { self.launch(&module(dtype), entry, grid, args) }
    }
}

fn code(f: Unary) -> u32 {
    match f {
        Unary::Relu => 0,
        Unary::LeakyRelu(_) => 1,
        Unary::Elu(_) => 2,
        Unary::Sigmoid => 3,
        Unary::Tanh => 4,
        Unary::Inverse => 5,
        Unary::InverseSqrt => 6,
    }
}

// SAFETY of the launches: tensors and shapes fit, which is the caller's promise; kernels stay within `count` and `rows`.
impl ElementwiseKernels for CudaBackend {
    unsafe fn unary(&self, f: Unary, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(x, None, out)?;
        // SAFETY: see above.
        unsafe {
            self.each_chunk("unary", out.dtype(), &ElementwiseArgs { function: code(f), a: f.parameter(), ..args })
        }
    }

    unsafe fn unary_grad(&self, f: Unary, y: &Tensor, g: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(y, Some(g), out)?;
        // SAFETY: see above.
        unsafe {
            self.each_chunk("unary_grad", out.dtype(), &ElementwiseArgs { function: code(f), a: f.parameter(), ..args })
        }
    }

    unsafe fn unary_dropout(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        x: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let dropout = self.dropout_args(Some(mask))?;
        let args = self.elementwise_args(x, None, out)?;
        let args = ElementwiseArgs { function: code(f), a: f.parameter(), dropout, ..args };
        // SAFETY: see above.
        unsafe { self.each_chunk("unary", out.dtype(), &args) }
    }

    unsafe fn unary_dropout_grad(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        y: &Tensor,
        g: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let dropout = self.dropout_args(Some(mask))?;
        let args = self.elementwise_args(y, Some(g), out)?;
        let args = ElementwiseArgs { function: code(f), a: f.parameter(), b: 1.0 - mask.p, dropout, ..args };
        // SAFETY: see above.
        unsafe { self.each_chunk("unary_grad", out.dtype(), &args) }
    }

    unsafe fn add(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(a, Some(b), out)?;
        // SAFETY: see above.
        unsafe { self.each_chunk("combine", out.dtype(), &ElementwiseArgs { a: 1.0, b: 1.0, ..args }) }
    }

    unsafe fn mul(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(a, Some(b), out)?;
        // SAFETY: see above.
        unsafe { self.each_chunk("multiply", out.dtype(), &args) }
    }

    unsafe fn combine(&self, a: f32, x: &Tensor, y: Option<(f32, &Tensor)>, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(x, y.map(|(_, y)| y), out)?;
        let b = y.map_or(0.0, |(b, _)| b);
        // SAFETY: see above.
        unsafe { self.each_chunk("combine", out.dtype(), &ElementwiseArgs { a, b, ..args }) }
    }

    unsafe fn add_row(&self, x: &Tensor, row: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = ElementwiseArgs { row: self.tensor(row)?, ..self.elementwise_args(x, None, out)? };
        // SAFETY: see above.
        unsafe { self.each_chunk("add_row", out.dtype(), &args) }
    }

    unsafe fn add_assign(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(out, Some(x), out)?;
        // SAFETY: see above.
        unsafe { self.each_chunk("combine", out.dtype(), &ElementwiseArgs { a: 1.0, b: 1.0, ..args }) }
    }

    unsafe fn scale_add(
        &self,
        offset: f32,
        factor: &Tensor,
        x: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let args = self.elementwise_args(x, y, out)?;
        let factor = self.tensor(factor)?;
        // SAFETY: see above.
        unsafe { self.each_chunk("combine", out.dtype(), &ElementwiseArgs { a: offset, b: 1.0, factor, ..args }) }
    }

    unsafe fn dropout(&self, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let args = self.elementwise_args(x, None, out)?;
        let dropout = self.dropout_args(Some(mask))?;
        // SAFETY: see above.
        unsafe { self.each_chunk("dropout", out.dtype(), &ElementwiseArgs { dropout, ..args }) }
    }

    unsafe fn dropout_sparse(
        &self,
        mask: &DropoutMask<'_>,
        pattern: &DeviceGraph,
        values: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let graph = self.graph(pattern, Direction::Forward, u32::MAX)?;
        let args = ElementwiseArgs {
            offsets: graph.offsets,
            columns: graph.columns,
            rows: graph.rows,
            dropout: self.dropout_args(Some(mask))?,
            ..self.elementwise_args(values, None, out)?
        };
        let grid = blocks_for(u64::from(args.rows) * 32, THREADS)?;
        // SAFETY: see above.
        unsafe { self.launch(&module(out.dtype()), "dropout_sparse", grid, &args) }
    }
}
