//! What the operations of attention have in common.

use super::{OpError, StepState, Tape, Var, dropout::active, error::expect, tape::Sink};
use crate::{
    backend::{
        BackendError, DeviceGraph, Direction, Tensor,
        kernels::{DropoutMask, EdgeTerm},
    },
    plan::AttentionPlan,
};

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionOptions {
    /// Number of heads, which divides the features.
    pub heads: usize,
    /// The slope below 0 of the function that scores go through.
    pub negative_slope: f32,
    /// The share of attention that training drops.
    pub dropout: f32,
}

impl Default for AttentionOptions {
    fn default() -> Self {
        Self { heads: 1, negative_slope: 0.2, dropout: 0.0 }
    }
}

/// Edge attributes, `[edges, attributes]` in edge order, and their weight: `[features, attributes]` for GATv2,
/// `[heads, attributes]` for GAT.
#[derive(Clone, Copy, Debug)]
pub struct EdgeAttention<'a> {
    /// The attributes.
    pub attr: &'a Var,
    /// The weight.
    pub weight: &'a Var,
}

/// Plans by destination, and by source for the gradient.
pub(super) fn plans(graph: &DeviceGraph, features: usize, heads: usize) -> [AttentionPlan; 2] {
    let caps = graph.device().capabilities();
    [Direction::Forward, Direction::Transposed]
        .map(|direction| AttentionPlan::new(graph.offsets(direction), features / heads.max(1), caps))
}

/// What kernels take besides nodes, kept for the gradient.
pub(super) struct Kept {
    pub(super) graph: DeviceGraph,
    edge: Option<(Tensor, Tensor)>,
    pub(super) options: AttentionOptions,
    dropout: Option<(StepState, u32)>,
    pub(super) plan: AttentionPlan,
}

impl Kept {
    /// Checks the edges: `weight_rows` is how many rows their weight has.
    pub(super) fn new(
        op: &'static str,
        tape: &Tape,
        graph: &DeviceGraph,
        edge: Option<EdgeAttention<'_>>,
        weight_rows: usize,
        options: AttentionOptions,
        plan: AttentionPlan,
    ) -> Result<Self, OpError> {
        if let Some(EdgeAttention { attr, weight }) = edge {
            expect(op, "the edge attributes", attr.tensor(), [graph.num_edges(), attr.shape()[1]])?;
            expect(op, "the edge weight", weight.tensor(), [weight_rows, attr.shape()[1]])?;
        }
        Ok(Self {
            graph: graph.clone(),
            edge: edge.map(|e| (e.attr.tensor().clone(), e.weight.tensor().clone())),
            options,
            dropout: active(tape, options.dropout)?,
            plan,
        })
    }

    pub(super) fn edge(&self) -> Option<EdgeTerm<'_>> {
        self.edge.as_ref().map(|(attr, weight)| EdgeTerm { attr, weight })
    }

    pub(super) fn dropout(&self) -> Option<DropoutMask<'_>> {
        let (state, layer) = self.dropout.as_ref()?;
        Some(DropoutMask { state: state.buffer(), layer: *layer, p: self.options.dropout })
    }
}

/// Memory for a gradient like `like`: that of `spent`, where it is of use to nobody else and of the same form. The
/// kernels must read it no more by then, as they do the result, whose `<g, h>` they take before they write the gradient
/// of what is summed.
pub(super) fn gradient_over(spent: &Tensor, like: &Tensor, label: &'static str) -> Result<Tensor, BackendError> {
    let fits = spent.shape() == like.shape() && spent.dtype() == like.dtype();
    if fits && spent.buffer().is_unique() { Ok(spent.clone()) } else { like.like(label) }
}

/// The gradients of edges, where they are wanted.
#[derive(Default)]
pub(super) struct EdgeGradients {
    pub(super) attr: Option<Tensor>,
    /// The parts of the weight's.
    pub(super) parts: Option<Tensor>,
}

impl EdgeGradients {
    /// Memory for those that are wanted: attributes are the input 3, the weight 4.
    pub(super) fn new(kept: &Kept, sink: &Sink<'_>) -> Result<Self, OpError> {
        let Some(EdgeTerm { attr, weight }) = kept.edge() else { return Ok(Self::default()) };
        let parts = || {
            let (ranges, label) = (kept.plan.ranges(attr.rows()), "gradients of an edge weight by range");
            Tensor::uninit(attr.device(), ranges, weight.words(), label)
        };
        Ok(Self {
            attr: sink.wants(3).then(|| attr.like("gradient of edge attributes")).transpose()?,
            parts: sink.wants(4).then(parts).transpose()?,
        })
    }

    /// Gives them as those of the inputs 3 and 4.
    pub(super) fn give(self, kept: &Kept, sink: &mut Sink<'_>) -> Result<(), OpError> {
        if let Some(grad) = self.attr {
            sink.give(3, grad)?;
        }
        if let (Some(parts), Some(edge)) = (self.parts, kept.edge()) {
            let grad = edge.weight.like("gradient of an edge weight")?;
            parts.device().column_sums(&parts, &grad.flattened(), false)?;
            sink.give(4, grad)?;
        }
        Ok(())
    }
}
