// The sum over the threads that share a row, a head or an edge, in a fixed tree: v_l + v_(l + half), for half from
// lanes / 2 down to 1. All of them get it. The file that includes this one says what is added up, as `alias Sum`.
//
//   sums [256]   one value a thread, in workgroup memory
//
// SUBGROUPS: lanes exchange values, v_l + v_(l xor half), without workgroup memory and barriers. Addition commutes, so
// that every lane has the bits that the first has in the tree. `lanes` consecutive threads are then consecutive
// invocations of one subgroup: src/backend/wgpu/subgroups.rs makes sure of that.
// Source: reductions by shuffles after "Faster Parallel Reductions on Kepler" (Luitjens, NVIDIA, 2014).

#ifdef SUBGROUPS
fn sum_over_lanes(value: Sum, _thread: u32, lanes: u32) -> Sum {
    var sum = value;
    for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
        sum += subgroupShuffleXor(sum, half);
    }
    return sum;
}
#else
var<workgroup> sums: array<Sum, WORKGROUP_SIZE>;

fn sum_over_lanes(value: Sum, thread: u32, lanes: u32) -> Sum {
    let lane = thread & (lanes - 1u);
    workgroupBarrier();
    sums[thread] = value;
    for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    return sums[thread - lane];
}
#endif
