use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{BackendError, DType, Tensor, kernels::CastKernels};

impl CastKernels for WgpuBackend {
    unsafe fn cast(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let single = x.cols() == 1;
        let unit = if single { 1 } else { 4 };
        let units = x.cols().div_ceil(unit);
        // A half row of one column is one word, like one of 32 bits.
        let stride = |tensor: &Tensor| if single { 1 } else { tensor.stride() / unit };
        for rows in row_slices(x.rows(), &[x.row_words(), out.row_words()], self.capabilities.max_binding_bytes) {
            let dispatch = Dispatch::new(Variant::new(Kernel::Cast))
                .with(Flag::Narrow, out.dtype().is_half())
                .with(Flag::Bf16, [x.dtype(), out.dtype()].contains(&DType::BF16))
                .with(Flag::Scalar, single)
                .param("count", rows.len() * units)
                .param("units", units)
                .param("x_stride", stride(x))
                .param("out_stride", stride(out))
                .rows("x", x, rows.start, rows.len())
                .rows("out", out, rows.start, rows.len());
            self.run(dispatch.threads(rows.len() * units))?;
        }
        Ok(())
    }
}
