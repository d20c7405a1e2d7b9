use super::{CpuBackend, Input, Output, read, step_data, write};
use crate::backend::{
    BackendError, Buffer, Tensor,
    kernels::{AdamUpdate, LossScale, OptimKernels, ScaleUpdate},
};

impl OptimKernels for CpuBackend {
    unsafe fn adam(&self, args: &AdamUpdate<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "adam";
        let mut state = step_data(args.state, KERNEL)?;
        let mut inverse = 1.0;
        if let Some(scale) = args.scale {
            let scale = loss_scale(&read(scale, KERNEL)?);
            if scale.skip != 0 {
                return Ok(());
            }
            inverse = scale.inverse;
            state.bias_correction1 = scale.bias_correction1;
            state.bias_correction2_sqrt = scale.bias_correction2_sqrt;
        }
        let g = Input::new(args.g, KERNEL)?;
        let (mut w, mut m, mut v) =
            (Output::new(args.w, KERNEL)?, Output::new(args.m, KERNEL)?, Output::new(args.v, KERNEL)?);
        let rate = state.learning_rate / state.bias_correction1;
        for (((w, m), v), g) in w.all().iter_mut().zip(m.all()).zip(v.all()).zip(g.all()) {
            let g = inverse * g;
            let g = if args.decoupled {
                *w -= state.learning_rate * args.weight_decay * *w;
                g
            } else {
                g + args.weight_decay * *w
            };
            *m = args.beta1 * *m + (1.0 - args.beta1) * g;
            *v = args.beta2 * *v + (1.0 - args.beta2) * g * g;
            *w -= rate * *m / (v.sqrt() / state.bias_correction2_sqrt + args.epsilon);
        }
        Ok(())
    }

    unsafe fn find_overflow(&self, g: &Tensor, scale: &Buffer) -> Result<(), BackendError> {
        const KERNEL: &str = "find_overflow";
        let g = Input::new(g, KERNEL)?;
        let mut memory = write(scale, KERNEL)?;
        let mut scale = loss_scale(&memory);
        let finite = g.all().chunks(g.stride.max(1)).all(|row| row[..g.cols].iter().all(|v| v.is_finite()));
        scale.overflow |= u32::from(!finite);
        store(&mut memory, &scale);
        Ok(())
    }

    unsafe fn update_scale(&self, args: &ScaleUpdate<'_>) -> Result<(), BackendError> {
        let mut memory = write(args.scale, "update_scale")?;
        let mut scale = loss_scale(&memory);
        scale.inverse = 1.0 / scale.scale;
        scale.skip = scale.overflow;
        scale.overflow = 0;
        if scale.skip != 0 {
            scale.scale = (0.5 * scale.scale).max(1.0);
            scale.good_steps = 0;
        } else {
            scale.updates += 1;
            scale.good_steps += 1;
            let complement = |ln_beta: f32| -(scale.updates as f32 * ln_beta).exp_m1();
            scale.bias_correction1 = complement(args.ln_beta1);
            scale.bias_correction2_sqrt = complement(args.ln_beta2).sqrt();
            if scale.good_steps >= args.growth_interval {
                scale.scale = (2.0 * scale.scale).min(LossScale::LARGEST);
                scale.good_steps = 0;
            }
        }
        store(&mut memory, &scale);
        Ok(())
    }
}

const WORDS: usize = size_of::<LossScale>() / 4;

fn loss_scale(memory: &[f32]) -> LossScale {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&memory[..WORDS]))
}

fn store(memory: &mut [f32], scale: &LossScale) {
    memory[..WORDS].copy_from_slice(bytemuck::cast_slice(std::slice::from_ref(scale)));
}
