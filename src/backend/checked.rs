//! The kernels as an application calls them: shapes and devices are checked, then the backend is trusted.

use super::{
    BackendError, Buffer, Device, DeviceGraph, DeviceInfo, Direction, Indices, MemoryStats, ReadFuture, Tensor,
    kernels::{
        AdamUpdate, Attention, BlockCopy, ColumnNorm, ColumnNormBackward, DropoutMask, EdgeTerm, Gat, GatBackward,
        Gate, GateBackward, Gatv2, Gatv2Backward, Gemm, GineBackward, GineForward, Ingredients, Reduce,
        ReduceCoefficients, ReduceGradient, RowNorm, RowNormBackward, Sddmm, Spmm, Statistic, TransformerBackward,
        TransformerForward, Unary,
    },
};
use crate::plan::{AttentionPlan, Capabilities, ReducePlan, TransformerPlan};

/// Collects what a kernel's arguments must fulfil.
struct Check<'a> {
    device: &'a Device,
    kernel: &'static str,
}

type Checked = Result<(), BackendError>;

impl Check<'_> {
    /// A tensor of this device with exactly this shape.
    fn tensor(&self, what: &'static str, tensor: &Tensor, expected: [usize; 2]) -> Checked {
        if !tensor.device().same(self.device) {
            return Err(BackendError::WrongDevice(self.kernel));
        }
        if tensor.shape() == expected {
            return Ok(());
        }
        Err(BackendError::Shape { kernel: self.kernel, what, got: tensor.shape(), expected })
    }

    /// Tensors of one shape.
    fn alike(&self, shape: [usize; 2], tensors: &[(&'static str, &Tensor)]) -> Checked {
        tensors.iter().try_for_each(|(what, tensor)| self.tensor(what, tensor, shape))
    }

    fn maybe(&self, what: &'static str, tensor: Option<&Tensor>, expected: [usize; 2]) -> Checked {
        tensor.map_or(Ok(()), |t| self.tensor(what, t, expected))
    }

    /// Refuses an argument that is `wrong`.
    fn argument(&self, what: &'static str, wrong: bool, got: impl ToString, expected: impl ToString) -> Checked {
        if !wrong {
            return Ok(());
        }
        let (got, expected) = (got.to_string(), expected.to_string());
        Err(BackendError::Argument { kernel: self.kernel, what, got, expected })
    }

    fn graph(&self, graph: &DeviceGraph) -> Checked {
        if graph.device().same(self.device) { Ok(()) } else { Err(BackendError::WrongDevice(self.kernel)) }
    }

    /// As many numbers as there are rows.
    fn indices(&self, what: &'static str, indices: &Indices, len: usize) -> Checked {
        if indices.len() == len {
            return Ok(());
        }
        Err(BackendError::Shape { kernel: self.kernel, what, got: [indices.len(), 1], expected: [len, 1] })
    }

    /// Numbers of rows that exist.
    fn rows_exist(&self, indices: &Indices, rows: usize) -> Checked {
        if u64::from(indices.bound()) <= rows as u64 {
            return Ok(());
        }
        Err(BackendError::Shape {
            kernel: self.kernel,
            what: "the matrix that rows are named of",
            got: [rows, 1],
            expected: [indices.bound() as usize, 1],
        })
    }
}

impl Device {
    fn check(&self, kernel: &'static str) -> Check<'_> {
        Check { device: self, kernel }
    }

    /// Who this device is.
    pub fn info(&self) -> &DeviceInfo {
        self.backend().info()
    }

    /// What plans may use.
    pub fn capabilities(&self) -> &Capabilities {
        self.backend().capabilities()
    }

    /// See [`Memory::allocate`](super::Memory::allocate).
    ///
    /// # Errors
    /// If there is no room.
    pub fn allocate(&self, words: usize, label: &'static str) -> Result<Buffer, BackendError> {
        self.backend().allocate(words, label)
    }

    /// See [`Memory::write`](super::Memory::write).
    ///
    /// # Errors
    /// If `words` do not fit the buffer, or what the device reports.
    pub fn write(&self, buffer: &Buffer, words: &[u32]) -> Checked {
        self.backend().write(buffer, words)
    }

    /// See [`Memory::fill`](super::Memory::fill).
    ///
    /// # Errors
    /// If `words` do not fit the buffer, or what the device reports.
    pub fn fill(&self, buffer: &Buffer, words: usize, value: u32) -> Checked {
        self.backend().fill(buffer, words, value)
    }

    /// See [`Memory::read`](super::Memory::read).
    pub fn read<'a>(&'a self, buffer: &Buffer, words: usize) -> ReadFuture<'a> {
        self.backend().read(buffer, words)
    }

    /// See [`Memory::flush`](super::Memory::flush).
    ///
    /// # Errors
    /// What the device reports.
    pub fn flush(&self) -> Checked {
        self.backend().flush()
    }

    /// How much memory is in use.
    pub fn memory(&self) -> MemoryStats {
        self.backend().memory()
    }

    /// Lets [`MemoryStats::peak`] count from now on.
    pub fn reset_peak(&self) {
        self.backend().reset_peak();
    }

    /// Runs [`Spmm`].
    ///
    /// # Errors
    /// If a shape does not fit the graph, or what the device reports.
    pub fn spmm(&self, args: &Spmm<'_>) -> Checked {
        let check = self.check("spmm");
        check.graph(args.graph)?;
        let (rows, columns) = args.graph.dims(args.direction);
        let features = args.x.cols();
        check.tensor("x", args.x, [columns, features])?;
        check.maybe("the edge weights", args.weight, [args.graph.num_edges(), 1])?;
        check.maybe("the row scale", args.row_scale, [rows, 1])?;
        check.maybe("the column scale", args.column_scale, [columns, 1])?;
        check.tensor("the output", args.out, [rows, features])?;
        let (lanes, most) = (args.plan.lanes, self.capabilities().workgroup_size);
        let wrong = !lanes.is_power_of_two() || lanes > most;
        check.argument("lanes a row", wrong, lanes, format_args!("a power of two up to {most}"))?;
        check.argument("edges a segment", args.plan.segment == 0, 0, "at least 1")?;
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().spmm(args) }
    }

    /// Runs [`Reduce`].
    ///
    /// # Errors
    /// If no statistic is named or one twice, if a shape does not fit the graph, or what the device reports.
    pub fn reduce(&self, args: &Reduce<'_>) -> Checked {
        let check = self.check("reduce");
        check.graph(args.graph)?;
        check.statistics(args.statistics)?;
        let (rows, columns) = args.graph.dims(Direction::Forward);
        let features = args.x.cols();
        check.tensor("x", args.x, [columns, features])?;
        check.tensor("the output", args.out, [rows, args.statistics.len() * features])?;
        check.temperature(args.statistics, args.temperature)?;
        check.maybe("what is kept", args.kept, [rows, Ingredients::of(args.statistics).kept_cols(features)])?;
        check.reduce_plan(args.plan, features, args.statistics.len())?;
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().reduce(args) }
    }

    /// Runs [`ReduceCoefficients`].
    ///
    /// # Errors
    /// As [`Device::reduce`].
    pub fn reduce_coefficients(&self, args: &ReduceCoefficients<'_>) -> Checked {
        let check = self.check("reduce_coefficients");
        check.graph(args.graph)?;
        check.statistics(args.statistics)?;
        let rows = args.graph.num_dst();
        let features = args.g.cols() / args.statistics.len();
        let outputs = [rows, args.statistics.len() * features];
        check.tensor("the gradient", args.g, outputs)?;
        let parts = Ingredients::of(args.statistics);
        check.needed("the output", args.out, parts.reads_out(), outputs)?;
        let kept_cols = parts.kept_cols(features);
        check.needed("what is kept", args.kept, kept_cols > 0, [rows, kept_cols])?;
        check.tensor("the coefficients", args.coefficients, [rows, parts.coefficient_cols(features)])?;
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().reduce_coefficients(args) }
    }

    /// Runs [`ReduceGradient`].
    ///
    /// # Errors
    /// As [`Device::reduce`].
    pub fn reduce_grad(&self, args: &ReduceGradient<'_>) -> Checked {
        let check = self.check("reduce_grad");
        check.graph(args.graph)?;
        check.statistics(args.statistics)?;
        let (rows, columns) = args.graph.dims(Direction::Forward);
        let features = args.grad_x.cols();
        let parts = Ingredients::of(args.statistics);
        check.needed("x", args.x, parts.reads_x(), [columns, features])?;
        check.tensor("the output", args.grad_x, [columns, features])?;
        check.temperature(args.statistics, args.temperature)?;
        let softmax = args.statistics == [Statistic::Softmax];
        check.argument("a slope without a softmax", args.slope.is_some() && !softmax, "given", "none")?;
        check.maybe("the slope", args.slope, [columns, features])?;
        let direct = Ingredients::are_direct(args.statistics);
        let cols = if direct { features } else { parts.coefficient_cols(features) };
        check.tensor("the coefficients", args.coefficients, [rows, cols])?;
        let kept_cols = parts.kept_cols(features);
        check.needed("what is kept", args.kept, kept_cols > 0, [rows, kept_cols])?;
        check.reduce_plan(args.plan, features, 1)?;
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().reduce_grad(args) }
    }

    /// Runs [`Sddmm`].
    ///
    /// # Errors
    /// If a shape does not fit the graph, or what the device reports.
    pub fn sddmm(&self, args: &Sddmm<'_>) -> Checked {
        let check = self.check("sddmm");
        check.graph(args.graph)?;
        let (rows, columns) = args.graph.dims(Direction::Forward);
        check.tensor("a", args.a, [rows, args.b.cols()])?;
        check.tensor("b", args.b, [columns, args.b.cols()])?;
        check.maybe("the row scale", args.row_scale, [rows, 1])?;
        check.maybe("the column scale", args.column_scale, [columns, 1])?;
        check.tensor("the output", args.out, [args.graph.num_edges(), 1])?;
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().sddmm(args) }
    }

    /// Runs [`SoftmaxKernels::edge_softmax`](super::kernels::SoftmaxKernels::edge_softmax).
    ///
    /// # Errors
    /// If there is not one row an edge, or what the device reports.
    pub fn edge_softmax(&self, graph: &DeviceGraph, score: &Tensor, scale: f32, out: &Tensor) -> Checked {
        let check = self.check("edge_softmax");
        check.graph(graph)?;
        check.alike([graph.num_edges(), score.cols().max(1)], &[("the scores", score), ("the output", out)])?;
        // SAFETY: there is one row an edge, and at least one column.
        unsafe { self.backend().edge_softmax(graph, score, scale, out) }
    }

    /// Runs [`SoftmaxKernels::edge_softmax_grad`](super::kernels::SoftmaxKernels::edge_softmax_grad).
    ///
    /// # Errors
    /// If there is not one row an edge, or what the device reports.
    pub fn edge_softmax_grad(
        &self,
        graph: &DeviceGraph,
        weight: &Tensor,
        grad: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Checked {
        let check = self.check("edge_softmax_grad");
        check.graph(graph)?;
        let tensors = [("the weights", weight), ("the gradient", grad), ("the output", out)];
        check.alike([graph.num_edges(), weight.cols().max(1)], &tensors)?;
        // SAFETY: there is one row an edge, and at least one column.
        unsafe { self.backend().edge_softmax_grad(graph, weight, grad, scale, out) }
    }

    /// Runs [`Gemm`].
    ///
    /// # Errors
    /// If the shapes do not fit each other, or what the device reports.
    pub fn gemm(&self, args: &Gemm<'_>) -> Checked {
        let check = self.check("gemm");
        let (m, n, k) = args.dims();
        check.argument("the number of transposed factors", args.transpose_a && args.transpose_b, "2", "at most 1")?;
        check.argument("a bias of an added product", args.accumulate && args.bias.is_some(), "given", "none")?;
        let shape = |rows, cols, transposed| if transposed { [cols, rows] } else { [rows, cols] };
        check.tensor("a", args.a, shape(m, k, args.transpose_a))?;
        check.tensor("b", args.b, shape(k, n, args.transpose_b))?;
        check.maybe("the bias", args.bias, [1, n])?;
        check.tensor("the output", args.out, [m, n])?;
        // SAFETY: the factors' inner sizes agree, and the output has the outer ones.
        unsafe { self.backend().gemm(args) }
    }

    /// Runs [`LinearKernels::column_sums`](super::kernels::LinearKernels::column_sums).
    ///
    /// # Errors
    /// If the widths differ, or what the device reports.
    pub fn column_sums(&self, x: &Tensor, out: &Tensor, accumulate: bool) -> Checked {
        let check = self.check("column_sums");
        check.tensor("x", x, x.shape())?;
        check.tensor("the output", out, [1, x.cols()])?;
        // SAFETY: there is one output a column.
        unsafe { self.backend().column_sums(x, out, accumulate) }
    }

    /// Runs [`LinearKernels::transpose`](super::kernels::LinearKernels::transpose).
    ///
    /// # Errors
    /// If the shapes do not mirror each other, or what the device reports.
    pub fn transpose(&self, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("transpose");
        check.tensor("x", x, x.shape())?;
        check.tensor("the output", out, [x.cols(), x.rows()])?;
        // SAFETY: the shapes mirror each other.
        unsafe { self.backend().transpose(x, out) }
    }

    /// Runs [`ElementwiseKernels::unary`](super::kernels::ElementwiseKernels::unary).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn unary(&self, f: Unary, x: &Tensor, out: &Tensor) -> Checked {
        self.check("unary").alike(out.shape(), &[("x", x), ("the output", out)])?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().unary(f, x, out) }
    }

    /// Runs [`ElementwiseKernels::unary_grad`](super::kernels::ElementwiseKernels::unary_grad).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn unary_grad(&self, f: Unary, y: &Tensor, g: &Tensor, out: &Tensor) -> Checked {
        self.check("unary_grad").alike(out.shape(), &[("y", y), ("the gradient", g), ("the output", out)])?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().unary_grad(f, y, g, out) }
    }

    /// Runs [`ElementwiseKernels::add`](super::kernels::ElementwiseKernels::add).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn add(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Checked {
        self.check("add").alike(out.shape(), &[("a", a), ("b", b), ("the output", out)])?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().add(a, b, out) }
    }

    /// Runs [`ElementwiseKernels::mul`](super::kernels::ElementwiseKernels::mul).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn mul(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Checked {
        self.check("mul").alike(out.shape(), &[("a", a), ("b", b), ("the output", out)])?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().mul(a, b, out) }
    }

    /// Runs [`ElementwiseKernels::combine`](super::kernels::ElementwiseKernels::combine).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn combine(&self, a: f32, x: &Tensor, y: Option<(f32, &Tensor)>, out: &Tensor) -> Checked {
        let check = self.check("combine");
        check.alike(out.shape(), &[("x", x), ("the output", out)])?;
        check.maybe("y", y.map(|(_, y)| y), out.shape())?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().combine(a, x, y, out) }
    }

    /// Runs [`ElementwiseKernels::add_row`](super::kernels::ElementwiseKernels::add_row).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn add_row(&self, x: &Tensor, row: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("add_row");
        check.alike(out.shape(), &[("x", x), ("the output", out)])?;
        check.tensor("the row", row, [1, x.cols()])?;
        // SAFETY: the row is as wide as the matrices, which have one shape.
        unsafe { self.backend().add_row(x, row, out) }
    }

    /// Runs [`ElementwiseKernels::add_assign`](super::kernels::ElementwiseKernels::add_assign).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn add_assign(&self, x: &Tensor, out: &Tensor) -> Checked {
        self.check("add_assign").alike(out.shape(), &[("x", x), ("the output", out)])?;
        // SAFETY: both tensors have one shape.
        unsafe { self.backend().add_assign(x, out) }
    }

    /// Runs [`ElementwiseKernels::scale_add`](super::kernels::ElementwiseKernels::scale_add).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn scale_add(&self, offset: f32, factor: &Tensor, x: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("scale_add");
        check.tensor("the factor", factor, [1, 1])?;
        check.alike(out.shape(), &[("x", x), ("the output", out)])?;
        check.maybe("y", y, out.shape())?;
        // SAFETY: the factor is one number and all other tensors have one shape.
        unsafe { self.backend().scale_add(offset, factor, x, y, out) }
    }

    /// Runs [`ElementwiseKernels::dropout`](super::kernels::ElementwiseKernels::dropout).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn dropout(&self, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Checked {
        self.check("dropout").alike(out.shape(), &[("x", x), ("the output", out)])?;
        // SAFETY: both tensors have one shape; every buffer holds more words than the step's state has.
        unsafe { self.backend().dropout(mask, x, out) }
    }

    /// Runs [`ElementwiseKernels::dropout_sparse`](super::kernels::ElementwiseKernels::dropout_sparse).
    ///
    /// # Errors
    /// If there is not one value an entry, or what the device reports.
    pub fn dropout_sparse(
        &self,
        mask: &DropoutMask<'_>,
        pattern: &DeviceGraph,
        values: &Tensor,
        out: &Tensor,
    ) -> Checked {
        let check = self.check("dropout_sparse");
        check.graph(pattern)?;
        check.alike([pattern.num_edges(), 1], &[("the values", values), ("the output", out)])?;
        // SAFETY: there is one value an entry; every buffer holds more words than the step's state has.
        unsafe { self.backend().dropout_sparse(mask, pattern, values, out) }
    }

    /// Runs [`GatherKernels::gather_rows`](super::kernels::GatherKernels::gather_rows).
    ///
    /// # Errors
    /// If a row does not exist or the shapes do not fit, or what the device reports.
    pub fn gather_rows(&self, x: &Tensor, rows: &Indices, fill: f32, out: &Tensor) -> Checked {
        let check = self.check("gather_rows");
        check.tensor("x", x, x.shape())?;
        check.rows_exist(rows, x.rows())?;
        check.tensor("the output", out, [rows.len(), x.cols()])?;
        // SAFETY: every row named exists, and there is one output row for each.
        unsafe { self.backend().gather_rows(x, rows, fill, out) }
    }

    /// Runs [`GatherKernels::scatter_rows`](super::kernels::GatherKernels::scatter_rows).
    ///
    /// # Errors
    /// If a row does not exist or the shapes do not fit, or what the device reports.
    pub fn scatter_rows(&self, x: &Tensor, rows: &Indices, out: &Tensor) -> Checked {
        let check = self.check("scatter_rows");
        check.tensor("x", x, [rows.len(), out.cols()])?;
        check.rows_exist(rows, out.rows())?;
        check.tensor("the output", out, out.shape())?;
        // SAFETY: every row named exists, and there is one input row for each.
        unsafe { self.backend().scatter_rows(x, rows, out) }
    }

    /// Runs [`Gat`]; see [`GatKernels::gat`](super::kernels::GatKernels::gat).
    ///
    /// # Errors
    /// If a shape does not fit the graph or the heads, or what the device reports.
    pub fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Checked {
        let check = self.check("gat");
        check.gat(args)?;
        check.tensor("the output", h, [args.graph.num_dst(), args.z.cols()])?;
        check.tensor("the logarithms", logsumexp, args.destination.shape())?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gat(args, h, logsumexp) }
    }

    /// Runs [`GatBackward`].
    ///
    /// # Errors
    /// If a shape does not fit the graph or the heads, or what the device reports.
    pub fn gat_grad(&self, args: &GatBackward<'_>) -> Checked {
        let check = self.check("gat_grad");
        let forward = args.forward;
        check.gat(forward)?;
        check.attention_plan(args.plan_by_source)?;
        check.alike([forward.graph.num_dst(), forward.z.cols()], &[("h", args.h), ("the gradient", args.g)])?;
        check.alike(
            forward.destination.shape(),
            &[("the logarithms", args.logsumexp), ("grad_destination", args.grad_destination)],
        )?;
        check.tensor("grad_z", args.grad_z, forward.z.shape())?;
        check.tensor("grad_source", args.grad_source, forward.source.shape())?;
        let ranges = forward.plan.ranges(forward.graph.num_edges());
        check.edge_grads(forward.edge.as_ref(), ranges, args.grad_attr, args.grad_weight)?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gat_grad(args) }
    }

    /// Runs [`Gatv2`]; see [`Gatv2Kernels::gatv2`](super::kernels::Gatv2Kernels::gatv2).
    ///
    /// # Errors
    /// If a shape does not fit the graph or the heads, or what the device reports.
    pub fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Checked {
        let check = self.check("gatv2");
        check.gatv2(args)?;
        check.tensor("the output", h, args.r.shape())?;
        check.tensor("the logarithms", logsumexp, [args.r.rows(), args.heads])?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gatv2(args, h, logsumexp) }
    }

    /// Runs [`Gatv2Backward`].
    ///
    /// # Errors
    /// If a shape does not fit the graph or the heads, or what the device reports.
    pub fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Checked {
        let check = self.check("gatv2_grad");
        let forward = args.forward;
        check.gatv2(forward)?;
        check.attention_plan(args.plan_by_source)?;
        check.alike(
            forward.r.shape(),
            &[("h", args.h), ("the gradient", args.g), ("grad_r", args.grad_r), ("grad_att", args.grad_att)],
        )?;
        check.tensor("the logarithms", args.logsumexp, [forward.r.rows(), forward.heads])?;
        check.tensor("grad_l", args.grad_l, forward.l.shape())?;
        let ranges = forward.plan.ranges(forward.graph.num_edges());
        check.edge_grads(forward.edge.as_ref(), ranges, args.grad_attr, args.grad_weight)?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gatv2_grad(args) }
    }

    /// Runs [`GineForward`].
    ///
    /// # Errors
    /// If a shape does not fit the rows, or what the device reports.
    pub fn gine(&self, args: &GineForward<'_>) -> Checked {
        let check = self.check("gine");
        let features = args.x.cols();
        let edges = check.edges_of(args.graph, Direction::Forward, &args.rows)?;
        check.tensor("x", args.x, [args.graph.num_src(), features])?;
        check.tensor("e", args.e, [edges, features])?;
        check.tensor("the output", args.out, [args.graph.num_dst(), features])?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the rows.
        unsafe { self.backend().gine(args) }
    }

    /// Runs [`GineBackward`].
    ///
    /// # Errors
    /// If a shape does not fit the rows, or what the device reports.
    pub fn gine_grad(&self, args: &GineBackward<'_>) -> Checked {
        let check = self.check("gine_grad");
        let features = args.x.cols();
        let edges = check.edges_of(args.graph, Direction::Transposed, &args.rows)?;
        check.tensor("x", args.x, [args.graph.num_src(), features])?;
        check.tensor("e", args.e, [edges, features])?;
        check.tensor("the gradient", args.g, [args.graph.num_dst(), features])?;
        check.tensor("the output", args.grad_x, [args.graph.num_src(), features])?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the rows.
        unsafe { self.backend().gine_grad(args) }
    }

    /// Runs [`LossKernels::cross_entropy`](super::kernels::LossKernels::cross_entropy).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn cross_entropy(
        &self,
        x: &Tensor,
        labels: &Indices,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Checked {
        let check = self.check("cross_entropy");
        check.loss(x, weight, losses, grad)?;
        check.indices("the labels", labels, x.rows())?;
        // SAFETY: there is one label, weight and loss a row; kernels clamp labels past the last class.
        unsafe { self.backend().cross_entropy(x, labels, weight, losses, grad) }
    }

    /// Runs [`LossKernels::binary_cross_entropy`](super::kernels::LossKernels::binary_cross_entropy).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn binary_cross_entropy(
        &self,
        x: &Tensor,
        targets: &Tensor,
        weight: &Tensor,
        losses: &Tensor,
        grad: &Tensor,
    ) -> Checked {
        let check = self.check("binary_cross_entropy");
        check.loss(x, weight, losses, grad)?;
        check.tensor("the targets", targets, x.shape())?;
        // SAFETY: there is one target an entry, and one weight and loss a row.
        unsafe { self.backend().binary_cross_entropy(x, targets, weight, losses, grad) }
    }

    /// Runs [`AdamUpdate`].
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn adam(&self, args: &AdamUpdate<'_>) -> Checked {
        let tensors = [("the parameter", args.w), ("the gradient", args.g), ("m", args.m), ("v", args.v)];
        self.check("adam").alike(args.w.shape(), &tensors)?;
        // SAFETY: all tensors have one shape; every buffer holds more words than the step's state has.
        unsafe { self.backend().adam(args) }
    }

    /// Runs [`RowKernels::row_dot`](super::kernels::RowKernels::row_dot).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn row_dot(&self, a: &Tensor, b: &Tensor, divisor: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("row_dot");
        check.alike(a.shape(), &[("a", a), ("b", b)])?;
        check.maybe("the divisor", divisor, [a.rows(), 1])?;
        check.tensor("the output", out, [a.rows(), 1])?;
        // SAFETY: both factors have one shape, and there is one divisor and output a row.
        unsafe { self.backend().row_dot(a, b, divisor, out) }
    }

    /// Runs [`RowKernels::l2_normalize`](super::kernels::RowKernels::l2_normalize).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn l2_normalize(&self, x: &Tensor, epsilon: f32, out: &Tensor) -> Checked {
        self.check("l2_normalize").alike(x.shape(), &[("x", x), ("the output", out)])?;
        // SAFETY: both tensors have one shape.
        unsafe { self.backend().l2_normalize(x, epsilon, out) }
    }

    /// Runs [`RowKernels::l2_normalize_grad`](super::kernels::RowKernels::l2_normalize_grad).
    ///
    /// # Errors
    /// If the shapes differ, or what the device reports.
    pub fn l2_normalize_grad(&self, x: &Tensor, g: &Tensor, epsilon: f32, out: &Tensor) -> Checked {
        self.check("l2_normalize_grad").alike(x.shape(), &[("x", x), ("the gradient", g), ("the output", out)])?;
        // SAFETY: all tensors have one shape.
        unsafe { self.backend().l2_normalize_grad(x, g, epsilon, out) }
    }

    /// Runs [`RowKernels::argmax`](super::kernels::RowKernels::argmax).
    ///
    /// # Errors
    /// If there is not one output a row, or there are no columns, or what the device reports.
    pub fn argmax(&self, x: &Tensor, out: &Indices) -> Checked {
        let check = self.check("argmax");
        check.tensor("x", x, [x.rows(), x.cols().max(1)])?;
        check.indices("the output", out, x.rows())?;
        // SAFETY: there is one output a row, and a first column to start from.
        unsafe { self.backend().argmax(x, out) }
    }

    /// Runs [`TransformerForward`].
    ///
    /// # Errors
    /// If a shape or the plan does not fit, or what the device reports.
    pub fn transformer(&self, args: &TransformerForward<'_>) -> Checked {
        let check = self.check("transformer");
        check.transformer(&args.input)?;
        check.transformer_plan(&args.input, args.plan)?;
        check.tensor("the output", args.out, args.input.q.shape())?;
        check.tensor("the log-sum-exp", args.logsumexp, [args.out.rows(), args.input.heads])?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the plan the shapes.
        unsafe { self.backend().transformer(args) }
    }

    /// Runs [`TransformerBackward`].
    ///
    /// # Errors
    /// If a shape or a plan does not fit, or what the device reports.
    pub fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Checked {
        let check = self.check("transformer_grad");
        let input = &args.input;
        check.transformer(input)?;
        check.transformer_plan(input, args.plan)?;
        check.transformer_plan(input, args.transposed_plan)?;
        let of_destinations =
            [("the gradient", args.g), ("the output", args.out), ("the queries' gradient", args.grad_q)];
        check.alike(input.q.shape(), &of_destinations)?;
        check.tensor("the log-sum-exp", args.logsumexp, [input.q.rows(), input.heads])?;
        check.alike(input.k.shape(), &[("the keys' gradient", args.grad_k), ("the values' gradient", args.grad_v)])?;
        let no_attributes = args.grad_attr.is_some() && input.attr.is_none();
        check.argument("the attributes' gradient", no_attributes, "given", "none without attributes")?;
        check.maybe("the attributes' gradient", args.grad_attr, [input.graph.num_edges(), input.attributes()])?;
        // SAFETY: every shape fits the graph, which was validated when it was built, and the plans the shapes.
        unsafe { self.backend().transformer_grad(args) }
    }

    /// Runs [`HeadKernels::extend_heads`](super::kernels::HeadKernels::extend_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn extend_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("extend_heads");
        let channels = check.heads(heads, x.cols())?;
        check.tensor("x", x, x.shape())?;
        check.tensor("the weight", weight, [heads * channels, weight.cols()])?;
        check.tensor("the output", out, [x.rows(), heads * (channels + weight.cols())])?;
        // SAFETY: the columns are those of the heads, before and after.
        unsafe { self.backend().extend_heads(heads, x, weight, out) }
    }

    /// Runs [`HeadKernels::fold_heads`](super::kernels::HeadKernels::fold_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn fold_heads(&self, heads: usize, x: &Tensor, weight: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("fold_heads");
        let channels = check.heads(heads, out.cols())?;
        check.tensor("x", x, [out.rows(), heads * (channels + weight.cols())])?;
        check.tensor("the weight", weight, [heads * channels, weight.cols()])?;
        check.tensor("the output", out, out.shape())?;
        // SAFETY: the columns are those of the heads, before and after.
        unsafe { self.backend().fold_heads(heads, x, weight, out) }
    }

    /// Runs [`HeadKernels::head_blocks`](super::kernels::HeadKernels::head_blocks).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn head_blocks(&self, heads: usize, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("head_blocks");
        let channels = check.heads(heads, out.rows())?;
        check.tensor("x", x, [out.rows(), heads * (channels + out.cols())])?;
        check.tensor("the output", out, out.shape())?;
        // SAFETY: the rows and columns are those of the heads.
        unsafe { self.backend().head_blocks(heads, x, out) }
    }

    /// Runs [`HeadKernels::mean_heads`](super::kernels::HeadKernels::mean_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn mean_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("mean_heads");
        let channels = check.heads(heads, x.cols())?;
        check.tensor("x", x, x.shape())?;
        check.tensor("the output", out, [x.rows(), channels])?;
        // SAFETY: the columns are those of the heads.
        unsafe { self.backend().mean_heads(heads, x, out) }
    }

    /// Runs [`HeadKernels::spread_heads`](super::kernels::HeadKernels::spread_heads).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn spread_heads(&self, heads: usize, x: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("spread_heads");
        let channels = check.heads(heads, out.cols())?;
        check.tensor("x", x, [out.rows(), channels])?;
        check.tensor("the output", out, out.shape())?;
        // SAFETY: the columns are those of the heads.
        unsafe { self.backend().spread_heads(heads, x, out) }
    }

    /// Runs [`Gate`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn gate(&self, args: &Gate<'_>) -> Checked {
        let check = self.check("gate");
        let [rows, cols] = args.x.shape();
        check.alike([rows, cols], &[("x", args.x), ("r", args.r), ("the output", args.out)])?;
        check.tensor("the weight", args.weight, [1, 3 * cols])?;
        check.tensor("the gates", args.b, [rows, 1])?;
        // SAFETY: all matrices have one shape, with one gate a row and three weights a column.
        unsafe { self.backend().gate(args) }
    }

    /// Runs [`GateBackward`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn gate_grad(&self, args: &GateBackward<'_>) -> Checked {
        let check = self.check("gate_grad");
        let [rows, cols] = args.x.shape();
        let matrices = [("x", args.x), ("r", args.r), ("the gradient", args.g), ("x's gradient", args.grad_x)];
        check.alike([rows, cols], &matrices)?;
        check.tensor("r's gradient", args.grad_r, [rows, cols])?;
        check.tensor("the weight", args.weight, [1, 3 * cols])?;
        check.alike([rows, 1], &[("the gates", args.b), ("the slopes", args.z)])?;
        // SAFETY: all matrices have one shape, with one gate and slope a row and three weights a column.
        unsafe { self.backend().gate_grad(args) }
    }

    /// Runs [`GateKernels::gate_weight`](super::kernels::GateKernels::gate_weight).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn gate_weight(&self, u: &Tensor, t: &Tensor, out: &Tensor) -> Checked {
        let check = self.check("gate_weight");
        check.alike([1, u.cols()], &[("u", u), ("t", t)])?;
        check.tensor("the output", out, [1, 3 * u.cols()])?;
        // SAFETY: both rows have one width, and the output is three times as wide.
        unsafe { self.backend().gate_weight(u, t, out) }
    }

    /// Runs [`BlockCopy`].
    ///
    /// # Errors
    /// If the block does not lie within both matrices, or what the device reports.
    pub fn copy_block(&self, args: &BlockCopy<'_>) -> Checked {
        let check = self.check("copy_block");
        for (what, tensor, first) in [("the source", args.x, args.from), ("the target", args.out, args.to)] {
            check.tensor(what, tensor, tensor.shape())?;
            for (side, extent) in tensor.shape().into_iter().enumerate() {
                let end = first[side].saturating_add(args.shape[side]);
                check.argument("the end of a block", end > extent, end, format_args!("at most {extent}"))?;
            }
        }
        // SAFETY: the block lies within both matrices.
        unsafe { self.backend().copy_block(args) }
    }

    /// Runs [`BlockKernels::spread_blocks`](super::kernels::BlockKernels::spread_blocks).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn spread_blocks(&self, x: &Tensor, weight: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("spread_blocks");
        let ([rows, cols], blocks) = (x.shape(), weight.cols());
        check.tensor("x", x, [rows, cols])?;
        check.tensor("the weights", weight, [rows, blocks])?;
        check.maybe("y", y, [rows, blocks * cols])?;
        check.tensor("the output", out, [rows, blocks * cols])?;
        // SAFETY: there is one weight a row and block, and the columns are those of the blocks.
        unsafe { self.backend().spread_blocks(x, weight, y, out) }
    }

    /// Runs [`BlockKernels::merge_blocks`](super::kernels::BlockKernels::merge_blocks).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn merge_blocks(&self, x: &Tensor, weight: &Tensor, y: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("merge_blocks");
        let ([rows, cols], blocks) = (out.shape(), weight.cols());
        check.tensor("x", x, [rows, blocks * cols])?;
        check.tensor("the weights", weight, [rows, blocks])?;
        check.maybe("y", y, [rows, cols])?;
        check.tensor("the output", out, [rows, cols])?;
        // SAFETY: there is one weight a row and block, and the columns are those of the blocks.
        unsafe { self.backend().merge_blocks(x, weight, y, out) }
    }

    /// Runs [`NormKernels::column_moments`](super::kernels::NormKernels::column_moments).
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn column_moments(&self, x: &Tensor, center: &Tensor, weight: Option<&Tensor>, out: &Tensor) -> Checked {
        let check = self.check("column_moments");
        check.tensor("x", x, x.shape())?;
        check.maybe("the weight", weight, x.shape())?;
        check.alike([1, x.cols()], &[("the center", center), ("the output", out)])?;
        // SAFETY: there is one center and output a column, and one weight an entry.
        unsafe { self.backend().column_moments(x, center, weight, out) }
    }

    /// Runs [`ColumnNorm`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn column_norm(&self, args: &ColumnNorm<'_>) -> Checked {
        let check = self.check("column_norm");
        check.alike(args.x.shape(), &[("x", args.x), ("the output", args.out)])?;
        let columns = [("the mean", args.mean), ("the inverse deviation", args.inverse_deviation)];
        check.alike([1, args.x.cols()], &columns)?;
        check.affine(args.affine, args.x.cols())?;
        // SAFETY: both matrices have one shape, and there is one of everything else a column.
        unsafe { self.backend().column_norm(args) }
    }

    /// Runs [`ColumnNormBackward`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn column_norm_grad(&self, args: &ColumnNormBackward<'_>) -> Checked {
        let check = self.check("column_norm_grad");
        let row = [1, args.g.cols()];
        check.alike(args.g.shape(), &[("the gradient", args.g), ("the output", args.out)])?;
        check.tensor("the inverse deviation", args.inverse_deviation, row)?;
        check.maybe("the weight", args.weight, row)?;
        if let Some(own) = args.own {
            check.tensor("x", own.x, args.g.shape())?;
            let sums = [("the gradient's sums", own.g_sum), ("the products' sums", own.product_sum)];
            check.tensor("the mean", own.mean, row)?;
            check.alike(row, &sums)?;
        }
        // SAFETY: all matrices have one shape, and there is one of everything else a column.
        unsafe { self.backend().column_norm_grad(args) }
    }

    /// Runs [`RowNorm`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn row_norm(&self, args: &RowNorm<'_>) -> Checked {
        let check = self.check("row_norm");
        check.alike(args.x.shape(), &[("x", args.x), ("the output", args.out)])?;
        check.affine(args.affine, args.x.cols())?;
        // SAFETY: both matrices have one shape, and there is one weight and bias a column.
        unsafe { self.backend().row_norm(args) }
    }

    /// Runs [`RowNormBackward`].
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn row_norm_grad(&self, args: &RowNormBackward<'_>) -> Checked {
        let check = self.check("row_norm_grad");
        let matrices = [("x", args.x), ("the gradient", args.g), ("x's gradient", args.grad_x)];
        check.alike(args.x.shape(), &matrices)?;
        check.maybe("the scaled gradient", args.scaled, args.x.shape())?;
        check.maybe("the weight", args.weight, [1, args.x.cols()])?;
        // SAFETY: all matrices have one shape, and there is one weight a column.
        unsafe { self.backend().row_norm_grad(args) }
    }
}

impl Check<'_> {
    /// A weight and a bias a column.
    fn affine(&self, affine: Option<[&Tensor; 2]>, cols: usize) -> Checked {
        affine.map_or(Ok(()), |[weight, bias]| self.alike([1, cols], &[("the weight", weight), ("the bias", bias)]))
    }

    /// Channels of a head, of which there is at least one of at least one channel.
    fn heads(&self, heads: usize, columns: usize) -> Result<usize, BackendError> {
        let wrong = heads == 0 || columns == 0 || !columns.is_multiple_of(heads.max(1));
        self.argument("the number of heads", wrong, heads, format_args!("a divisor of {columns} columns"))?;
        Ok(columns / heads)
    }

    /// What attention is computed from.
    fn transformer(&self, args: &Attention<'_>) -> Checked {
        self.graph(args.graph)?;
        self.heads(args.heads, args.k.cols())?;
        let (num_dst, num_src) = (args.graph.num_dst(), args.graph.num_src());
        self.tensor("the queries", args.q, [num_dst, args.heads * args.width()])?;
        self.alike([num_src, args.k.cols()], &[("the keys", args.k), ("the values", args.v)])?;
        self.maybe("the edge attributes", args.attr, [args.graph.num_edges(), args.attributes().max(1)])
    }

    fn transformer_plan(&self, args: &Attention<'_>, plan: &TransformerPlan) -> Checked {
        let most = self.device.capabilities().workgroup_size;
        let wrong = !plan.lanes.is_power_of_two() || plan.lanes > most;
        self.argument("lanes a head", wrong, plan.lanes, format_args!("a power of two up to {most}"))?;
        self.argument("chunks a lane", ![1, 4].contains(&plan.registers), plan.registers, "1 or 4")?;
        let aligned = args.channels().is_multiple_of(4) && args.attributes().is_multiple_of(4);
        let wrong = plan.chunk != 1 && !(plan.chunk == 4 && aligned);
        self.argument("channels a chunk", wrong, plan.chunk, "1, or 4 where heads are aligned")?;
        self.argument("edges a segment", plan.segment == 0, 0, "at least 1")
    }

    /// What all attention takes: features that are summed, which heads divide, and edges with a weight of `weight_rows` rows.
    fn attention(
        &self,
        graph: &DeviceGraph,
        heads: usize,
        values: &Tensor,
        edge: Option<&EdgeTerm<'_>>,
        weight_rows: usize,
        plan: &AttentionPlan,
    ) -> Checked {
        self.graph(graph)?;
        let features = values.cols();
        let wrong = heads == 0 || features == 0 || !features.is_multiple_of(heads);
        self.argument("the number of heads", wrong, heads, format_args!("a divisor of {features} features"))?;
        self.tensor("the features", values, [graph.num_src(), features])?;
        if let Some(edge) = edge {
            self.tensor("the edge attributes", edge.attr, [graph.num_edges(), edge.attr.cols().max(1)])?;
            self.tensor("the edge weight", edge.weight, [weight_rows, edge.attr.cols()])?;
        }
        self.attention_plan(plan)
    }

    fn gatv2(&self, args: &Gatv2<'_>) -> Checked {
        let features = args.l.cols();
        self.attention(args.graph, args.heads, args.l, args.edge.as_ref(), features, args.plan)?;
        self.tensor("r", args.r, [args.graph.num_dst(), features])?;
        self.tensor("att", args.att, [1, features])
    }

    fn gat(&self, args: &Gat<'_>) -> Checked {
        self.attention(args.graph, args.heads, args.z, args.edge.as_ref(), args.heads, args.plan)?;
        self.tensor("the scores of sources", args.source, [args.graph.num_src(), args.heads])?;
        self.tensor("the scores of destinations", args.destination, [args.graph.num_dst(), args.heads])
    }

    /// The gradients of edge attributes and of their weight, where they are asked for.
    fn edge_grads(
        &self,
        edge: Option<&EdgeTerm<'_>>,
        ranges: usize,
        grad_attr: Option<&Tensor>,
        grad_weight: Option<&Tensor>,
    ) -> Checked {
        let Some(edge) = edge else {
            let asked = grad_attr.is_some() || grad_weight.is_some();
            return self.argument("gradients of edges", asked, "asked for", "edge attributes");
        };
        self.maybe("the gradient of the edge attributes", grad_attr, edge.attr.shape())?;
        self.maybe("the gradient of the edge weight", grad_weight, [ranges, edge.weight.words()])
    }

    fn attention_plan(&self, plan: &AttentionPlan) -> Checked {
        let (lanes, most) = (plan.lanes, self.device.capabilities().workgroup_size);
        let wrong = !lanes.is_power_of_two() || lanes > most;
        self.argument("lanes a head", wrong, lanes, format_args!("a power of two up to {most}"))?;
        self.argument("edges a segment", plan.segment == 0, 0, "at least 1")?;
        self.argument("edges a range", plan.range == 0, 0, "at least 1")
    }

    /// A set of statistics.
    fn statistics(&self, statistics: &[Statistic]) -> Checked {
        self.argument("the number of statistics", statistics.is_empty(), 0, "at least 1")?;
        let mut rest = statistics;
        while let Some((first, others)) = rest.split_first() {
            let twice = format_args!("{first:?} twice");
            self.argument("a statistic", others.contains(first), twice, "each at most once")?;
            rest = others;
        }
        let company = statistics.len() > 1 && statistics.iter().any(|s| s.is_alone());
        self.argument("a product or a softmax", company, "beside other statistics", "by itself")
    }

    /// The temperature that a softmax needs.
    fn temperature(&self, statistics: &[Statistic], temperature: Option<&Tensor>) -> Checked {
        self.needed("the temperature", temperature, statistics.contains(&Statistic::Softmax), [1, 1])
    }

    /// A tensor that must be there if it is `needed`.
    fn needed(&self, what: &'static str, tensor: Option<&Tensor>, needed: bool, expected: [usize; 2]) -> Checked {
        self.argument(what, needed && tensor.is_none(), "missing", "given")?;
        self.maybe(what, tensor, expected)
    }

    fn reduce_plan(&self, plan: &ReducePlan, features: usize, outputs: usize) -> Checked {
        let most = self.device.capabilities().workgroup_size;
        let wrong = !plan.lanes.is_power_of_two() || plan.lanes > most;
        self.argument("lanes a row", wrong, plan.lanes, format_args!("a power of two up to {most}"))?;
        self.argument("edges a segment", plan.segment == 0, 0, "at least 1")?;
        let chunk = ReducePlan::chunk(features, outputs);
        self.argument("numbers read at once", plan.chunk != chunk, plan.chunk, chunk)
    }

    /// What all losses ask for; rows without columns have none.
    fn loss(&self, x: &Tensor, weight: &Tensor, losses: &Tensor, grad: &Tensor) -> Checked {
        self.tensor("x", x, [x.rows(), x.cols().max(1)])?;
        self.tensor("the weights", weight, [x.rows(), 1])?;
        self.tensor("the losses", losses, [x.rows(), 1])?;
        self.tensor("the gradient", grad, x.shape())
    }

    /// The number of edges of some rows, which must exist.
    fn edges_of(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        rows: &std::ops::Range<u32>,
    ) -> Result<usize, BackendError> {
        self.graph(graph)?;
        let offsets = graph.offsets(direction);
        if rows.start <= rows.end && (rows.end as usize) < offsets.len() {
            return Ok((offsets[rows.end as usize] - offsets[rows.start as usize]) as usize);
        }
        Err(BackendError::Shape {
            kernel: self.kernel,
            what: "the range of rows",
            got: [rows.start as usize, rows.end as usize],
            expected: [0, offsets.len() - 1],
        })
    }
}
