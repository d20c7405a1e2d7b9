use super::{CpuBackend, read, threads, write};
use crate::backend::{BackendError, Tensor, kernels::CastKernels};

impl CastKernels for CpuBackend {
    unsafe fn cast(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "cast";
        let (memory, mut target) = (read(x.buffer(), KERNEL)?, write(out.buffer(), KERNEL)?);
        let (cols, dtype) = (x.cols(), if x.dtype().is_half() { x.dtype() } else { out.dtype() });
        let row = |r: usize| &memory[r * x.row_words()..(r + 1) * x.row_words()];
        threads::for_each_row(&mut target[..out.words()], out.row_words(), out.words(), |r, o| {
            if out.dtype().is_half() {
                dtype.encode(&row(r)[..cols], &mut bytemuck::cast_slice_mut(o)[..cols]);
            } else {
                dtype.decode(&bytemuck::cast_slice(row(r))[..cols], &mut o[..cols]);
            }
        });
        Ok(())
    }
}
