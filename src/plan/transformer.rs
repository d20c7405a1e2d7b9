use std::fmt;

use super::{Capabilities, SpmmPlan, attention::ATTENTION_SEGMENT};

/// Threads that exchange values without workgroup memory on most GPUs: a head takes no more as long as they hold it.
const SUBGROUP: usize = 32;

/// The layout of attention: a [`crate::backend::kernels::TransformerForward`] and its gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformerPlan {
    /// Threads that work on one head of one row (or of one segment of it), a power of two.
    pub lanes: u32,
    /// Chunks of a head that one thread holds: 1, 4, or 2 of four channels.
    pub registers: u32,
    /// Channels that a chunk has: 4, or 1 where heads do not start at multiples of 16 bytes.
    pub chunk: u32,
    /// Rows with more edges are cut into segments of this many, done apart and merged in order.
    pub segment: u32,
}

impl TransformerPlan {
    /// Plans attention over rows of `offsets`, of heads of `channels` channels, and edges of `attributes`
    /// attributes.
    ///
    /// Threads lie across a head's channels and attributes. Each holds four channels: one chunk of 16 bytes, or four
    /// single ones. Where 32 threads, a subgroup, do not hold a head so, each holds two or four chunks of 16 bytes, and
    /// where these do not suffice either there are more threads, 256 at most; what those do not hold is refused by the
    /// GPU's kernels.
    pub fn new(offsets: &[u32], channels: usize, attributes: usize, caps: &Capabilities) -> Self {
        let chunk = if channels.is_multiple_of(4) && attributes.is_multiple_of(4) { 4 } else { 1 };
        let chunks = ((channels + attributes) / chunk).max(1);
        let registers = match (chunk, chunks) {
            (1, 1) => 1,
            (1, _) => 4,
            _ => chunks.div_ceil(SUBGROUP).next_power_of_two().min(4),
        };
        let lanes = chunks.div_ceil(registers).next_power_of_two().min(caps.workgroup_size as usize) as u32;
        let segment = SpmmPlan::segment_bound(offsets, ATTENTION_SEGMENT);
        Self { lanes, registers: registers as u32, chunk: chunk as u32, segment }
    }

    /// The most channels and attributes of a head that the lanes hold.
    pub fn capacity(&self) -> usize {
        self.lanes as usize * self.registers as usize * self.chunk as usize
    }
}

impl fmt::Display for TransformerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lanes, registers, chunk, segment } = self;
        write!(f, "{lanes} lanes a head, each with {registers} times {chunk} channels, rows cut past {segment} edges")
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

    #[test]
    fn lanes_hold_a_head() {
        let rows: Vec<u32> = (0..=100).map(|i| 16 * i).collect();
        for channels in [1, 4, 7, 8, 33, 64, 130, 257, 1024] {
            for attributes in [0, 1, 4, 16] {
                let plan = TransformerPlan::new(&rows, channels, attributes, &caps());
                let aligned = channels % 4 == 0 && attributes % 4 == 0;
                assert_eq!(plan.chunk, if aligned { 4 } else { 1 }, "{channels}, {attributes}: {plan}");
                if channels + attributes <= 1024 {
                    assert!(plan.capacity() >= channels + attributes, "{channels}, {attributes}: {plan}");
                }
            }
        }
        let narrow = TransformerPlan::new(&rows, 33, 0, &caps());
        assert_eq!((narrow.lanes, narrow.registers), (16, 4));
        for (channels, lanes, registers) in
            [(1, 1, 1), (8, 2, 1), (128, 32, 1), (256, 32, 2), (260, 32, 4), (1024, 64, 4)]
        {
            let plan = TransformerPlan::new(&rows, channels, 0, &caps());
            assert_eq!((plan.lanes, plan.registers), (lanes, registers), "{channels}: {plan}");
        }
        let plan = TransformerPlan::new(&rows, 64, 0, &caps());
        assert!(plan.to_string().starts_with("16 lanes a head, each with 1 times 4 channels"), "{plan}");
    }

    #[test]
    fn a_regular_graph_is_not_cut_and_a_hub_is() {
        let regular: Vec<u32> = (0..=1_000).map(|i| 300 * i).collect();
        assert!(TransformerPlan::new(&regular, 16, 0, &caps()).segment >= 300);
        assert!(TransformerPlan::new(&[0, 9_000, 9_001, 9_002, 9_003], 16, 0, &caps()).segment < 9_000);
        assert!(TransformerPlan::new(&[0], 1, 0, &caps()).segment >= 128);
    }
}
