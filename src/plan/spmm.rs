use std::fmt;

use super::Capabilities;

/// How threads are laid over the work of a neighbour sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapping {
    /// Lanes across the features, edges in sequence: every load of a row is contiguous.
    FeatureParallel,
    /// Lanes across the edges, features in sequence, merged in a fixed tree: for features too narrow to fill the lanes.
    NeighbourParallel,
}

/// The layout of a [`crate::backend::kernels::Spmm`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpmmPlan {
    /// The mapping.
    pub mapping: Mapping,
    /// Threads that work on one row (or one segment of it), a power of two.
    pub lanes: u32,
    /// Rows with more edges are cut into segments of this many, summed apart and merged in order.
    pub segment: u32,
    /// Why.
    pub reason: &'static str,
}

impl SpmmPlan {
    /// Plans a sum over rows of `offsets` of `features` columns.
    pub fn new(offsets: &[u32], features: usize, caps: &Capabilities) -> Self {
        let rows = offsets.len().saturating_sub(1);
        let edges = offsets.last().copied().unwrap_or(0) as usize;
        let mean_degree = edges.div_ceil(rows.max(1)) as u32;
        let quads = features.div_ceil(4) as u32;
        let max_lanes = caps.workgroup_size.min(64);
        let (mapping, lanes, reason) = if quads <= 2 && mean_degree >= 4 {
            let lanes = mean_degree.next_power_of_two().clamp(2, max_lanes.min(32));
            (Mapping::NeighbourParallel, lanes, "features fill at most two lanes, rows have several edges")
        } else if quads <= 2 {
            (Mapping::FeatureParallel, quads.next_power_of_two(), "narrow features, but rows too short to share out")
        } else {
            (Mapping::FeatureParallel, quads.next_power_of_two().min(max_lanes), "features fill the lanes")
        };
        Self { mapping, lanes, segment: Self::segment_bound(edges, mean_degree, lanes, caps), reason }
    }

    /// The same with a given mapping, for comparison.
    pub fn with_mapping(mapping: Mapping, offsets: &[u32], features: usize, caps: &Capabilities) -> Self {
        let planned = Self::new(offsets, features, caps);
        if planned.mapping == mapping {
            return planned;
        }
        let lanes = match mapping {
            Mapping::FeatureParallel => (features.div_ceil(4) as u32).next_power_of_two().min(64),
            Mapping::NeighbourParallel => 8,
        };
        Self { mapping, lanes, reason: "the mapping was given", ..planned }
    }

    /// A row may take as long as the whole launch takes in a perfect split, but no longer, and never less than 256 edges or twice the mean: a regular
    /// graph, whose rows are all alike, is never cut.
    pub(super) fn segment_bound(edges: usize, mean_degree: u32, lanes: u32, caps: &Capabilities) -> u32 {
        let rows_in_flight = (caps.concurrent_workgroups * caps.workgroup_size / lanes.max(1)).max(1) as usize;
        (edges.div_ceil(rows_in_flight)).clamp(256, 1 << 20).max(2 * mean_degree as usize) as u32
    }
}

impl fmt::Display for SpmmPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mapping = match self.mapping {
            Mapping::FeatureParallel => "feature-parallel",
            Mapping::NeighbourParallel => "neighbour-parallel",
        };
        write!(f, "{mapping}, {} lanes a row, rows cut past {} edges: {}", self.lanes, self.segment, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps() -> Capabilities {
        Capabilities {
            max_binding_bytes: 1 << 27,
            max_buffer_bytes: 1 << 28,
            workgroup_size: 256,
            concurrent_workgroups: 64,
        }
    }

    /// Offsets of `rows` rows of equal degree, the first of degree `first`.
    fn offsets(rows: u32, degree: u32, first: u32) -> Vec<u32> {
        std::iter::once(0).chain((0..rows).map(|i| first + i * degree)).collect()
    }

    #[test]
    fn narrow_features_go_across_neighbours_and_wide_ones_do_not() {
        let rows = offsets(1000, 16, 16);
        assert_eq!(SpmmPlan::new(&rows, 1, &caps()).mapping, Mapping::NeighbourParallel);
        assert_eq!(SpmmPlan::new(&rows, 8, &caps()).mapping, Mapping::NeighbourParallel);
        let wide = SpmmPlan::new(&rows, 100, &caps());
        assert_eq!((wide.mapping, wide.lanes), (Mapping::FeatureParallel, 32));
        assert_eq!(SpmmPlan::new(&offsets(1000, 2, 2), 1, &caps()).mapping, Mapping::FeatureParallel);
    }

    #[test]
    fn only_rows_beyond_their_share_are_cut() {
        for (rows, degree) in [(100_000, 1), (100_000, 16), (100_000, 200), (100, 1_000)] {
            let plan = SpmmPlan::new(&offsets(rows, degree, degree), 64, &caps());
            assert!(plan.segment >= degree, "a regular graph of degree {degree}: {plan}");
        }
        let hub = SpmmPlan::new(&offsets(10_000, 4, 9_000), 64, &caps());
        assert!(hub.segment < 9_000, "{hub}");
        assert!(hub.to_string().contains("feature-parallel, 16 lanes"));
    }

    #[test]
    fn an_empty_graph_has_a_plan() {
        for features in [0, 1, 300] {
            let plan = SpmmPlan::new(&[0], features, &caps());
            assert!(plan.lanes.is_power_of_two() && plan.segment >= 256);
        }
    }
}
