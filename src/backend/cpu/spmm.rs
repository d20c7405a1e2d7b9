use super::{CpuBackend, Input, Output};
use crate::backend::{
    BackendError, Direction,
    kernels::{Spmm, SpmmKernels},
};

impl SpmmKernels for CpuBackend {
    unsafe fn spmm(&self, args: &Spmm<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "spmm";
        let x = Input::new(args.x, KERNEL)?;
        let weight = Input::maybe(args.weight, KERNEL)?;
        let row_scale = Input::maybe(args.row_scale, KERNEL)?;
        let column_scale = Input::maybe(args.column_scale, KERNEL)?;
        let (offsets, columns) = (args.graph.offsets(args.direction), args.graph.columns(args.direction));
        let positions = match args.direction {
            Direction::Forward => None,
            Direction::Transposed => Some(args.graph.host().transpose().positions.as_slice()),
        };
        let coefficient = |k: usize, c: usize| {
            let w = weight.as_ref().map_or(1.0, |w| w.at(positions.map_or(k, |p| p[k] as usize)));
            column_scale.as_ref().map_or(w, |s| w * s.at(c))
        };
        let scaled = weight.is_some() || column_scale.is_some();
        let work = columns.len() * args.x.cols();
        Output::new(args.out, KERNEL)?.for_each_row(work, |r, out| {
            out.fill(0.0);
            let edges = offsets[r] as usize..offsets[r + 1] as usize;
            for (k, &c) in edges.clone().zip(&columns[edges]) {
                let c = c as usize;
                if scaled {
                    let w = coefficient(k, c);
                    out.iter_mut().zip(x.row(c)).for_each(|(o, v)| *o += w * v);
                } else {
                    out.iter_mut().zip(x.row(c)).for_each(|(o, v)| *o += v);
                }
            }
            if let Some(s) = &row_scale {
                let s = s.at(r);
                out.iter_mut().for_each(|o| *o *= s);
            }
        });
        Ok(())
    }
}
