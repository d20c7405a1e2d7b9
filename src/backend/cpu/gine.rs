use super::{CpuBackend, Input, Output, write};
use crate::backend::{
    BackendError, Direction,
    kernels::{GineBackward, GineForward, GineKernels},
};

impl GineKernels for CpuBackend {
    unsafe fn gine(&self, args: &GineForward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gine";
        let (x, e) = (Input::new(args.x, KERNEL)?, Input::new(args.e, KERNEL)?);
        let (offsets, columns) = (args.graph.offsets(Direction::Forward), args.graph.columns(Direction::Forward));
        let first_edge = offsets[args.rows.start as usize] as usize;
        let mut out = Output::new(args.out, KERNEL)?;
        let (cols, stride) = (out.cols, out.stride);
        let range = args.rows.start as usize * stride..args.rows.end as usize * stride;
        super::threads::for_each_row(&mut out.memory[range], stride, args.e.words(), |r, out| {
            let i = args.rows.start as usize + r;
            let out = &mut out[..cols];
            out.fill(0.0);
            let edges = offsets[i] as usize..offsets[i + 1] as usize;
            for (k, &j) in edges.clone().zip(&columns[edges]) {
                let (x, e) = (x.row(j as usize), e.row(k - first_edge));
                out.iter_mut().zip(x).zip(e).for_each(|((o, x), e)| *o += (x + e).max(0.0));
            }
        });
        Ok(())
    }

    unsafe fn gine_grad(&self, args: &GineBackward<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "gine_grad";
        let (x, g) = (Input::new(args.x, KERNEL)?, Input::new(args.g, KERNEL)?);
        let (offsets, columns) = (args.graph.offsets(Direction::Transposed), args.graph.columns(Direction::Transposed));
        let first_edge = offsets[args.rows.start as usize] as usize;
        let mut grad_x = Output::new(args.grad_x, KERNEL)?;
        let mut e = write(args.e.buffer(), KERNEL)?;
        let (cols, stride) = (grad_x.cols, grad_x.stride);
        for j in args.rows.start as usize..args.rows.end as usize {
            let grad_x = &mut grad_x.memory[j * stride..j * stride + cols];
            grad_x.fill(0.0);
            for k in offsets[j] as usize..offsets[j + 1] as usize {
                let e = &mut e[(k - first_edge) * stride..][..cols];
                let g = g.row(columns[k] as usize);
                for (((e, x), g), grad_x) in e.iter_mut().zip(x.row(j)).zip(g).zip(grad_x.iter_mut()) {
                    *e = if *e + x > 0.0 { *g } else { 0.0 };
                    *grad_x += *e;
                }
            }
        }
        Ok(())
    }
}
