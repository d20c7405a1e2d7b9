use super::{Check, Checked};
use crate::backend::{
    Device, Tensor,
    kernels::{Family, Gat, GatBackward},
};

impl Device {
    /// Runs [`Gat`]; see [`GatKernels::gat`](crate::backend::kernels::GatKernels::gat).
    ///
    /// # Errors
    /// If a shape does not fit the graph or the heads, or what the device reports.
    pub fn gat(&self, args: &Gat<'_>, h: &Tensor, logsumexp: &Tensor) -> Checked {
        let check = self.check("gat");
        check.gat(args)?;
        check.feature("the output", h, [args.graph.num_dst(), args.z.cols()])?;
        check.tensor("the logarithms", logsumexp, args.destination.shape())?;
        let wide = check.widen(Family::Gat, args.aligned());
        let (z, h) = (wide.input(args.z)?, wide.output(h)?);
        let args = Gat { z: &z, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gat(&args, &h, logsumexp) }?;
        wide.store()
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
        check.features([forward.graph.num_dst(), forward.z.cols()], &[("h", args.h), ("the gradient", args.g)])?;
        check.alike(
            forward.destination.shape(),
            &[("the logarithms", args.logsumexp), ("grad_destination", args.grad_destination)],
        )?;
        check.feature("grad_z", args.grad_z, forward.z.shape())?;
        check.tensor("grad_source", args.grad_source, forward.source.shape())?;
        let ranges = forward.plan.ranges(forward.graph.num_edges());
        check.edge_grads(forward.edge.as_ref(), ranges, args.grad_attr, args.grad_weight)?;
        let wide = check.widen(Family::Gat, forward.aligned());
        let (z, h, g) = (wide.input(forward.z)?, wide.input(args.h)?, wide.input(args.g)?);
        let grad_z = wide.output(args.grad_z)?;
        let forward = Gat { z: &z, ..*forward };
        let args = GatBackward { forward: &forward, h: &h, g: &g, grad_z: &grad_z, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the heads; every buffer holds more words than the
        // step's state has.
        unsafe { self.backend().gat_grad(&args) }?;
        wide.store()
    }
}

impl Check<'_> {
    fn gat(&self, args: &Gat<'_>) -> Checked {
        self.attention(args.graph, args.heads, args.z, args.edge.as_ref(), args.heads, args.plan)?;
        self.tensor("the scores of sources", args.source, [args.graph.num_src(), args.heads])?;
        self.tensor("the scores of destinations", args.destination, [args.graph.num_dst(), args.heads])
    }
}
