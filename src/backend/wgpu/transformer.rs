use super::{
    Dispatch, WgpuBackend,
    topology::{Topology, TopologyKey},
    variants::{Flag, Kernel, Variant},
};
use crate::{
    backend::{
        BackendError, Direction, Indices, Tensor,
        kernels::{Attention, SpareInput, TransformerBackward, TransformerForward, TransformerKernels},
    },
    plan::TransformerPlan,
};

/// Which tasks of a topology a launch runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tasks {
    Rows,
    Segments,
}

/// The strides of one call, in chunks.
struct Shape<'a> {
    input: &'a Attention<'a>,
    plan: &'a TransformerPlan,
}

impl Shape<'_> {
    /// Chunks of `channels` channels.
    fn chunks(&self, channels: usize) -> usize {
        channels / self.plan.chunk as usize
    }

    fn stride(&self, tensor: &Tensor) -> usize {
        self.chunks(tensor.stride())
    }

    fn dispatch<'d>(&self, kernel: Kernel) -> Dispatch<'d> {
        let over_edges = !matches!(kernel, Kernel::TransformerMerge | Kernel::TransformerPack);
        Dispatch::new(Variant::new(kernel).constant(if over_edges { self.plan.registers } else { 0 }))
            .with(Flag::Scalar, self.plan.chunk == 1)
            .param("heads", self.input.heads)
            .param("chunks", self.chunks(self.input.width()))
            .param("lanes_log2", self.plan.lanes.ilog2() as usize)
    }

    /// A launch over tasks of a topology.
    fn launch<'d>(&self, kernel: Kernel, input: &Attention<'d>, topology: &'d Topology, tasks: Tasks) -> Dispatch<'d> {
        let (first, count) = match tasks {
            Tasks::Rows => (0, topology.num_rows),
            Tasks::Segments => (topology.num_rows, topology.num_segments),
        };
        let of_all_heads = kernel == Kernel::TransformerEdge;
        let threads = count * if of_all_heads { 1 } else { input.heads } * self.plan.lanes as usize;
        let dispatch = self
            .dispatch(kernel)
            .param("tasks", count)
            .param("tasks_at", first * Topology::TASK_WORDS)
            .param("edges_at", topology.edges_at)
            .float("factor", input.factor())
            .param("node_chunks", self.chunks(input.channels()))
            .param("node_stride", self.stride(input.k))
            .param("in_segments", usize::from(tasks == Tasks::Segments))
            .words("topology", topology.words.buffer(), 0, topology.words.len())
            .tensor("k", input.k)
            .tensor("v", input.v)
            .threads(threads);
        let dispatch = masked(dispatch, input);
        match input.attr {
            None => dispatch,
            Some(attr) => {
                dispatch.with(Flag::Attributes, true).param("attr_stride", self.stride(attr)).tensor("attr", attr)
            }
        }
    }
}

fn masked<'d>(dispatch: Dispatch<'d>, input: &Attention<'d>) -> Dispatch<'d> {
    match &input.dropout {
        None => dispatch,
        Some(mask) => dispatch.with(Flag::Dropout, true).mask(mask),
    }
}

impl TransformerKernels for WgpuBackend {
    fn spare_input(&self, _input: &Attention<'_>) -> Option<SpareInput> {
        // They are packed first, with the gradients.
        Some(SpareInput::Queries)
    }

    unsafe fn transformer(&self, args: &TransformerForward<'_>) -> Result<(), BackendError> {
        let (input, plan) = (&args.input, args.plan);
        let shape = Shape { input, plan };
        let topology = self.topology_of(input, Direction::Forward, plan)?;
        let launch = |tasks| {
            shape
                .launch(Kernel::TransformerForward, input, &topology, tasks)
                .param("q_stride", shape.stride(input.q))
                .param("out_stride", shape.stride(args.out))
                .param("logsumexp_stride", args.logsumexp.stride())
                .tensor("q", input.q)
        };
        if let Some(heavy) = &topology.heavy {
            let segments = topology.num_segments;
            let partials = Tensor::uninit_on(args.out, segments, args.out.cols(), "sums of edge segments")?;
            let stats = Tensor::uninit_on(args.out, segments * input.heads * 2, 1, "softmax of edge segments")?;
            self.run(launch(Tasks::Segments).tensor("out", &partials).tensor("logsumexp", &stats))?;
            let merge = shape
                .dispatch(Kernel::TransformerMerge)
                .param("tasks", heavy.num_rows)
                .param("out_stride", shape.stride(args.out))
                .param("logsumexp_stride", args.logsumexp.stride())
                .words("heavy", heavy.rows.buffer(), 0, heavy.rows.len())
                .tensor("partials", &partials)
                .tensor("partial_stats", &stats)
                .tensor("out", args.out)
                .tensor("logsumexp", args.logsumexp);
            self.run(merge.threads(heavy.num_rows * input.heads * shape.chunks(input.width())))?;
        }
        self.run(launch(Tasks::Rows).tensor("out", args.out).tensor("logsumexp", args.logsumexp))
    }

    unsafe fn transformer_grad(&self, args: &TransformerBackward<'_>) -> Result<(), BackendError> {
        let input = &args.input;
        let (rows, heads) = (args.g.rows(), input.heads);
        let packed = Packed {
            qg: Tensor::uninit_on(args.g, rows, 2 * args.g.cols(), "queries and gradients")?,
            stats: Indices::uninit(input.graph.device(), 2 * (rows * heads + 1), "softmax and delta")?,
        };
        let shape = Shape { input, plan: args.plan };
        let pack = shape
            .dispatch(Kernel::TransformerPack)
            .param("tasks", rows)
            .param("q_stride", shape.stride(input.q))
            .param("qg_stride", shape.stride(&packed.qg))
            .param("logsumexp_stride", args.logsumexp.stride())
            .tensor("q", input.q)
            .tensor("g", args.g)
            .tensor("out", args.out)
            .tensor("logsumexp", args.logsumexp)
            .tensor("qg", &packed.qg)
            .words("stats", packed.stats.buffer(), 0, packed.stats.len());
        self.run(masked(pack, input).threads(rows * heads * args.plan.lanes as usize))?;

        let by_row = self.topology_of(input, Direction::Forward, args.plan)?;
        let query = |tasks| {
            let launch = shape.launch(Kernel::TransformerQuery, input, &by_row, tasks);
            packed.bind(launch, &shape).param("out_stride", shape.stride(args.grad_q))
        };
        if let Some(heavy) = &by_row.heavy {
            let partials = Tensor::uninit_on(args.g, by_row.num_segments, args.g.cols(), "sums of edge segments")?;
            self.run(query(Tasks::Segments).tensor("grad_q", &partials))?;
            self.merge_segments(&heavy.rows, &partials, 0, None, args.grad_q, 0..args.grad_q.rows())?;
        }
        self.run(query(Tasks::Rows).tensor("grad_q", args.grad_q))?;
        if let Some(grad_attr) = args.grad_attr {
            for tasks in [Tasks::Segments, Tasks::Rows] {
                let launch = shape.launch(Kernel::TransformerEdge, input, &by_row, tasks);
                self.run(packed.bind(launch, &shape).param("out_stride", 0).tensor("grad_attr", grad_attr))?;
            }
        }

        let shape = Shape { input, plan: args.transposed_plan };
        let by_source = self.topology_of(input, Direction::Transposed, args.transposed_plan)?;
        let source = |tasks| {
            let launch = shape.launch(Kernel::TransformerSource, input, &by_source, tasks);
            packed.bind(launch, &shape).param("out_stride", shape.stride(args.grad_k))
        };
        if let Some(heavy) = &by_source.heavy {
            let partials = |label| Tensor::uninit_on(args.grad_k, by_source.num_segments, args.grad_k.cols(), label);
            let (keys, values) = (partials("key sums of edge segments")?, partials("value sums of edge segments")?);
            self.run(source(Tasks::Segments).tensor("grad_k", &keys).tensor("grad_v", &values))?;
            self.merge_segments(&heavy.rows, &keys, 0, None, args.grad_k, 0..args.grad_k.rows())?;
            self.merge_segments(&heavy.rows, &values, 0, None, args.grad_v, 0..args.grad_v.rows())?;
        }
        self.run(source(Tasks::Rows).tensor("grad_k", args.grad_k).tensor("grad_v", args.grad_v))
    }
}

/// What the gradients read of the destinations.
struct Packed {
    qg: Tensor,
    stats: Indices,
}

impl Packed {
    fn bind<'d>(&'d self, dispatch: Dispatch<'d>, shape: &Shape<'_>) -> Dispatch<'d> {
        dispatch
            .param("qg_stride", shape.stride(&self.qg))
            .param("stats_rows", self.qg.rows())
            .tensor("qg", &self.qg)
            .words("stats", self.stats.buffer(), 0, self.stats.len())
    }
}

impl WgpuBackend {
    fn topology_of(
        &self,
        input: &Attention<'_>,
        direction: Direction,
        plan: &TransformerPlan,
    ) -> Result<std::sync::Arc<Topology>, BackendError> {
        if plan.capacity() < input.width() {
            return Err(BackendError::TooLarge {
                what: "channels and edge attributes of a head".into(),
                requested: input.width() as u64,
                limit: plan.capacity() as u64,
                remedy: "use more heads, a number of channels that is a multiple of 4, or the cpu backend",
            });
        }
        let (positions, ids) = (input.attr.is_some(), input.dropout.is_some());
        let key = TopologyKey { direction, segment: plan.segment, positions, ids };
        self.resident(input.graph)?.topology(input.graph, key)
    }
}
