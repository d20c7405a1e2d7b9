use super::{Check, Checked};
use crate::{
    backend::{
        Device,
        kernels::{Attention, Family, SpareInput, TransformerBackward, TransformerForward},
    },
    plan::TransformerPlan,
};

impl Device {
    /// See [`TransformerKernels::spare_input`](crate::backend::kernels::TransformerKernels::spare_input).
    pub fn spare_input(&self, input: &Attention<'_>) -> Option<SpareInput> {
        self.backend().spare_input(input)
    }

    /// Runs [`TransformerForward`].
    ///
    /// # Errors
    /// If a shape or the plan does not fit, or what the device reports.
    pub fn transformer(&self, args: &TransformerForward<'_>) -> Checked {
        let check = self.check("transformer");
        check.transformer(&args.input)?;
        check.transformer_plan(&args.input, args.plan)?;
        check.feature("the output", args.out, args.input.q.shape())?;
        check.tensor("the log-sum-exp", args.logsumexp, [args.out.rows(), args.input.heads])?;
        let wide = check.widen(Family::Transformer, args.plan.chunk == 4);
        let (q, k, v) = (wide.input(args.input.q)?, wide.input(args.input.k)?, wide.input(args.input.v)?);
        let out = wide.output(args.out)?;
        let input = Attention { q: &q, k: &k, v: &v, ..args.input };
        let args = TransformerForward { input, out: &out, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the plan the shapes.
        unsafe { self.backend().transformer(&args) }?;
        wide.store()
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
        check.features(input.q.shape(), &of_destinations)?;
        check.tensor("the log-sum-exp", args.logsumexp, [input.q.rows(), input.heads])?;
        check
            .features(input.k.shape(), &[("the keys' gradient", args.grad_k), ("the values' gradient", args.grad_v)])?;
        let no_attributes = args.grad_attr.is_some() && input.attr.is_none();
        check.argument("the attributes' gradient", no_attributes, "given", "none without attributes")?;
        check.maybe("the attributes' gradient", args.grad_attr, [input.graph.num_edges(), input.attributes()])?;
        let aligned = args.plan.chunk == 4 && args.transposed_plan.chunk == 4;
        let wide = check.widen(Family::Transformer, aligned);
        let (q, k, v) = (wide.input(input.q)?, wide.input(input.k)?, wide.input(input.v)?);
        let (g, out, grad_q) = (wide.input(args.g)?, wide.input(args.out)?, wide.output(args.grad_q)?);
        let (grad_k, grad_v) = (wide.output(args.grad_k)?, wide.output(args.grad_v)?);
        let input = Attention { q: &q, k: &k, v: &v, ..*input };
        let grads = TransformerBackward { grad_q: &grad_q, grad_k: &grad_k, grad_v: &grad_v, ..*args };
        let args = TransformerBackward { input, g: &g, out: &out, ..grads };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the plans the shapes.
        unsafe { self.backend().transformer_grad(&args) }?;
        wide.store()
    }
}

impl Check<'_> {
    /// What attention is computed from.
    fn transformer(&self, args: &Attention<'_>) -> Checked {
        self.graph(args.graph)?;
        self.heads(args.heads, args.k.cols())?;
        let (num_dst, num_src) = (args.graph.num_dst(), args.graph.num_src());
        self.feature("the queries", args.q, [num_dst, args.heads * args.width()])?;
        self.features([num_src, args.k.cols()], &[("the keys", args.k), ("the values", args.v)])?;
        self.maybe("the edge attributes", args.attr, [args.graph.num_edges(), args.attributes().max(1)])
    }

    fn transformer_plan(&self, args: &Attention<'_>, plan: &TransformerPlan) -> Checked {
        let most = self.device.capabilities().workgroup_size;
        let wrong = !plan.lanes.is_power_of_two() || plan.lanes > most;
        self.argument("lanes a head", wrong, plan.lanes, format_args!("a power of two up to {most}"))?;
        let wrong = !(plan.registers == 1 || plan.registers == 4 || (plan.registers == 2 && plan.chunk == 4));
        self.argument("chunks a lane", wrong, plan.registers, "1, 4, or 2 of four channels")?;
        let aligned = args.channels().is_multiple_of(4) && args.attributes().is_multiple_of(4);
        let wrong = plan.chunk != 1 && !(plan.chunk == 4 && aligned);
        self.argument("channels a chunk", wrong, plan.chunk, "1, or 4 where heads are aligned")?;
        self.argument("edges a segment", plan.segment == 0, 0, "at least 1")
    }
}
