// Gradients of edges of gatv2.wgsl and gat.wgsl, whose tasks are ranges of edges or single edges, not rows: sums over
// lanes, dropout, and a workgroup that stays together.

#param tasks: u32
#param heads: u32
#param lanes_log2: u32
#include random
#param threshold: u32
#param scale: f32

struct Edge {
    i: u32,
    j: u32,
    position: u32,
}

// The factor of attention dropout for the edge at position k of the columns bound.
fn kept(k: u32, head: u32) -> f32 {
    if p.threshold == 0u {
        return 1.0;
    }
    let hash = dropout_hash(vec2<u32>(weights[0], weights[1]), graph[p.ids_at + k], head);
    return select(0.0, p.scale, hash >= p.threshold);
}

const LOG2_E: f32 = 1.4426950408889634;

#include inner
#include lanes
alias Sum = vec4<f32>;

var<workgroup> counts: array<u32, WORKGROUP_SIZE>;

// The largest count of the workgroup: all of its threads meet at the barriers that often.
fn largest_in_workgroup(count: u32, thread: u32) -> u32 {
    counts[thread] = count;
    for (var half = WORKGROUP_SIZE / 2u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if thread < half {
            counts[thread] = max(counts[thread], counts[thread + half]);
        }
    }
    return workgroupUniformLoad(&counts[0]);
}
