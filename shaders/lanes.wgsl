// Sixteen threads that share a row, merged in a fixed tree.

const LANES: u32 = 16u;
var<workgroup> sums: array<f32, WORKGROUP_SIZE>;

// The sum over the lanes of a row, the same for each of them.
fn sum_over_lanes(value: f32, thread: u32) -> f32 {
    let lane = thread % LANES;
    workgroupBarrier();
    sums[thread] = value;
    for (var half = LANES / 2u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    return sums[thread - lane];
}
