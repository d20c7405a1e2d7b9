use std::fmt;

use super::{
    Capabilities, SpmmPlan,
    spmm::{MAX_LANES, SEGMENT},
};

/// What the largest cache of a GPU holds, about.
const CACHED_BYTES: usize = 64 << 20;

/// The layout of a [`crate::backend::kernels::Reduce`]: lanes across the features, edges in sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReducePlan {
    /// Numbers that a thread reads at once: 4, or 1 where outputs side by side do not start at multiples of 16 bytes.
    pub chunk: u32,
    /// Threads that work on one row (or one segment of it), a power of two.
    pub lanes: u32,
    /// Rows with more edges are cut into segments of this many, reduced apart and merged in order.
    pub segment: u32,
}

impl ReducePlan {
    /// Plans a reduction of `features` columns over rows of `offsets` to `outputs` numbers each.
    pub fn new(offsets: &[u32], features: usize, outputs: usize, caps: &Capabilities) -> Self {
        let chunk = Self::chunk(features, outputs);
        let lanes = (features as u32).div_ceil(chunk).next_power_of_two().min(caps.workgroup_size.min(MAX_LANES));
        Self { chunk, lanes, segment: SpmmPlan::segment_bound(offsets, SEGMENT) }
    }

    /// Whether the gradient of a minimum or maximum alone is handed out by destination, by additions of integers to some
    /// fifty bytes a feature of every node, rather than looked for among the edges by source, at a byte a feature each.
    ///
    /// On an H200 the two take the same time at some sixty edges a node, as long as the cache holds those bytes. Where
    /// they come from memory, handing out is faster at 47 already (34 ms against 41, 2.4 million nodes, 256 features).
    pub fn scatters(edges: usize, destinations: usize, features: usize) -> bool {
        let cached = destinations.saturating_mul(features) <= CACHED_BYTES;
        edges / if cached { 60 } else { 40 } >= destinations
    }

    /// Numbers that a thread reads at once.
    pub(crate) fn chunk(features: usize, outputs: usize) -> u32 {
        if features.is_multiple_of(4) || (outputs == 1 && features > 1) { 4 } else { 1 }
    }
}

impl fmt::Display for ReducePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lanes of {} numbers a row, rows cut past {} edges", self.lanes, self.chunk, self.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_extremes_are_handed_out_where_nodes_have_many_edges() {
        // The benchmark graphs arxiv-like, blocks, hubs and products-like.
        let graphs = [(2_251_932, 169_343), (9_247_114, 131_072), (12_150_556, 46_563), (116_078_478, 2_449_029)];
        let scatters = graphs.map(|(edges, nodes)| ReducePlan::scatters(edges, nodes, 256));
        assert_eq!(scatters, [false, true, true, true]);
        assert!(!ReducePlan::scatters(116_078_478, 2_449_029, 16));
    }

    #[test]
    fn lanes_fit_the_width_and_regular_rows_are_not_cut() {
        let caps = Capabilities {
            max_binding_bytes: 1 << 27,
            max_buffer_bytes: 1 << 28,
            workgroup_size: 256,
            concurrent_workgroups: 64,
        };
        let offsets: Vec<u32> = (0..=1000).map(|i| i * 300).collect();
        let lanes = |features, outputs| {
            let plan = ReducePlan::new(&offsets, features, outputs, &caps);
            assert!(plan.segment >= 300, "{plan}");
            (plan.chunk, plan.lanes)
        };
        assert_eq!(lanes(16, 4), (4, 4));
        assert_eq!(lanes(16, 1), (4, 4));
        assert_eq!(lanes(7, 1), (4, 2));
        assert_eq!(lanes(7, 2), (1, 8));
        assert_eq!(lanes(1, 1), (1, 1));
        assert_eq!(lanes(1000, 3), (4, 32));
        assert!(ReducePlan::new(&[0], 0, 1, &caps).lanes.is_power_of_two());
    }
}
