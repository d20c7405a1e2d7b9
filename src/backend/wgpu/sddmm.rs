use super::{
    Dispatch, WgpuBackend,
    graph::Array,
    slices::{align_down, edge_slices},
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Sddmm, SddmmKernels},
};

impl SddmmKernels for WgpuBackend {
    unsafe fn sddmm(&self, args: &Sddmm<'_>) -> Result<(), BackendError> {
        let resident = self.resident(args.graph)?;
        let rows = resident.array(args.graph, Direction::Forward, Array::Rows)?;
        let columns = resident.array(args.graph, Direction::Forward, Array::Columns)?;
        let offsets = args.graph.offsets(Direction::Forward);
        let limit = self.capabilities.max_binding_bytes;
        self.for_each_panel(args.b, |panel, first_chunk| {
            // The same columns of the other factor; it is read row after row, so its own rows are cut instead.
            let first_feature = first_chunk * 4;
            let features = panel.cols().min(args.b.cols() - first_feature);
            let left = self.columns_of(args.a, first_feature, panel)?;
            let left = left.as_ref().unwrap_or(args.a);
            for slice in edge_slices(offsets, &[left.stride()], limit) {
                let (first, end) = (offsets[slice.start] as usize, offsets[slice.end] as usize);
                if first == end {
                    continue;
                }
                let base = align_down(first);
                let lanes = features.next_power_of_two().min(16);
                let dispatch = Dispatch::new(Variant::new(Kernel::Sddmm))
                    .with(Flag::Accumulate, first_chunk > 0)
                    .param("edges", end - first)
                    .param("first_edge", first - base)
                    .param("row_base", slice.start)
                    .param("features", features)
                    .param("a_stride", left.stride())
                    .param("b_stride", panel.stride())
                    .param("lanes_log2", lanes.ilog2() as usize)
                    .words("rows", rows.buffer(), base, end - base)
                    .words("columns", columns.buffer(), base, end - base)
                    .rows("a", left, slice.start, slice.len())
                    .tensor("b", panel)
                    .maybe_rows(Flag::RowScale, "row_scale", args.row_scale, slice.start, slice.len())
                    .maybe_rows(Flag::ColumnScale, "column_scale", args.column_scale, 0, args.b.rows())
                    .rows("out", args.out, base, end - base);
                self.run(dispatch.threads((end - first) * lanes))?;
            }
            Ok(())
        })
    }
}

impl WgpuBackend {
    /// A copy of the columns of `a` from `first` on that pair with `panel`, or nothing where the panel is the whole matrix.
    fn columns_of(&self, a: &Tensor, first: usize, panel: &Tensor) -> Result<Option<Tensor>, BackendError> {
        if panel.cols() == a.cols() {
            return Ok(None);
        }
        let copy = Tensor::uninit_on(a, a.rows(), panel.cols(), "column panel")?;
        self.copy_chunks(a, first / 4, &copy, 0, panel.cols() / 4)?;
        Ok(Some(copy))
    }
}
