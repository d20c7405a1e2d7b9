use std::fmt;

use hopwise::plan::{AttentionPlan, Capabilities, Mapping, ReducePlan, SpmmPlan, TransformerPlan};

use super::work::Op;

/// Lanes of a row at most, and of a head.
const MAX_LANES: u32 = 32;
/// Bounds past which rows are cut, to compare.
const SEGMENTS: [u32; 5] = [64, 128, 256, 512, 1024];

/// How a plan differs from the planner's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Of a sum.
    mapping: Option<Mapping>,
    lanes: Option<Lanes>,
    /// Edges past which rows are cut.
    segment: Option<u32>,
}

/// Threads that share a row or a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lanes {
    Half,
    Twice,
}

impl Changes {
    /// What is worth comparing with the planner's choice for an operation: what the backend takes from a plan. The processor
    /// goes row by row whatever it says, and CUDA has lanes of its own.
    pub(crate) fn alternatives(op: Op, backend: &str) -> Vec<Self> {
        if backend == "cpu" {
            return Vec::new();
        }
        let mappings = [Mapping::FeatureParallel, Mapping::NeighbourParallel];
        let mappings = mappings.into_iter().filter(|_| op == Op::Sum);
        let lanes = [Lanes::Half, Lanes::Twice].into_iter().filter(|_| backend == "wgpu");
        let none = Self::default();
        mappings
            .map(|mapping| Self { mapping: Some(mapping), ..none })
            .chain(lanes.map(|lanes| Self { lanes: Some(lanes), ..none }))
            .chain(SEGMENTS.map(|segment| Self { segment: Some(segment), ..none }))
            .chain([Self { segment: Some(u32::MAX), ..none }])
            .collect()
    }

    pub(crate) fn spmm(self, offsets: &[u32], features: usize, caps: &Capabilities) -> SpmmPlan {
        let mut plan = match self.mapping {
            Some(mapping) => SpmmPlan::with_mapping(mapping, offsets, features, caps),
            None => SpmmPlan::new(offsets, features, caps),
        };
        plan.lanes = self.changed(plan.lanes);
        plan.segment = self.segment.unwrap_or(plan.segment);
        plan
    }

    pub(crate) fn reduce(self, offsets: &[u32], features: usize, outputs: usize, caps: &Capabilities) -> ReducePlan {
        let mut plan = ReducePlan::new(offsets, features, outputs, caps);
        plan.lanes = self.changed(plan.lanes);
        plan.segment = self.segment.unwrap_or(plan.segment);
        plan
    }

    pub(crate) fn attention(self, offsets: &[u32], channels: usize, caps: &Capabilities) -> AttentionPlan {
        let mut plan = AttentionPlan::new(offsets, channels, caps);
        let lanes = self.changed(plan.lanes);
        // What fewer lanes no longer hold, each holds more of.
        plan.registers = if lanes < plan.lanes { 2 } else { plan.registers };
        plan.lanes = lanes;
        plan.segment = self.segment.unwrap_or(plan.segment);
        plan
    }

    pub(crate) fn transformer(
        self,
        offsets: &[u32],
        channels: usize,
        attributes: usize,
        caps: &Capabilities,
    ) -> TransformerPlan {
        let mut plan = TransformerPlan::new(offsets, channels, attributes, caps);
        let lanes = self.changed(plan.lanes);
        if lanes < plan.lanes && plan.chunk == 4 && plan.registers < 4 {
            (plan.lanes, plan.registers) = (lanes, 2 * plan.registers);
        } else if lanes > plan.lanes {
            plan.lanes = lanes;
        }
        plan.segment = self.segment.unwrap_or(plan.segment);
        plan
    }

    fn changed(self, lanes: u32) -> u32 {
        match self.lanes {
            Some(Lanes::Half) => (lanes / 2).max(1),
            Some(Lanes::Twice) => (2 * lanes).min(MAX_LANES.max(lanes)),
            None => lanes,
        }
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.mapping, self.lanes, self.segment) {
            (Some(Mapping::FeatureParallel), ..) => f.write_str("lanes across features"),
            (Some(Mapping::NeighbourParallel), ..) => f.write_str("lanes across neighbours"),
            (_, Some(Lanes::Half), _) => f.write_str("half the lanes"),
            (_, Some(Lanes::Twice), _) => f.write_str("twice the lanes"),
            (.., Some(u32::MAX)) => f.write_str("rows never cut"),
            (.., Some(segment)) => write!(f, "rows cut past {segment} edges"),
            _ => f.write_str("the planner's choice"),
        }
    }
}
