use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    subgroups::ROW_LANES,
    variants::{Kernel, Variant},
};
use crate::backend::{
    BackendError, Tensor,
    kernels::{Gate, GateBackward, GateKernels},
};

impl GateKernels for WgpuBackend {
    unsafe fn gate(&self, args: &Gate<'_>) -> Result<(), BackendError> {
        let (tensors, numbers) = ([("x", args.x), ("r", args.r), ("out", args.out)], [("b", args.b)]);
        self.gate_rows(Kernel::Gate, args.weight, &tensors, &numbers)
    }

    unsafe fn gate_grad(&self, args: &GateBackward<'_>) -> Result<(), BackendError> {
        let tensors = [("x", args.x), ("r", args.r), ("g", args.g), ("grad_x", args.grad_x), ("grad_r", args.grad_r)];
        self.gate_rows(Kernel::GateGrad, args.weight, &tensors, &[("b", args.b), ("z", args.z)])
    }

    unsafe fn gate_weight(&self, u: &Tensor, t: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let dispatch = Dispatch::new(Variant::new(Kernel::GateWeight))
            .param("rows", 1)
            .param("cols", u.cols())
            .param("stride", u.stride())
            .tensor("x", u)
            .tensor("r", t)
            .tensor("out", out);
        self.run(dispatch.threads(u.cols()))
    }
}

impl WgpuBackend {
    /// A function of each row of `tensors`, all of one shape, and of `numbers`, one a row.
    fn gate_rows(
        &self,
        kernel: Kernel,
        weight: &Tensor,
        tensors: &[(&'static str, &Tensor)],
        numbers: &[(&'static str, &Tensor)],
    ) -> Result<(), BackendError> {
        let x = tensors[0].1;
        for rows in row_slices(x.rows(), &[x.stride()], self.capabilities.max_binding_bytes) {
            let mut dispatch = Dispatch::new(Variant::new(kernel))
                .param("rows", rows.len())
                .param("cols", x.cols())
                .param("stride", x.stride())
                .tensor("w", weight);
            for (name, tensor) in tensors.iter().chain(numbers) {
                dispatch = dispatch.rows(name, tensor, rows.start, rows.len());
            }
            self.run(dispatch.threads(rows.len() * ROW_LANES))?;
        }
        Ok(())
    }
}
