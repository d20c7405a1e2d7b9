use std::ops::Range;

use super::{
    Dispatch, WgpuBackend,
    gather::chunks_of,
    graph::{Array, HeavyRows, ResidentGraph},
    slices::{align_down, edge_slices, fits, panel_chunks, row_slices},
    variants::{Flag, Kernel, Variant},
};
use crate::{
    backend::{
        BackendError, DeviceGraph, Direction, Indices, Tensor,
        kernels::{Ingredients, Reduce, ReduceCoefficients, ReduceGradient, ReduceKernels, Statistic},
        row_stride,
    },
    graph::NO_EDGE,
    plan::ReducePlan,
};

/// The arrays of the graph that a launch reads.
struct Arrays {
    offsets: Indices,
    columns: Indices,
    tagged_columns: Option<Indices>,
    positions: Option<Indices>,
}

/// A range of columns, in the chunks of its launch: of the whole matrices, and of what is bound of `x`.
struct Columns<'a> {
    x: &'a Tensor,
    first: usize,
    chunks: usize,
}

/// What a source gathers from its destinations, whole or a panel of it. Strides and parts are in chunks.
struct Gathered<'a> {
    coefficients: &'a Tensor,
    stride: usize,
    part: usize,
    arguments: Option<&'a Tensor>,
    arguments_stride: usize,
    arguments_first: usize,
    arguments_part: usize,
    /// Where in a row of the arguments their low bytes start, in words, if they are there.
    bytes_at: Option<usize>,
    /// The columns of the output.
    first: usize,
    chunks: usize,
}

impl ReduceKernels for WgpuBackend {
    unsafe fn reduce(&self, args: &Reduce<'_>) -> Result<(), BackendError> {
        let resident = self.resident(args.graph)?;
        let arrays = Arrays::of(&resident, args.graph, Direction::Forward, false)?;
        let kept_stride = args.kept.map_or(1, Tensor::stride);
        let strides = [args.out.stride(), kept_stride];
        let offsets = args.graph.offsets(Direction::Forward);
        let slices = edge_slices(offsets, &strides, self.capabilities.max_binding_bytes);
        let chunk = args.plan.chunk as usize;
        let features = args.x.cols();
        self.for_each_panel(args.x, |panel, first_quad| {
            let first = first_quad * 4 / chunk;
            // The last panel is padded, but numbers past a statistic are another's.
            let chunks = (panel.stride() / chunk).min(features.div_ceil(chunk) - first);
            let columns = Columns { x: panel, first, chunks };
            for slice in &slices {
                // Heavy rows start first: they take longest.
                if let Some(heavy) = resident.heavy_rows(args.graph, Direction::Forward, args.plan.segment, slice)? {
                    self.reduce_heavy(args, &arrays, &columns, slice, &heavy)?;
                }
                let light = resident.light_rows(args.graph, Direction::Forward, args.plan.segment, slice)?;
                let dispatch = reduce_launch(args, &arrays, &columns, slice).param("tasks", light.len() / 4).words(
                    "task_list",
                    light.buffer(),
                    0,
                    light.len(),
                );
                let dispatch = reduce_outputs(dispatch, args, &columns, slice);
                self.run(dispatch.threads(light.len() / 4 * args.plan.lanes as usize))?;
            }
            Ok(())
        })
    }

    unsafe fn reduce_coefficients(&self, args: &ReduceCoefficients<'_>) -> Result<(), BackendError> {
        let resident = self.resident(args.graph)?;
        let offsets = resident.array(args.graph, Direction::Forward, Array::Offsets)?;
        let parts = Ingredients::of(args.statistics);
        let features = args.g.cols() / args.statistics.len();
        let strides = [args.g.stride(), args.coefficients.stride(), args.kept.map_or(1, Tensor::stride)];
        // There is one offset more than there are rows.
        for rows in row_slices(args.g.rows(), &strides, self.capabilities.max_binding_bytes - 256) {
            let mut dispatch = Dispatch::new(with_parts(Variant::new(Kernel::ReduceCoefficients), parts))
                .param("tasks", rows.len())
                .param("features", features)
                .param("g_stride", args.g.stride())
                .param("kept_stride", args.kept.map_or(0, Tensor::stride))
                .param("stride", args.coefficients.stride())
                .param("part", row_stride(features))
                .words("offsets", offsets.buffer(), rows.start, rows.len() + 1)
                .rows("g", args.g, rows.start, rows.len())
                .rows("coefficients", args.coefficients, rows.start, rows.len());
            for (name, tensor) in [("out", args.out), ("kept", args.kept)] {
                if let Some(tensor) = tensor {
                    dispatch = dispatch.rows(name, tensor, rows.start, rows.len());
                }
            }
            let dispatch = with_places(dispatch, args.statistics, features);
            self.run(dispatch.threads(rows.len() * features))?;
        }
        Ok(())
    }

    unsafe fn reduce_grad(&self, args: &ReduceGradient<'_>) -> Result<(), BackendError> {
        let parts = Ingredients::of(args.statistics);
        let resident = self.resident(args.graph)?;
        let extremes = parts.extremes() > 0;
        let arrays = Arrays::of(&resident, args.graph, Direction::Transposed, extremes)?;
        let offsets = args.graph.offsets(Direction::Transposed);
        let slices = edge_slices(offsets, &[args.grad_x.stride()], self.capabilities.max_binding_bytes);
        let arguments = args.kept.filter(|_| extremes);
        self.for_each_gathered(args, arguments, |gathered| {
            for slice in &slices {
                if let Some(heavy) = resident.heavy_rows(args.graph, Direction::Transposed, args.plan.segment, slice)? {
                    self.reduce_grad_heavy(args, &arrays, gathered, slice, &heavy)?;
                }
                let light = resident.light_rows(args.graph, Direction::Transposed, args.plan.segment, slice)?;
                let mut dispatch = reduce_grad_launch(args, &arrays, gathered, slice)
                    .param("tasks", light.len() / 4)
                    .param("out_stride", chunks_of(args.grad_x))
                    .param("out_first", gathered.first)
                    .words("task_list", light.buffer(), 0, light.len())
                    .rows("out", args.grad_x, slice.start, slice.len());
                if let Some(slope) = args.slope {
                    dispatch = dispatch.rows("slope", slope, slice.start, slice.len());
                }
                self.run(dispatch.threads(light.len() / 4 * args.plan.lanes as usize))?;
            }
            Ok(())
        })
    }
}

impl Arrays {
    fn of(
        resident: &ResidentGraph,
        graph: &DeviceGraph,
        direction: Direction,
        positions: bool,
    ) -> Result<Self, BackendError> {
        Ok(Self {
            offsets: resident.array(graph, direction, Array::Offsets)?,
            columns: resident.array(graph, direction, Array::Columns)?,
            tagged_columns: positions.then(|| resident.array(graph, direction, Array::TaggedColumns)).transpose()?,
            positions: positions.then(|| resident.array(graph, direction, Array::Positions)).transpose()?,
        })
    }
}

fn with_parts(variant: Variant, parts: Ingredients) -> Variant {
    variant
        .with(Flag::Sums, parts.sums)
        .with(Flag::Squares, parts.squares)
        .with(Flag::Minimum, parts.minimum)
        .with(Flag::Maximum, parts.maximum)
        .with(Flag::Product, parts.product)
        .with(Flag::Softmax, parts.softmax)
}

/// Where each statistic starts in a row, `width` apart.
fn with_places<'a>(dispatch: Dispatch<'a>, statistics: &[Statistic], width: usize) -> Dispatch<'a> {
    let place = |s: Statistic| statistics.iter().position(|&t| t == s).map_or(NO_EDGE as usize, |at| at * width);
    dispatch
        .param("sum_at", place(Statistic::Sum))
        .param("mean_at", place(Statistic::Mean))
        .param("var_at", place(Statistic::Var))
        .param("std_at", place(Statistic::Std))
        .param("minimum_at", place(Statistic::Min))
        .param("maximum_at", place(Statistic::Max))
}

fn with_temperature<'a>(dispatch: Dispatch<'a>, temperature: Option<&'a Tensor>) -> Dispatch<'a> {
    match temperature {
        Some(t) => dispatch.tensor("temperature", t),
        None => dispatch,
    }
}

/// Where in a row of what is kept the low bytes of the arguments start, in words.
fn bytes_at(parts: Ingredients, features: usize) -> usize {
    (usize::from(parts.squares) + parts.extremes()) * row_stride(features)
}

/// The edges of the rows of a slice, from an aligned start.
fn edges_of(offsets: &[u32], slice: &Range<usize>) -> Range<usize> {
    align_down(offsets[slice.start] as usize)..offsets[slice.end] as usize
}

/// What whole rows and segments have in common.
fn reduce_launch<'a>(
    args: &Reduce<'a>,
    arrays: &'a Arrays,
    columns: &Columns<'a>,
    slice: &Range<usize>,
) -> Dispatch<'a> {
    let edges = edges_of(args.graph.offsets(Direction::Forward), slice);
    let variant = with_parts(Variant::new(Kernel::ReduceForward), Ingredients::of(args.statistics));
    with_temperature(Dispatch::new(variant), args.temperature)
        .with(Flag::Scalar, args.plan.chunk == 1)
        .with(Flag::Keep, args.kept.is_some())
        .param("chunks", columns.chunks)
        .param("edge_base", edges.start)
        .param("x_stride", columns.x.stride() / args.plan.chunk as usize)
        .param("lanes_log2", args.plan.lanes.ilog2() as usize)
        .words("columns", arrays.columns.buffer(), edges.start, edges.len())
        .tensor("x", columns.x)
}

/// What is written of a row.
fn reduce_outputs<'a>(
    dispatch: Dispatch<'a>,
    args: &Reduce<'a>,
    columns: &Columns<'_>,
    slice: &Range<usize>,
) -> Dispatch<'a> {
    let chunk = args.plan.chunk as usize;
    let features = args.x.cols();
    let dispatch = with_places(dispatch, args.statistics, features / chunk)
        .param("out_stride", args.out.stride() / chunk)
        .param("out_first", columns.first)
        .param("kept_stride", args.kept.map_or(0, Tensor::stride) / chunk)
        .param("kept_part", row_stride(features) / chunk)
        .param("bytes_at", bytes_at(Ingredients::of(args.statistics), features))
        .rows("out", args.out, slice.start, slice.len());
    match args.kept {
        Some(kept) => dispatch.rows("kept", kept, slice.start, slice.len()),
        None => dispatch,
    }
}

fn reduce_grad_launch<'a>(
    args: &ReduceGradient<'a>,
    arrays: &'a Arrays,
    gathered: &Gathered<'a>,
    slice: &Range<usize>,
) -> Dispatch<'a> {
    let edges = edges_of(args.graph.offsets(Direction::Transposed), slice);
    let parts = Ingredients::of(args.statistics);
    let columns = arrays.tagged_columns.as_ref().filter(|_| gathered.bytes_at.is_some()).unwrap_or(&arrays.columns);
    let dispatch = Dispatch::new(with_parts(Variant::new(Kernel::ReduceBackward), parts));
    let mut dispatch = with_temperature(dispatch, args.temperature)
        .with(Flag::Scalar, args.plan.chunk == 1)
        .with(Flag::Slope, args.slope.is_some())
        .param("chunks", gathered.chunks)
        .param("edge_base", edges.start)
        .param("x_stride", chunks_of(args.grad_x))
        .param("x_first", gathered.first)
        .param("lanes_log2", args.plan.lanes.ilog2() as usize)
        .param("stride", gathered.stride)
        .param("part", gathered.part)
        .param("arguments_stride", gathered.arguments_stride)
        .param("arguments_first", gathered.arguments_first)
        .param("arguments_part", gathered.arguments_part)
        .words("columns", columns.buffer(), edges.start, edges.len())
        .maybe_rows(Flag::Own, "x", args.x.filter(|_| parts.reads_x()), slice.start, slice.len())
        .tensor("coefficients", gathered.coefficients);
    if let Some(positions) = &arrays.positions {
        dispatch =
            dispatch.with(Flag::Arguments, true).words("positions", positions.buffer(), edges.start, edges.len());
    }
    if let (Some(at), Some(arguments)) = (gathered.bytes_at, gathered.arguments) {
        dispatch = dispatch.with(Flag::Bytes, true).param("bytes_at", at).tensor("bytes", arguments);
    }
    match gathered.arguments {
        Some(arguments) => dispatch.tensor("arguments", arguments),
        None => dispatch,
    }
}

impl WgpuBackend {
    fn reduce_heavy(
        &self,
        args: &Reduce<'_>,
        arrays: &Arrays,
        columns: &Columns<'_>,
        slice: &Range<usize>,
        heavy: &HeavyRows,
    ) -> Result<(), BackendError> {
        let parts = Ingredients::of(args.statistics);
        let arguments = if args.kept.is_some() { parts.extremes() } else { 0 };
        let alone = 2 * usize::from(parts.product) + 3 * usize::from(parts.softmax);
        let fields = usize::from(parts.sums) + usize::from(parts.squares) + parts.extremes() + arguments + alone;
        let stride = fields * columns.chunks;
        let words = heavy.num_segments * stride * args.plan.chunk as usize;
        let partials = Indices::uninit(args.x.device(), words, "statistics of edge segments")?;
        let segments = reduce_launch(args, arrays, columns, slice)
            .with(Flag::Segmented, true)
            .param("tasks", heavy.num_segments)
            .param("partial_stride", stride)
            .words("task_list", heavy.segments.buffer(), 0, heavy.segments.len())
            .words("partials", partials.buffer(), 0, words);
        let segments = reduce_outputs(segments, args, columns, slice);
        self.run(segments.threads(heavy.num_segments * args.plan.lanes as usize))?;
        let merge = Dispatch::new(with_parts(Variant::new(Kernel::ReduceMerge), parts))
            .with(Flag::Scalar, args.plan.chunk == 1)
            .with(Flag::Keep, args.kept.is_some())
            .param("tasks", heavy.num_rows)
            .param("chunks", columns.chunks)
            .param("partial_stride", stride)
            .words("offsets", arrays.offsets.buffer(), slice.start, slice.len() + 1)
            .words("heavy", heavy.rows.buffer(), 0, heavy.rows.len())
            .words("partials", partials.buffer(), 0, words);
        let merge = reduce_outputs(merge, args, columns, slice);
        self.run(merge.threads(heavy.num_rows * columns.chunks))
    }

    /// Calls `f` with what sources gather, or with copies of its column panels one after the other where it does not
    /// fit a binding.
    fn for_each_gathered(
        &self,
        args: &ReduceGradient<'_>,
        arguments: Option<&Tensor>,
        mut f: impl FnMut(&Gathered<'_>) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let parts = Ingredients::of(args.statistics);
        let chunk = args.plan.chunk as usize;
        let part = row_stride(args.grad_x.cols()) / chunk;
        let skipped = if parts.squares { part } else { 0 };
        // Number by number there are no words of bytes.
        let kept_in_chunks = ReducePlan::chunk(args.grad_x.cols(), args.statistics.len()) == 4;
        if fits(self, args.coefficients) && arguments.is_none_or(|a| fits(self, a)) {
            return f(&Gathered {
                coefficients: args.coefficients,
                stride: args.coefficients.stride() / chunk,
                part,
                arguments,
                arguments_stride: arguments.map_or(0, Tensor::stride) / chunk,
                arguments_first: skipped,
                arguments_part: part,
                bytes_at: (arguments.is_some() && kept_in_chunks && chunk == 4)
                    .then(|| bytes_at(parts, args.grad_x.cols())),
                first: 0,
                chunks: part,
            });
        }
        let (rows, copies) = (args.coefficients.rows(), args.coefficients.stride() / row_stride(args.grad_x.cols()));
        let width = panel_chunks(self, rows * copies)?;
        let extremes = parts.extremes();
        for first in (0..part).step_by(width) {
            let chunks = width.min(part - first);
            let panel = |from: &Tensor, parts: Range<usize>| {
                let panel = Tensor::uninit_on(from, rows, parts.len() * chunks * 4, "column panel")?;
                for (to, p) in parts.enumerate() {
                    self.copy_chunks(from, p * part + first, &panel, to * chunks, chunks)?;
                }
                Ok::<_, BackendError>(panel)
            };
            let coefficients = panel(args.coefficients, 0..copies)?;
            let skipped = usize::from(parts.squares);
            let arguments = arguments.map(|a| panel(a, skipped..skipped + extremes)).transpose()?;
            f(&Gathered {
                coefficients: &coefficients,
                stride: copies * chunks,
                part: chunks,
                arguments: arguments.as_ref(),
                arguments_stride: extremes * chunks,
                arguments_first: 0,
                arguments_part: chunks,
                bytes_at: None,
                first,
                chunks,
            })?;
        }
        Ok(())
    }

    fn reduce_grad_heavy(
        &self,
        args: &ReduceGradient<'_>,
        arrays: &Arrays,
        gathered: &Gathered<'_>,
        slice: &Range<usize>,
        heavy: &HeavyRows,
    ) -> Result<(), BackendError> {
        let cols = gathered.chunks * args.plan.chunk as usize;
        let partials = |out: &Tensor| Tensor::uninit_on(out, heavy.num_segments, cols, "gradients of edge segments");
        let (grad_x, slope) = (partials(args.grad_x)?, args.slope.map(partials).transpose()?);
        let mut segments = reduce_grad_launch(args, arrays, gathered, slice)
            .with(Flag::Segmented, true)
            .param("tasks", heavy.num_segments)
            .param("out_stride", gathered.chunks)
            .param("out_first", 0)
            .words("task_list", heavy.segments.buffer(), 0, heavy.segments.len())
            .tensor("out", &grad_x);
        if let Some(slope) = &slope {
            segments = segments.tensor("slope", slope);
        }
        self.run(segments.threads(heavy.num_segments * args.plan.lanes as usize))?;
        for (partials, out) in std::iter::once((&grad_x, args.grad_x)).chain(slope.as_ref().zip(args.slope)) {
            let merge = Dispatch::new(Variant::new(Kernel::SpmmMerge))
                .with(Flag::Scalar, args.plan.chunk == 1)
                .param("tasks", heavy.num_rows)
                .param("chunks", gathered.chunks)
                .param("out_stride", chunks_of(out))
                .param("out_first", gathered.first)
                .words("heavy", heavy.rows.buffer(), 0, heavy.rows.len())
                .tensor("partials", partials)
                .rows("out", out, slice.start, slice.len());
            self.run(merge.threads(heavy.num_rows * gathered.chunks))?;
        }
        Ok(())
    }
}
