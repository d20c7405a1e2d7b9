use super::{Check, Checked};
use crate::backend::{
    Device, Tensor,
    kernels::{Family, Gatv2, Gatv2Backward},
};

impl Device {
    /// Runs [`Gatv2`]; see [`Gatv2Kernels::gatv2`](crate::backend::kernels::Gatv2Kernels::gatv2).
    ///
    /// # Errors
    /// If a shape does not fit the graph or the heads, or what the device reports.
    pub fn gatv2(&self, args: &Gatv2<'_>, h: &Tensor, logsumexp: &Tensor) -> Checked {
        let check = self.check("gatv2");
        check.gatv2(args)?;
        check.feature("the output", h, args.r.shape())?;
        check.tensor("the logarithms", logsumexp, [args.r.rows(), args.heads])?;
        let wide = check.widen(Family::Gatv2, args.aligned());
        let (l, r, h) = (wide.input(args.l)?, wide.input(args.r)?, wide.output(h)?);
        let args = Gatv2 { l: &l, r: &r, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gatv2(&args, &h, logsumexp) }?;
        wide.store()
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
        check.features(forward.r.shape(), &[("h", args.h), ("the gradient", args.g), ("grad_r", args.grad_r)])?;
        check.tensor("grad_att", args.grad_att, forward.r.shape())?;
        check.tensor("the logarithms", args.logsumexp, [forward.r.rows(), forward.heads])?;
        check.feature("grad_l", args.grad_l, forward.l.shape())?;
        let ranges = forward.plan.ranges(forward.graph.num_edges());
        check.edge_grads(forward.edge.as_ref(), ranges, args.grad_attr, args.grad_weight)?;
        let wide = check.widen(Family::Gatv2, forward.aligned());
        let (l, r) = (wide.input(forward.l)?, wide.input(forward.r)?);
        let (h, g) = (wide.input(args.h)?, wide.input(args.g)?);
        let (grad_l, grad_r) = (wide.output(args.grad_l)?, wide.output(args.grad_r)?);
        let forward = Gatv2 { l: &l, r: &r, ..*forward };
        let args = Gatv2Backward { forward: &forward, h: &h, g: &g, grad_l: &grad_l, grad_r: &grad_r, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gatv2_grad(&args) }?;
        wide.store()
    }
}

impl Check<'_> {
    fn gatv2(&self, args: &Gatv2<'_>) -> Checked {
        let features = args.l.cols();
        self.attention(args.graph, args.heads, args.l, args.edge.as_ref(), features, args.plan)?;
        self.feature("r", args.r, [args.graph.num_dst(), features])?;
        self.tensor("att", args.att, [1, features])
    }
}
