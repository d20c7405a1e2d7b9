use super::{CpuBackend, Input, Output};
use crate::backend::{
    BackendError, Tensor,
    kernels::{Gate, GateBackward, GateKernels},
};

/// The weights of `x`, `r` and `x - r`.
fn thirds<'a>(weight: &'a Input<'_>) -> [&'a [f32]; 3] {
    let (row, cols) = (weight.row(0), weight.cols / 3);
    [&row[..cols], &row[cols..2 * cols], &row[2 * cols..]]
}

impl GateKernels for CpuBackend {
    unsafe fn gate(&self, args: &Gate<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gate";
        let (x, r) = (Input::new(args.x, KERNEL)?, Input::new(args.r, KERNEL)?);
        let weight = Input::new(args.weight, KERNEL)?;
        let w = thirds(&weight);
        let mut b = Output::new(args.b, KERNEL)?;
        Output::new(args.out, KERNEL)?.for_each_row_with(&mut b, args.x.words(), |i, out, b| {
            let (x, r) = (x.row(i), r.row(i));
            let sum: f32 = (0..x.len()).map(|c| w[0][c] * x[c] + w[1][c] * r[c] + w[2][c] * (x[c] - r[c])).sum();
            b[0] = 1.0 / (1.0 + (-sum).exp());
            out.iter_mut().zip(x.iter().zip(r)).for_each(|(o, (x, r))| *o = b[0] * r + (1.0 - b[0]) * x);
        });
        Ok(())
    }

    unsafe fn gate_grad(&self, args: &GateBackward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gate_grad";
        let (x, r, g) = (Input::new(args.x, KERNEL)?, Input::new(args.r, KERNEL)?, Input::new(args.g, KERNEL)?);
        let (weight, b) = (Input::new(args.weight, KERNEL)?, Input::new(args.b, KERNEL)?);
        let w = thirds(&weight);
        let mut z = Output::new(args.z, KERNEL)?;
        z.for_each_row(args.x.words(), |i, z| {
            let terms = g.row(i).iter().zip(r.row(i).iter().zip(x.row(i)));
            z[0] = terms.map(|(g, (r, x))| g * (r - x)).sum::<f32>() * b.at(i) * (1.0 - b.at(i));
        });
        let slope = |i: usize| z.memory[i];
        let mut grad_r = Output::new(args.grad_r, KERNEL)?;
        Output::new(args.grad_x, KERNEL)?.for_each_row_with(&mut grad_r, args.x.words(), |i, grad_x, grad_r| {
            for (c, g) in g.row(i).iter().enumerate() {
                grad_x[c] = (1.0 - b.at(i)) * g + slope(i) * (w[0][c] + w[2][c]);
                grad_r[c] = b.at(i) * g + slope(i) * (w[1][c] - w[2][c]);
            }
        });
        Ok(())
    }

    unsafe fn gate_weight(&self, u: &Tensor, t: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        const KERNEL: &str = "gate_weight";
        let (u, t) = (Input::new(u, KERNEL)?, Input::new(t, KERNEL)?);
        let cols = u.cols;
        Output::new(out, KERNEL)?.for_each_row(0, |_, out| {
            for (c, (u, t)) in u.row(0).iter().zip(t.row(0)).enumerate() {
                out[c] = *u;
                out[cols + c] = *t;
                out[2 * cols + c] = u - t;
            }
        });
        Ok(())
    }
}
