use super::{Check, Checked};
use crate::{
    backend::{DeviceGraph, Tensor, kernels::EdgeTerm},
    plan::AttentionPlan,
};

impl Check<'_> {
    /// What all attention takes: features that are summed, which heads divide, and edges with a weight of `weight_rows` rows.
    pub(super) fn attention(
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
        self.feature("the features", values, [graph.num_src(), features])?;
        if let Some(edge) = edge {
            self.tensor("the edge attributes", edge.attr, [graph.num_edges(), edge.attr.cols().max(1)])?;
            self.tensor("the edge weight", edge.weight, [weight_rows, edge.attr.cols()])?;
        }
        self.attention_plan(plan)
    }

    /// The gradients of edge attributes and of their weight, where they are asked for.
    pub(super) fn edge_grads(
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

    pub(super) fn attention_plan(&self, plan: &AttentionPlan) -> Checked {
        let (lanes, most) = (plan.lanes, self.device.capabilities().workgroup_size);
        let wrong = !lanes.is_power_of_two() || lanes > most;
        self.argument("lanes a head", wrong, lanes, format_args!("a power of two up to {most}"))?;
        self.argument("quads a lane", ![1, 2].contains(&plan.registers), plan.registers, "1 or 2")?;
        self.argument("edges a segment", plan.segment == 0, 0, "at least 1")?;
        self.argument("edges a range", plan.range == 0, 0, "at least 1")
    }
}
