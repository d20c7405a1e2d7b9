use super::{CpuBackend, Input, Output, words_of};
use crate::{
    backend::{BackendError, Indices, Tensor, kernels::GatherKernels},
    graph::NO_EDGE,
};

impl GatherKernels for CpuBackend {
    unsafe fn gather_rows(&self, x: &Tensor, rows: &Indices, fill: f32, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "gather_rows";
        let (x, rows) = (Input::new(x, KERNEL)?, words_of(rows, KERNEL)?);
        Output::new(out, KERNEL)?.for_each_row(out.words(), |r, o| match rows[r].to_bits() {
            NO_EDGE => o.fill(fill),
            from => o.copy_from_slice(x.row(from as usize)),
        });
        Ok(())
    }

    unsafe fn scatter_rows(&self, x: &Tensor, rows: &Indices, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "scatter_rows";
        let words = words_of(rows, KERNEL)?;
        let (input, mut output) = (Input::new(x, KERNEL)?, Output::new(out, KERNEL)?);
        let stride = output.stride;
        for (r, word) in words[..rows.len()].iter().enumerate().filter(|(_, w)| w.to_bits() != NO_EDGE) {
            let to = word.to_bits() as usize * stride;
            output.memory[to..to + input.cols].copy_from_slice(input.row(r));
        }
        Ok(())
    }
}
