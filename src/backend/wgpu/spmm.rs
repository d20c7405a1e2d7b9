use std::ops::Range;

use super::{
    Dispatch, WgpuBackend,
    gather::chunks_of,
    graph::{Array, HeavyRows},
    slices::{align_down, edge_slices},
    variants::{Flag, Kernel, Variant},
};
use crate::{
    backend::{
        BackendError, Direction, Indices, Tensor,
        kernels::{Spmm, SpmmKernels},
    },
    plan::Mapping,
};

/// The arrays of the graph that a launch reads.
struct Arrays {
    columns: Indices,
    positions: Option<Indices>,
}

impl SpmmKernels for WgpuBackend {
    unsafe fn spmm(&self, args: &Spmm<'_>) -> Result<(), BackendError> {
        let resident = self.resident(args.graph)?;
        let permuted = args.direction == Direction::Transposed && args.weight.is_some();
        let arrays = Arrays {
            columns: resident.array(args.graph, args.direction, Array::Columns)?,
            positions: permuted.then(|| resident.array(args.graph, args.direction, Array::Positions)).transpose()?,
        };
        let offsets = args.graph.offsets(args.direction);
        let slices = edge_slices(offsets, &[args.out.row_words()], self.capabilities.max_binding_bytes);
        self.for_each_panel(args.x, |panel, first_chunk| {
            for slice in &slices {
                // Heavy rows start first: they take longest.
                if let Some(heavy) = resident.heavy_rows(args.graph, args.direction, args.plan.segment, slice)? {
                    self.spmm_heavy(args, &arrays, panel, first_chunk, slice, &heavy)?;
                }
                let light = resident.light_rows(args.graph, args.direction, args.plan.segment, slice)?;
                let dispatch = self
                    .spmm_launch(args, &arrays, panel, slice)
                    .param("tasks", light.len() / 4)
                    .param("out_stride", chunks_of(args.out))
                    .param("out_first", first_chunk)
                    .words("task_list", light.buffer(), 0, light.len())
                    .maybe_rows(Flag::RowScale, "row_scale", args.row_scale, slice.start, slice.len())
                    .rows("out", args.out, slice.start, slice.len());
                self.run(dispatch.threads(light.len() / 4 * args.plan.lanes as usize))?;
            }
            Ok(())
        })
    }
}

impl WgpuBackend {
    /// What whole rows and segments have in common.
    fn spmm_launch<'a>(
        &self,
        args: &Spmm<'a>,
        arrays: &'a Arrays,
        panel: &'a Tensor,
        slice: &Range<usize>,
    ) -> Dispatch<'a> {
        let offsets = args.graph.offsets(args.direction);
        let edges = align_down(offsets[slice.start] as usize)..offsets[slice.end] as usize;
        let kernel = match args.plan.mapping {
            Mapping::FeatureParallel => Kernel::SpmmFeature,
            Mapping::NeighbourParallel => Kernel::SpmmNeighbour,
        };
        let mut dispatch = Dispatch::new(Variant::new(kernel))
            .with(Flag::Scalar, panel.cols() == 1)
            .with(Flag::Half, panel.dtype().is_half())
            .param("chunks", chunks_of(panel))
            .param("edge_base", edges.start)
            .param("x_stride", chunks_of(panel))
            .param("lanes_log2", args.plan.lanes.ilog2() as usize)
            .words("columns", arrays.columns.buffer(), edges.start, edges.len())
            .maybe_rows(Flag::ColumnScale, "column_scale", args.column_scale, 0, panel.rows())
            .tensor("x", panel);
        if let Some(weight) = args.weight {
            dispatch = dispatch.with(Flag::Weighted, true);
            dispatch = match &arrays.positions {
                Some(positions) => dispatch
                    .with(Flag::Permuted, true)
                    .words("positions", positions.buffer(), edges.start, edges.len())
                    .tensor("weight", weight),
                None => dispatch.rows("weight", weight, edges.start, edges.len()),
            };
        }
        dispatch
    }

    fn spmm_heavy(
        &self,
        args: &Spmm<'_>,
        arrays: &Arrays,
        panel: &Tensor,
        first_chunk: usize,
        slice: &Range<usize>,
        heavy: &HeavyRows,
    ) -> Result<(), BackendError> {
        let chunks = chunks_of(panel);
        // In 32 bits, as wide as the panel with its padding.
        let cols = if panel.dtype().is_half() { panel.stride() } else { panel.cols() };
        let partials = Tensor::uninit_on(panel, heavy.num_segments, cols, "sums of edge segments")?;
        let segments = self
            .spmm_launch(args, arrays, panel, slice)
            .with(Flag::Segmented, true)
            .param("tasks", heavy.num_segments)
            .param("out_stride", chunks)
            .param("out_first", 0)
            .words("task_list", heavy.segments.buffer(), 0, heavy.segments.len())
            .tensor("out", &partials);
        self.run(segments.threads(heavy.num_segments * args.plan.lanes as usize))?;
        self.merge_segments(&heavy.rows, &partials, first_chunk, args.row_scale, args.out, slice.clone())
    }

    /// Adds the sums of segments up to those of heavy rows, which are listed as (row, first segment, one past last, 0): chunks from `first_chunk` on of the rows `slice` of `out`.
    pub(super) fn merge_segments(
        &self,
        rows: &Indices,
        partials: &Tensor,
        first_chunk: usize,
        row_scale: Option<&Tensor>,
        out: &Tensor,
        slice: Range<usize>,
    ) -> Result<(), BackendError> {
        let chunks = chunks_of(partials);
        let merge = Dispatch::new(Variant::new(Kernel::SpmmMerge))
            .with(Flag::Scalar, partials.cols() == 1)
            .with(Flag::Half, out.dtype().is_half())
            .param("tasks", rows.len() / 4)
            .param("chunks", chunks)
            .param("out_stride", chunks_of(out))
            .param("out_first", first_chunk)
            .words("heavy", rows.buffer(), 0, rows.len())
            .tensor("partials", partials)
            .maybe_rows(Flag::RowScale, "row_scale", row_scale, slice.start, slice.len())
            .rows("out", out, slice.start, slice.len());
        self.run(merge.threads(rows.len() / 4 * chunks))
    }
}
