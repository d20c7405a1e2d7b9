use std::fmt;

use super::Capabilities;

/// Lanes of a row: what is wider is done panel by panel, so that more rows beside each other share a workgroup, and the
/// cache holds more of the rows that they gather.
pub(super) const MAX_LANES: u32 = 32;
/// Edges of a segment: of bounds from 64 to 512, the fastest or next to it on graphs with hubs (measured on an H200).
pub(super) const SEGMENT: u32 = 256;

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
        let (_, mean_degree) = edges_and_mean(offsets);
        let quads = features.div_ceil(4) as u32;
        let max_lanes = caps.workgroup_size.min(MAX_LANES);
        let (mapping, lanes, reason) = if quads <= 2 && mean_degree >= 4 {
            let lanes = mean_degree.next_power_of_two().clamp(2, max_lanes);
            (Mapping::NeighbourParallel, lanes, "features fill at most two lanes, rows have several edges")
        } else if quads <= 2 {
            (Mapping::FeatureParallel, quads.next_power_of_two(), "narrow features, but rows too short to share out")
        } else {
            (Mapping::FeatureParallel, quads.next_power_of_two().min(max_lanes), "features fill the lanes")
        };
        Self { mapping, lanes, segment: Self::segment_bound(offsets, SEGMENT), reason }
    }

    /// The same with a given mapping, for comparison.
    pub fn with_mapping(mapping: Mapping, offsets: &[u32], features: usize, caps: &Capabilities) -> Self {
        let planned = Self::new(offsets, features, caps);
        if planned.mapping == mapping {
            return planned;
        }
        let lanes = match mapping {
            Mapping::FeatureParallel => (features.div_ceil(4) as u32).next_power_of_two().min(MAX_LANES),
            Mapping::NeighbourParallel => 8,
        };
        Self { mapping, lanes, reason: "the mapping was given", ..planned }
    }

    /// The most edges of a row that is not cut, `usual` unless rows are so long that segments would outnumber twice the
    /// nodes. A regular graph, whose rows are all alike, is never cut.
    ///
    /// Rows beside each other share a block of threads, which is done when its longest row is: that, more than the tail
    /// of the launch, is what long rows cost.
    pub(super) fn segment_bound(offsets: &[u32], usual: u32) -> u32 {
        let (_, mean_degree) = edges_and_mean(offsets);
        let longest = offsets.windows(2).map(|edges| edges[1] - edges[0]).max().unwrap_or(0);
        if longest <= mean_degree.saturating_mul(2) { usual.max(longest) } else { usual.max(mean_degree / 2) }
    }
}

/// The number of edges, and the mean number of a row, rounded up.
fn edges_and_mean(offsets: &[u32]) -> (usize, u32) {
    let edges = offsets.last().copied().unwrap_or(0) as usize;
    (edges, edges.div_ceil(offsets.len().saturating_sub(1).max(1)) as u32)
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
