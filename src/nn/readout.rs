use super::NnError;
use crate::{
    backend::{DeviceGraph, kernels::Statistic},
    ops::{self, Tape, Var},
};

/// What the nodes of a graph are reduced to, feature by feature, to describe the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Readout {
    /// Their sum, which tells how many nodes there are too (Xu et al., "How Powerful are Graph Neural Networks?", ICLR 2019).
    #[default]
    Sum,
    /// Their mean.
    Mean,
    /// The largest entry.
    Max,
}

impl Readout {
    /// `out_g = reduce_i x_i` over the nodes `i` of each graph `g`; `x` is `[nodes, features]`, `out` `[graphs, features]`, 0 for a graph
    /// without nodes. `members` has an edge from every node to its graph, see [`GraphBatch::members`](crate::graph::GraphBatch::members).
    ///
    /// One launch, as statistics of neighbours are, see [`ops::reduce()`]; of equal entries the first has all of the maximum's gradient.
    ///
    /// # Errors
    /// If `x` is not a row a node, or what the device reports.
    pub fn forward(self, tape: &Tape, members: &DeviceGraph, x: &Var) -> Result<Var, NnError> {
        let statistic = match self {
            Self::Sum => Statistic::Sum,
            Self::Mean => Statistic::Mean,
            Self::Max => Statistic::Max,
        };
        Ok(ops::reduce(tape, members, x, &[statistic])?)
    }
}
