use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError,
    kernels::{AdamUpdate, OptimKernels},
};

impl OptimKernels for WgpuBackend {
    unsafe fn adam(&self, args: &AdamUpdate<'_>) -> Result<(), BackendError> {
        for rows in row_slices(args.w.rows(), &[args.w.stride()], self.capabilities.max_binding_bytes) {
            let entries = rows.len() * args.w.stride();
            let mut dispatch = Dispatch::new(Variant::new(Kernel::Adam))
                .with(Flag::Decoupled, args.decoupled)
                .param("entries", entries)
                .float("beta1", args.beta1)
                .float("beta2", args.beta2)
                .float("epsilon", args.epsilon)
                .float("weight_decay", args.weight_decay)
                .state(args.state);
            for (name, tensor) in [("g", args.g), ("w", args.w), ("m", args.m), ("v", args.v)] {
                dispatch = dispatch.rows(name, tensor, rows.start, rows.len());
            }
            self.run(dispatch.threads(entries))?;
        }
        Ok(())
    }
}
