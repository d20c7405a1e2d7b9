use super::{CpuBackend, Input, threads, vectors::dot, write};
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
            let scale = |side: &Option<Input<'_>>, r: usize| side.as_ref().map_or(1.0, |s| s.at(r));
            *out = dot(a.row(i), b.row(j)) * scale(&row_scale, i) * scale(&column_scale, j);
        });
        Ok(())
    }
}
