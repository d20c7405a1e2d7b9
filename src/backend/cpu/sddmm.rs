use super::{CpuBackend, Input, threads, write};
use crate::backend::{
    BackendError,
    kernels::{Sddmm, SddmmKernels},
};

impl SddmmKernels for CpuBackend {
    unsafe fn sddmm(&self, args: &Sddmm<'_>) -> Result<(), BackendError> {
        const KERNEL: &str = "sddmm";
        let (a, b) = (Input::new(args.a, KERNEL)?, Input::new(args.b, KERNEL)?);
        let row_scale = Input::maybe(args.row_scale, KERNEL)?;
        let column_scale = Input::maybe(args.column_scale, KERNEL)?;
        let graph = args.graph.host();
        let mut out = write(args.out.buffer(), KERNEL)?;
        // Edges are shared out evenly; each piece finds its first row by bisection.
        threads::for_each_piece(&mut out[..graph.columns().len()], args.a.cols(), |first, piece| {
            let mut i = graph.offsets().partition_point(|&o| o as usize <= first).saturating_sub(1);
            for (k, o) in (first..).zip(piece) {
                while graph.offsets()[i + 1] as usize <= k {
                    i += 1;
                }
                let j = graph.columns()[k] as usize;
                let dot: f32 = a.row(i).iter().zip(b.row(j)).map(|(x, y)| x * y).sum();
                let scale =
                    row_scale.as_ref().map_or(1.0, |s| s.at(i)) * column_scale.as_ref().map_or(1.0, |s| s.at(j));
                *o = dot * scale;
            }
        });
        Ok(())
    }
}
