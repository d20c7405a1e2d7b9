use std::fmt;

use super::{Capabilities, SpmmPlan};

/// Edges of a segment: the fastest of 64 to 512 on graphs with hubs (measured on an H200). Less than for plain sums, as
/// there is more to do an edge.
pub(super) const ATTENTION_SEGMENT: u32 = 128;
/// Lanes that share a head at most: those that exchange values without workgroup memory on most GPUs.
const MAX_LANES: u32 = 32;
/// Pieces into which the sum over all edges is cut.
const MAX_RANGES: usize = 512;

/// How attention over the rows of a graph is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionPlan {
    /// Threads that share one head of one row, a power of two.
    pub lanes: u32,
    /// Quads of channels that each of them holds, 1 or 2. Wider heads are done in blocks, each of which computes the
    /// scores again.
    pub registers: u32,
    /// Rows with more edges are cut into segments of this many, computed apart and merged in order.
    pub segment: u32,
    /// Edges that one partial sum over all edges takes.
    pub range: u32,
}

impl AttentionPlan {
    /// Plans attention over rows of `offsets` with heads of `channels` channels.
    pub fn new(offsets: &[u32], channels: usize, caps: &Capabilities) -> Self {
        let edges = offsets.last().copied().unwrap_or(0) as usize;
        let quads = channels.div_ceil(4);
        let lanes = (quads.min(MAX_LANES as usize) as u32).next_power_of_two().min(caps.workgroup_size);
        Self {
            lanes,
            registers: if quads > lanes as usize { 2 } else { 1 },
            segment: SpmmPlan::segment_bound(offsets, ATTENTION_SEGMENT),
            range: edges.div_ceil(MAX_RANGES).max(64) as u32,
        }
    }

    /// How many partial sums `edges` edges give; one where there are none.
    pub fn ranges(&self, edges: usize) -> usize {
        edges.div_ceil(self.range as usize).max(1)
    }

    /// Blocks of as many channels as threads hold that a head is cut into.
    pub fn passes(&self, channels: usize) -> usize {
        self.blocks(channels).div_ceil(self.registers as usize)
    }

    /// Blocks of one quad a thread that a head is cut into.
    pub fn blocks(&self, channels: usize) -> usize {
        channels.div_ceil(4 * self.lanes as usize).max(1)
    }
}

impl fmt::Display for AttentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} lanes a head, each with {} times 4 channels, rows cut past {} edges, sums over all edges cut every {}",
            self.lanes, self.registers, self.segment, self.range
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_follow_the_channels_and_hubs_are_cut() {
        let caps = Capabilities {
            max_binding_bytes: 1 << 27,
            max_buffer_bytes: 1 << 28,
            workgroup_size: 256,
            concurrent_workgroups: 64,
        };
        let hub: Vec<u32> = std::iter::once(0).chain((0..1000).map(|i| 9_000 + 4 * i)).collect();
        for (channels, lanes, registers, passes) in
            [(1, 1, 1, 1), (7, 2, 1, 1), (33, 16, 1, 1), (128, 32, 1, 1), (256, 32, 2, 1), (300, 32, 2, 2)]
        {
            let plan = AttentionPlan::new(&hub, channels, &caps);
            let got = (plan.lanes, plan.registers, plan.passes(channels));
            assert_eq!(got, (lanes, registers, passes), "{channels} channels: {plan}");
            assert!(plan.segment < 9_000, "{plan}");
        }
        let regular: Vec<u32> = (0..1000).map(|i| 400 * i).collect();
        assert!(AttentionPlan::new(&regular, 8, &caps).segment >= 400);
        assert_eq!(AttentionPlan::new(&[0], 1, &caps).ranges(0), 1);
        assert_eq!(AttentionPlan::new(&hub, 1, &caps).ranges(12_996), 204);
    }
}
