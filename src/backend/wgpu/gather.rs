use super::{
    Dispatch, WgpuBackend,
    slices::{fits, panel_chunks, row_slices},
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{BackendError, Indices, Tensor, kernels::GatherKernels};

/// Chunks of a row: numbers of a single column of 32 bits, else quads.
pub(super) fn chunks_of(tensor: &Tensor) -> usize {
    if tensor.cols() == 1 { 1 } else { tensor.stride() / 4 }
}

/// Units of 16 bytes in a row; numbers of a single column.
fn units_of(tensor: &Tensor) -> usize {
    if tensor.cols() == 1 { 1 } else { tensor.row_words() / 4 }
}

impl WgpuBackend {
    /// Calls `f(panel, first chunk)` with `x`, or with copies of its column panels one after the other where it does not fit a binding.
    pub(super) fn for_each_panel(
        &self,
        x: &Tensor,
        mut f: impl FnMut(&Tensor, usize) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        if fits(self, x) {
            return f(x, 0);
        }
        // In units of 16 bytes, which are two chunks of halves.
        let width = panel_chunks(self, x.rows())?;
        let (total, chunks_a_unit) = (units_of(x), x.dtype().per_word());
        for first in (0..total).step_by(width) {
            let units = width.min(total - first);
            let panel = x.with_shape(x.rows(), units * chunks_a_unit * 4, "column panel")?;
            self.copy_chunks(x, first, &panel, 0, units)?;
            f(&panel, first * chunks_a_unit)?;
        }
        Ok(())
    }

    /// Copies `chunks` chunks of 16 bytes of every row, or of a number of a single column.
    pub(super) fn copy_chunks(
        &self,
        x: &Tensor,
        x_first: usize,
        out: &Tensor,
        out_first: usize,
        chunks: usize,
    ) -> Result<(), BackendError> {
        for rows in row_slices(x.rows(), &[x.row_words(), out.row_words()], self.capabilities.max_binding_bytes) {
            let dispatch = Dispatch::new(Variant::new(Kernel::Copy))
                .with(Flag::Scalar, x.cols() == 1)
                .param("count", rows.len())
                .param("chunks", chunks)
                .param("x_stride", units_of(x))
                .param("x_first", x_first)
                .param("out_stride", units_of(out))
                .param("out_first", out_first)
                .rows("x", x, rows.start, rows.len())
                .rows("out", out, rows.start, rows.len());
            self.run(dispatch.threads(rows.len() * chunks))?;
        }
        Ok(())
    }
}

impl GatherKernels for WgpuBackend {
    unsafe fn gather_rows(&self, x: &Tensor, rows: &Indices, fill: f32, out: &Tensor) -> Result<(), BackendError> {
        self.for_each_panel(x, |panel, first| {
            for slice in row_slices(out.rows(), &[out.stride()], self.capabilities.max_binding_bytes) {
                let dispatch = Dispatch::new(Variant::new(Kernel::Gather))
                    .with(Flag::Scalar, out.cols() == 1)
                    .param("count", slice.len())
                    .param("chunks", chunks_of(panel))
                    .param("x_stride", chunks_of(panel))
                    .param("x_first", 0)
                    .param("out_stride", chunks_of(out))
                    .param("out_first", first)
                    .float("fill", fill)
                    .words("rows", rows.buffer(), slice.start, slice.len())
                    .tensor("x", panel)
                    .rows("out", out, slice.start, slice.len());
                self.run(dispatch.threads(slice.len() * chunks_of(panel)))?;
            }
            Ok(())
        })
    }

    unsafe fn scatter_rows(&self, x: &Tensor, rows: &Indices, out: &Tensor) -> Result<(), BackendError> {
        for slice in row_slices(x.rows(), &[x.stride()], self.capabilities.max_binding_bytes) {
            let dispatch = Dispatch::new(Variant::new(Kernel::Scatter))
                .with(Flag::Scalar, out.cols() == 1)
                .param("count", slice.len())
                .param("chunks", chunks_of(x))
                .param("x_stride", chunks_of(x))
                .param("x_first", 0)
                .param("out_stride", chunks_of(out))
                .param("out_first", 0)
                .words("rows", rows.buffer(), slice.start, slice.len())
                .rows("x", x, slice.start, slice.len())
                .tensor("out", out);
            self.run(dispatch.threads(slice.len() * chunks_of(x)))?;
        }
        Ok(())
    }
}
