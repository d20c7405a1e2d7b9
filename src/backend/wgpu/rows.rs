use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    subgroups::ROW_LANES,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{BackendError, Indices, Tensor, kernels::RowKernels};

impl RowKernels for WgpuBackend {
    unsafe fn row_dot(
        &self,
        a: &Tensor,
        b: &Tensor,
        divisor: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        self.by_rows(Kernel::RowDot, a, ROW_LANES, |d, first, rows| {
            d.rows("a", a, first, rows)
                .rows("b", b, first, rows)
                .maybe_rows(Flag::Divisor, "divisor", divisor, first, rows)
                .rows("out", out, first, rows)
        })
    }

    unsafe fn l2_normalize(&self, x: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError> {
        self.by_rows(Kernel::L2, x, ROW_LANES, |d, first, rows| {
            d.float("epsilon", epsilon).rows("x", x, first, rows).rows("out", out, first, rows)
        })
    }

    unsafe fn l2_normalize_grad(&self, x: &Tensor, g: &Tensor, epsilon: f32, out: &Tensor) -> Result<(), BackendError> {
        self.by_rows(Kernel::L2Grad, x, ROW_LANES, |d, first, rows| {
            d.float("epsilon", epsilon)
                .rows("x", x, first, rows)
                .rows("g", g, first, rows)
                .rows("out", out, first, rows)
        })
    }

    unsafe fn argmax(&self, x: &Tensor, out: &Indices) -> Result<(), BackendError> {
        self.by_rows(Kernel::Argmax, x, 1, |d, first, rows| {
            d.rows("x", x, first, rows).words("out", out.buffer(), first, rows)
        })
    }
}

impl WgpuBackend {
    /// A function of each row of `x`, in ranges of rows that fit a binding.
    pub(super) fn by_rows<'a>(
        &self,
        kernel: Kernel,
        x: &Tensor,
        lanes: usize,
        bind: impl Fn(Dispatch<'a>, usize, usize) -> Dispatch<'a>,
    ) -> Result<(), BackendError> {
        for rows in row_slices(x.rows(), &[x.stride()], self.capabilities.max_binding_bytes) {
            let dispatch = Dispatch::new(Variant::new(kernel))
                .param("rows", rows.len())
                .param("cols", x.cols())
                .param("stride", x.stride());
            self.run(bind(dispatch, rows.start, rows.len()).threads(rows.len() * lanes))?;
        }
        Ok(())
    }
}
