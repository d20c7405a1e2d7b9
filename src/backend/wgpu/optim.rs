use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, Buffer, Tensor,
    kernels::{AdamUpdate, LossScale, OptimKernels, ScaleUpdate},
};

const SCALE_WORDS: usize = size_of::<LossScale>() / 4;

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
            if let Some(scale) = args.scale {
                dispatch = dispatch.with(Flag::Scaled, true).words("loss", scale, 0, SCALE_WORDS);
            }
            for (name, tensor) in [("g", args.g), ("w", args.w), ("m", args.m), ("v", args.v)] {
                dispatch = dispatch.rows(name, tensor, rows.start, rows.len());
            }
            self.run(dispatch.threads(entries))?;
        }
        Ok(())
    }

    unsafe fn find_overflow(&self, g: &Tensor, scale: &Buffer) -> Result<(), BackendError> {
        for rows in row_slices(g.rows(), &[g.stride()], self.capabilities.max_binding_bytes) {
            let entries = rows.len() * g.stride();
            let dispatch = Dispatch::new(Variant::new(Kernel::FindOverflow))
                .param("entries", entries)
                .param("stride", g.stride().max(1))
                .param("cols", g.cols())
                .rows("g", g, rows.start, rows.len())
                .words("loss", scale, 0, SCALE_WORDS);
            self.run(dispatch.threads(entries))?;
        }
        Ok(())
    }

    unsafe fn update_scale(&self, args: &ScaleUpdate<'_>) -> Result<(), BackendError> {
        let dispatch = Dispatch::new(Variant::new(Kernel::UpdateScale))
            .float("ln_beta1", args.ln_beta1)
            .float("ln_beta2", args.ln_beta2)
            .param("growth_interval", args.growth_interval as usize)
            .float("largest", LossScale::LARGEST)
            .words("loss", args.scale, 0, SCALE_WORDS);
        self.run(dispatch.threads(1))
    }
}
