//! What the families of attention have in common: packing what kernels read, and rows of many edges in segments.

use super::{
    Dispatch, WgpuBackend,
    graph::{AttentionGraph, AttentionKey, Cut},
    variants::{Flag, Kernel, Variant},
};
use crate::{
    backend::{
        BackendError, DeviceGraph, Direction, Tensor,
        kernels::{DropoutMask, EdgeTerm},
    },
    plan::AttentionPlan,
};

/// The arguments that both families have.
pub(super) struct Attention<'a> {
    pub(super) heads: usize,
    pub(super) negative_slope: f32,
    /// What is summed: `[num_src, features]`.
    pub(super) values: &'a Tensor,
    pub(super) edge: Option<EdgeTerm<'a>>,
    pub(super) dropout: Option<DropoutMask<'a>>,
    pub(super) plan: &'a AttentionPlan,
}

/// What kernels read of destinations, one row each, and where in a row the parts stand.
pub(super) struct Nodes {
    tensor: Tensor,
    g_at: usize,
    scalars_at: usize,
}

impl Nodes {
    /// What scores need, and nothing for gradients.
    pub(super) fn of_scores(r: &Tensor) -> Self {
        Self { tensor: r.clone(), g_at: 0, scalars_at: 0 }
    }
}

impl Attention<'_> {
    pub(super) fn channels(&self) -> usize {
        self.values.cols() / self.heads
    }

    /// Threads of a row: those of all heads.
    pub(super) fn row_threads(&self) -> usize {
        self.heads * self.plan.passes(self.channels()) * self.plan.lanes as usize
    }
}

impl WgpuBackend {
    /// The key of dropout, `att` if there is one, and the weight of edges, as the kernels read them.
    pub(super) fn attention_weights(&self, args: &Attention<'_>, att: Option<&Tensor>) -> Result<Tensor, BackendError> {
        // Without `att` no word of what is bound in its place is read.
        let (att, att_words) = att.map_or((args.values, 0), |att| (att, att.cols()));
        let weight_words = args.edge.map_or(0, |edge| edge.weight.words());
        let weights = Tensor::uninit_on(att, 2 + att_words + weight_words, 1, "weights of attention")?;
        let mut pack = Dispatch::new(Variant::new(Kernel::AttentionWeights))
            .param("att_words", att_words)
            .param("weight_words", weight_words)
            .tensor("att", att)
            .tensor("weights", &weights);
        if let Some(edge) = &args.edge {
            pack = pack.with(Flag::Edges, true).tensor("weight", edge.weight);
        }
        if let Some(mask) = &args.dropout {
            pack = pack.with(Flag::Dropout, true).param("layer", mask.layer as usize).state(mask.state);
        }
        self.run(pack.threads(att_words.max(weight_words).max(1)))?;
        Ok(weights)
    }

    /// What gradients need of destinations: `r`, `g`, and `logsumexp` and `<g, h>` of each head.
    pub(super) fn attention_nodes(
        &self,
        args: &Attention<'_>,
        r: &Tensor,
        h: &Tensor,
        logsumexp: &Tensor,
        g: &Tensor,
    ) -> Result<Nodes, BackendError> {
        let g_at = r.cols().next_multiple_of(4);
        let scalars_at = g_at + g.cols().next_multiple_of(4);
        let width = scalars_at + (2 * args.heads).next_multiple_of(4);
        let tensor = Tensor::uninit_on(g, g.rows(), width, "destinations of attention")?;
        let quads = args.channels().is_multiple_of(4);
        let r_in_quads = quads && r.cols() == g.cols();
        if quads {
            self.copy_chunks(g, 0, &tensor, g_at / 4, g.cols() / 4)?;
        }
        if r_in_quads {
            self.copy_chunks(r, 0, &tensor, 0, r.cols() / 4)?;
        }
        let pack = Dispatch::new(Variant::new(Kernel::AttentionNodes))
            .with(Flag::Quads, quads)
            .param("tasks", g.rows())
            .param("heads", args.heads)
            .param("channels", args.channels())
            .param("lanes_log2", args.plan.lanes.ilog2() as usize)
            .param("nodes_stride", tensor.stride())
            .param("g_at", g_at)
            .param("scalars_at", scalars_at)
            .param("r_channels", if r_in_quads { 0 } else { r.cols() / args.heads })
            .param("r_stride", r.stride())
            .param("stride", g.stride())
            .param("lse_stride", logsumexp.stride())
            .tensor("r", r)
            .tensor("g", g)
            .tensor("h", h)
            .tensor("logsumexp", logsumexp)
            .tensor("nodes", &tensor);
        self.run(pack.threads(g.rows() * args.heads * args.plan.lanes as usize))?;
        Ok(Nodes { tensor, g_at, scalars_at })
    }

    /// A kernel over rows, whose threads hold as many channels as the plan says.
    pub(super) fn attention_pass<'a>(
        &self,
        kernel: Kernel,
        args: &Attention<'a>,
        graph: &'a AttentionGraph,
        nodes: &'a Nodes,
        weights: &'a Tensor,
    ) -> Dispatch<'a> {
        let passes = args.plan.passes(args.channels());
        let kernel = Variant::new(kernel).constant(args.plan.registers).with(Flag::Dropout, true);
        let kernel = kernel.with(Flag::Wide, passes > 1 && kernel.has_choice(Flag::Wide));
        self.attention_launch(kernel, args, graph, nodes, weights).param("blocks", passes)
    }

    /// What all kernels over edges have in common.
    pub(super) fn attention_launch<'a>(
        &self,
        variant: Variant,
        args: &Attention<'a>,
        graph: &'a AttentionGraph,
        nodes: &'a Nodes,
        weights: &'a Tensor,
    ) -> Dispatch<'a> {
        let channels = args.channels();
        let mut dispatch = Dispatch::new(variant)
            .with(Flag::Quads, channels.is_multiple_of(4))
            .param("heads", args.heads)
            .param("channels", channels)
            .param("lanes_log2", args.plan.lanes.ilog2() as usize)
            .param("blocks", args.plan.blocks(channels))
            .param("nodes_stride", nodes.tensor.stride())
            .param("g_at", nodes.g_at)
            .param("scalars_at", nodes.scalars_at)
            .param("columns_at", graph.columns_at)
            .param("others_at", graph.others_at)
            .param("ids_at", graph.ids_at)
            .param("l_stride", args.values.stride())
            .param("out_stride", args.values.stride())
            .param("e_stride", args.edge.map_or(0, |edge| edge.attr.stride()))
            .param("attributes", args.edge.map_or(0, |edge| edge.attr.cols()))
            .float("slope", args.negative_slope)
            .words("graph", graph.words.buffer(), 0, graph.words.len())
            .tensor("l", args.values)
            .tensor("nodes", &nodes.tensor)
            .tensor("weights", weights);
        if let Some(edge) = args.edge {
            dispatch = dispatch.with(Flag::Edges, true).tensor("e", edge.attr);
        }
        match &args.dropout {
            Some(mask) => dispatch.keep(mask),
            None => dispatch.param("threshold", 0).float("scale", 1.0),
        }
    }

    /// Runs a forward kernel, heavy rows in segments.
    pub(super) fn attention_forward(
        &self,
        args: &Attention<'_>,
        graph: &AttentionGraph,
        launch: Dispatch<'_>,
        h: &Tensor,
        logsumexp: &Tensor,
    ) -> Result<(), BackendError> {
        let launch = launch.param("lse_stride", logsumexp.stride());
        if let Some(heavy) = &graph.heavy {
            let partials = Tensor::uninit_on(h, heavy.num_segments, h.cols(), "attention of edge segments")?;
            let partial_lse = Tensor::uninit_on(h, heavy.num_segments, args.heads, "sums of edge segments")?;
            let segments = launch
                .clone()
                .param("first_task", 0)
                .param("tasks", heavy.num_segments)
                .tensor("logsumexp", &partial_lse)
                .tensor("out", &partials);
            self.run(segments.threads(heavy.num_segments * args.row_threads()))?;
            let merge = Dispatch::new(Variant::new(Kernel::AttentionMerge))
                .param("tasks", heavy.num_rows)
                .param("features", h.cols())
                .param("channels", args.channels())
                .param("out_stride", h.stride())
                .param("lse_stride", logsumexp.stride())
                .words("heavy", heavy.rows.buffer(), 0, heavy.rows.len())
                .tensor("partials", &partials)
                .tensor("partial_lse", &partial_lse)
                .tensor("out", h)
                .tensor("logsumexp", logsumexp);
            self.run(merge.threads(heavy.num_rows * h.cols()))?;
        }
        let rows = launch
            .param("first_task", graph.first_light())
            .param("tasks", graph.num_light)
            .tensor("logsumexp", logsumexp)
            .tensor("out", h);
        self.run(rows.threads(graph.num_light * args.row_threads()))
    }

    /// Runs a kernel of `task_threads` threads a task whose results, by their names in the shader, are sums over the
    /// edges of a row.
    pub(super) fn attention_sums(
        &self,
        graph: &AttentionGraph,
        task_threads: usize,
        launch: Dispatch<'_>,
        sums: &[(&'static str, &Tensor)],
    ) -> Result<(), BackendError> {
        if let Some(heavy) = &graph.heavy {
            let partials = sums
                .iter()
                .map(|(_, sum)| Tensor::uninit_on(sum, heavy.num_segments, sum.cols(), "sums of edge segments"))
                .collect::<Result<Vec<_>, _>>()?;
            let mut segments = launch.clone().param("first_task", 0).param("tasks", heavy.num_segments);
            for ((name, _), partial) in sums.iter().zip(&partials) {
                segments = segments.tensor(name, partial);
            }
            self.run(segments.threads(heavy.num_segments * task_threads))?;
            for ((_, sum), partial) in sums.iter().zip(&partials) {
                self.merge_segments(&heavy.rows, partial, 0, None, sum, 0..sum.rows())?;
            }
        }
        let mut rows = launch.param("first_task", graph.first_light()).param("tasks", graph.num_light);
        for (name, sum) in sums {
            rows = rows.tensor(name, sum);
        }
        self.run(rows.threads(graph.num_light * task_threads))
    }

    /// Runs a kernel over edges that writes `out`: `rows` tasks of `task_threads` threads.
    pub(super) fn attention_edges(
        &self,
        rows: usize,
        task_threads: usize,
        launch: Dispatch<'_>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let launch = launch.param("first_task", 0).param("tasks", rows).param("out_stride", out.stride());
        self.run(launch.tensor("out", out).threads(rows * task_threads))
    }

    /// The graph, cut into tasks.
    pub(super) fn attention_cut(
        &self,
        args: &Attention<'_>,
        graph: &DeviceGraph,
        cut: Cut,
    ) -> Result<AttentionGraph, BackendError> {
        let key = AttentionKey { cut, attributes: args.edge.is_some(), dropout: args.dropout.is_some() };
        self.attention_graph(graph, key)
    }

    /// The graph in rows of a direction, cut as `plan` says.
    pub(super) fn attention_rows(
        &self,
        args: &Attention<'_>,
        graph: &DeviceGraph,
        direction: Direction,
        plan: &AttentionPlan,
    ) -> Result<AttentionGraph, BackendError> {
        self.attention_cut(args, graph, Cut::Rows(direction, plan.segment))
    }
}
