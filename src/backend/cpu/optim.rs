use super::{CpuBackend, Input, Output, step_data};
use crate::backend::{
    BackendError,
    kernels::{AdamUpdate, OptimKernels},
};

impl OptimKernels for CpuBackend {
    unsafe fn adam(&self, args: &AdamUpdate<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "adam";
        let state = step_data(args.state, KERNEL)?;
        let g = Input::new(args.g, KERNEL)?;
        let (mut w, mut m, mut v) =
            (Output::new(args.w, KERNEL)?, Output::new(args.m, KERNEL)?, Output::new(args.v, KERNEL)?);
        let rate = state.learning_rate / state.bias_correction1;
        for (((w, m), v), g) in w.all().iter_mut().zip(m.all()).zip(v.all()).zip(g.all()) {
            let g = if args.decoupled {
                *w -= state.learning_rate * args.weight_decay * *w;
                *g
            } else {
                g + args.weight_decay * *w
            };
            *m = args.beta1 * *m + (1.0 - args.beta1) * g;
            *v = args.beta2 * *v + (1.0 - args.beta2) * g * g;
            *w -= rate * *m / (v.sqrt() / state.bias_correction2_sqrt + args.epsilon);
        }
        Ok(())
    }
}
