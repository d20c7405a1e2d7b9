use std::borrow::Cow;

use super::{Features, Module, NnError};
use crate::{
    backend::DeviceGraph,
    ops::{self, Tape, Var},
};

/// What a convolution takes.
#[derive(Clone, Copy, Debug)]
pub struct ConvInput<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// Features of the sources, `[num_src, in]`.
    pub x: &'a Features,
    /// Features of the destinations, `[num_dst, in]`, where they are nodes of their own. Otherwise the destinations are the first sources:
    /// the same nodes in a whole graph, the targets in a sampled block.
    pub x_dst: Option<&'a Features>,
    /// `[edges, 1]`, in edge order.
    pub edge_weight: Option<&'a Var>,
    /// `[edges, attributes]`, in edge order.
    pub edge_attr: Option<&'a Var>,
}

/// A message-passing layer.
pub trait Conv: Module + std::fmt::Debug + Send + Sync {
    /// Features of the destinations, `[num_dst, out]`.
    ///
    /// # Errors
    /// If the input does not fit the layer, or what the device reports.
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError>;
}

impl<'a> ConvInput<'a> {
    /// Features on a graph.
    pub fn new(graph: &'a DeviceGraph, x: &'a Features) -> Self {
        Self { graph, x, x_dst: None, edge_weight: None, edge_attr: None }
    }

    /// A linear function of the destinations' features, given what it makes of the sources' where that is at hand.
    pub(super) fn of_destinations(
        &self,
        tape: &Tape,
        of_sources: Option<&Var>,
        f: impl FnOnce(&Features) -> Result<Var, NnError>,
    ) -> Result<Var, NnError> {
        if let Some(x_dst) = self.x_dst {
            return f(x_dst);
        }
        let all = match of_sources {
            Some(all) => Cow::Borrowed(all),
            None if self.graph.host().is_square() => return f(self.x),
            None => match self.x {
                Features::Dense(x) => return f(&ops::head_rows(tape, x, self.graph.num_dst())?.into()),
                Features::Sparse { .. } => Cow::Owned(f(self.x)?),
            },
        };
        if self.graph.host().is_square() {
            return Ok(all.into_owned());
        }
        Ok(ops::head_rows(tape, &all, self.graph.num_dst())?)
    }

    /// Refuses features of the destinations, which a layer on one set of nodes would silently ignore.
    pub(super) fn refuse_destinations(&self, layer: &'static str) -> Result<(), NnError> {
        if self.x_dst.is_none() {
            return Ok(());
        }
        Err(NnError::Argument {
            what: layer,
            got: "given features of the destinations".into(),
            expected: "one set of nodes".into(),
        })
    }

    /// Refuses what the layer would silently ignore.
    pub(super) fn refuse_edge_data(&self, layer: &'static str, weights: bool, attributes: bool) -> Result<(), NnError> {
        for (given, allowed, what) in [
            (self.edge_weight.is_some(), weights, "edge weights"),
            (self.edge_attr.is_some(), attributes, "edge attributes"),
        ] {
            if given && !allowed {
                return Err(NnError::Argument {
                    what: layer,
                    got: format!("given {what}"),
                    expected: format!("no {what}: the layer does not use them"),
                });
            }
        }
        Ok(())
    }
}
