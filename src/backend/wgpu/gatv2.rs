use super::{
    Dispatch, WgpuBackend,
    graph::{AttentionGraph, Cut},
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, Direction, Tensor,
    kernels::{Gatv2, Gatv2Backward, Gatv2Kernels},
};

/// Destinations as rows that a kernel reads: features, and where in a row the rest stands.
struct Nodes<'a> {
    tensor: &'a Tensor,
    g_at: usize,
    scalars_at: usize,
}

/// The sums of heavy rows: what a kernel writes, and what it is named in the shader.
type Sums<'a> = [(&'static str, &'a Tensor)];

impl Gatv2Kernels for WgpuBackend {
    unsafe fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Result<(), BackendError> {
        let graph = self.attention_graph(args.graph, Cut::Rows(Direction::Forward, args.plan.segment))?;
        let weights = self.gatv2_weights(args)?;
        let nodes = Nodes { tensor: args.r, g_at: 0, scalars_at: 0 };
        let launch = || self.gatv2_launch(Kernel::Gatv2Forward, args, &graph, &nodes, &weights);
        let groups = args.heads * args.plan.blocks(channels_of(args)) * args.plan.lanes as usize;
        if let Some(heavy) = &graph.heavy {
            let partials = Tensor::uninit_on(h, heavy.num_segments, h.cols(), "attention of edge segments")?;
            let partial_lse = Tensor::uninit_on(h, heavy.num_segments, args.heads, "sums of edge segments")?;
            let segments = launch()
                .param("first_task", 0)
                .param("tasks", heavy.num_segments)
                .param("lse_stride", partial_lse.stride())
                .tensor("logsumexp", &partial_lse)
                .tensor("out", &partials);
            self.run(segments.threads(heavy.num_segments * groups))?;
            let merge = Dispatch::new(Variant::new(Kernel::Gatv2Merge))
                .param("tasks", heavy.num_rows)
                .param("features", h.cols())
                .param("channels", channels_of(args))
                .param("out_stride", h.stride())
                .param("lse_stride", logsumexp.stride())
                .words("heavy", heavy.rows.buffer(), 0, heavy.rows.len())
                .tensor("partials", &partials)
                .tensor("partial_lse", &partial_lse)
                .tensor("out", h)
                .tensor("logsumexp", logsumexp);
            self.run(merge.threads(heavy.num_rows * h.cols()))?;
        }
        let rows = launch()
            .param("first_task", graph.first_light())
            .param("tasks", graph.num_light)
            .param("lse_stride", logsumexp.stride())
            .tensor("logsumexp", logsumexp)
            .tensor("out", h);
        self.run(rows.threads(graph.num_light * groups))
    }

    unsafe fn gatv2_grad(&self, args: &Gatv2Backward<'_>) -> Result<(), BackendError> {
        let forward = args.forward;
        let weights = self.gatv2_weights(forward)?;
        let (channels, lanes) = (channels_of(forward), forward.plan.lanes as usize);
        let padded = forward.r.cols().next_multiple_of(4);
        let packed = Tensor::uninit_on(
            args.g,
            forward.graph.num_dst(),
            2 * padded + (2 * forward.heads).next_multiple_of(4),
            "destinations of attention",
        )?;
        let nodes = Nodes { tensor: &packed, g_at: padded, scalars_at: 2 * padded };
        let pack = Dispatch::new(Variant::new(Kernel::Gatv2Nodes))
            .param("tasks", packed.rows())
            .param("heads", forward.heads)
            .param("channels", channels)
            .param("lanes_log2", forward.plan.lanes.ilog2() as usize)
            .param("nodes_stride", packed.stride())
            .param("g_at", nodes.g_at)
            .param("scalars_at", nodes.scalars_at)
            .param("stride", forward.r.stride())
            .param("lse_stride", args.logsumexp.stride())
            .tensor("r", forward.r)
            .tensor("g", args.g)
            .tensor("h", args.h)
            .tensor("logsumexp", args.logsumexp)
            .tensor("nodes", &packed);
        self.run(pack.threads(packed.rows() * forward.heads * lanes))?;

        let by_destination =
            self.attention_graph(forward.graph, Cut::Rows(Direction::Forward, forward.plan.segment))?;
        let launch = self.gatv2_launch(Kernel::Gatv2ByDestination, forward, &by_destination, &nodes, &weights);
        self.gatv2_sums(forward, &by_destination, launch, &[("out", args.grad_r), ("grad_att", args.grad_att)])?;
        let by_source =
            self.attention_graph(forward.graph, Cut::Rows(Direction::Transposed, args.plan_by_source.segment))?;
        let launch = self.gatv2_launch(Kernel::Gatv2BySource, forward, &by_source, &nodes, &weights);
        self.gatv2_sums(forward, &by_source, launch, &[("out", args.grad_l)])?;

        let Some(edge) = &forward.edge else { return Ok(()) };
        let by_range = self.attention_graph(forward.graph, Cut::Ranges(forward.plan.range))?;
        if let Some(grad_weight) = args.grad_weight {
            let ranges = grad_weight.rows();
            let launch = self
                .gatv2_launch(Kernel::Gatv2ByWeight, forward, &by_range, &nodes, &weights)
                .param("first_task", 0)
                .param("tasks", ranges)
                .param("out_stride", grad_weight.stride())
                .tensor("out", grad_weight);
            let groups = forward.heads * edge.attr.cols().div_ceil(4) * forward.plan.blocks(channels) * lanes;
            self.run(launch.threads(ranges * groups))?;
        }
        if let Some(grad_attr) = args.grad_attr {
            let launch = self
                .gatv2_launch(Kernel::Gatv2EdgeGrad, forward, &by_range, &nodes, &weights)
                .param("first_task", 0)
                .param("tasks", grad_attr.rows())
                .param("out_stride", grad_attr.stride())
                .tensor("out", grad_attr);
            self.run(launch.threads(grad_attr.rows() * lanes))?;
        }
        Ok(())
    }
}

impl WgpuBackend {
    /// The key of dropout, `att` and the weight of edges, as the kernels read them.
    fn gatv2_weights(&self, args: &Gatv2<'_>) -> Result<Tensor, BackendError> {
        let att_words = args.att.cols();
        let weight_words = args.edge.map_or(0, |edge| edge.weight.words());
        let weights = Tensor::uninit_on(args.att, 2 + att_words + weight_words, 1, "weights of attention")?;
        let mut pack = Dispatch::new(Variant::new(Kernel::Gatv2Weights))
            .param("att_words", att_words)
            .param("weight_words", weight_words)
            .tensor("att", args.att)
            .tensor("weights", &weights);
        if let Some(edge) = args.edge {
            pack = pack.with(Flag::Edges, true).tensor("weight", edge.weight);
        }
        if let Some(mask) = &args.dropout {
            pack = pack.with(Flag::Dropout, true).param("layer", mask.layer as usize).state(mask.state);
        }
        self.run(pack.threads(att_words.max(weight_words)))?;
        Ok(weights)
    }

    /// What all kernels over edges have in common.
    fn gatv2_launch<'a>(
        &self,
        kernel: Kernel,
        args: &Gatv2<'a>,
        graph: &'a AttentionGraph,
        nodes: &Nodes<'a>,
        weights: &'a Tensor,
    ) -> Dispatch<'a> {
        let channels = channels_of(args);
        let mut dispatch = Dispatch::new(Variant::new(kernel))
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
            .param("l_stride", args.l.stride())
            .param("out_stride", args.l.stride())
            .param("att_words", args.att.cols())
            .param("e_stride", args.edge.map_or(0, |edge| edge.attr.stride()))
            .param("attributes", args.edge.map_or(0, |edge| edge.attr.cols()))
            .float("slope", args.negative_slope)
            .words("graph", graph.words.buffer(), 0, graph.words.len())
            .tensor("l", args.l)
            .tensor("nodes", nodes.tensor)
            .tensor("weights", weights);
        if let Some(edge) = args.edge {
            dispatch = dispatch.with(Flag::Edges, true).tensor("e", edge.attr);
        }
        if let Some(mask) = &args.dropout {
            dispatch = dispatch.with(Flag::Dropout, true).keep(mask);
        }
        dispatch
    }

    /// Runs a kernel whose results are sums over the edges of a row, heavy rows in segments.
    fn gatv2_sums(
        &self,
        args: &Gatv2<'_>,
        graph: &AttentionGraph,
        launch: Dispatch<'_>,
        sums: &Sums<'_>,
    ) -> Result<(), BackendError> {
        let groups = args.heads * args.plan.blocks(channels_of(args)) * args.plan.lanes as usize;
        if let Some(heavy) = &graph.heavy {
            let partial = |(name, sum): &(&'static str, &Tensor)| {
                Ok((*name, Tensor::uninit_on(sum, heavy.num_segments, sum.cols(), "sums of edge segments")?))
            };
            let partials = sums.iter().map(partial).collect::<Result<Vec<_>, BackendError>>()?;
            let mut segments = launch.clone().param("first_task", 0).param("tasks", heavy.num_segments);
            for (name, partial) in &partials {
                segments = segments.tensor(name, partial);
            }
            self.run(segments.threads(heavy.num_segments * groups))?;
            for ((_, sum), (_, partial)) in sums.iter().zip(&partials) {
                self.merge_segments(&heavy.rows, partial, 0, None, sum, 0..sum.rows())?;
            }
        }
        let mut rows = launch.param("first_task", graph.first_light()).param("tasks", graph.num_light);
        for (name, sum) in sums {
            rows = rows.tensor(name, sum);
        }
        self.run(rows.threads(graph.num_light * groups))
    }
}

fn channels_of(args: &Gatv2<'_>) -> usize {
    args.l.cols() / args.heads
}
