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
        let mut out = write(args.out.buffer(), KERNEL)?;
        threads::for_each_edge(args.graph.host(), &mut out, args.a.cols(), |_, i, j, out| {
            let dot: f32 = a.row(i).iter().zip(b.row(j)).map(|(x, y)| x * y).sum();
            let scale = |side: &Option<Input<'_>>, r: usize| side.as_ref().map_or(1.0, |s| s.at(r));
            *out = dot * scale(&row_scale, i) * scale(&column_scale, j);
        });
        Ok(())
    }
}
