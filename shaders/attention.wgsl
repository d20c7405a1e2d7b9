// Shared by the kernels of attention (gatv2.wgsl, gat.wgsl): the graph cut into tasks, dropout of attention, sums over
// lanes in a fixed tree, the online softmax; and what stands before and after them:
//
// WEIGHTS: the key of dropout, `att` and the weight of edges, as one array of words.
// NODES: what gradients need of a destination, as one row: r, g, and for each head logsumexp and delta = <g, h>.
// MERGE: h and logsumexp of a row from those of its segments, each of which has its part of the sum of exp(score).
// Sums of the other kernels are merged by spmm.wgsl.
//
//   graph [words]: tasks (row, first edge, one past the last, row of the result), then columns, others and edge ids of
//                  all edges from their places on. Others are the rows of edges cut into ranges (BY_WEIGHT,
//                  EDGE_GRAD), or their places in edge order (BY_SOURCE).
//
// Bytes: WEIGHTS 8 a word; NODES 16 F a row, MERGE 4 F a segment, F features.
// Source: "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).

#ifdef WEIGHTS
#ifdef DROPOUT
#include random
#endif
#param att_words: u32
#param weight_words: u32
#read att: array<u32>
#ifdef EDGES
#read weight: array<u32>
#endif
#ifdef DROPOUT
#param layer: u32
#read state: StepData
#endif
#write weights: array<u32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if index < p.att_words {
        weights[2u + index] = att[index];
    }
#ifdef EDGES
    if index < p.weight_words {
        weights[2u + p.att_words + index] = weight[index];
    }
#endif
    if index == 0u {
#ifdef DROPOUT
        let key = dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
        weights[0] = key.x;
        weights[1] = key.y;
#else
        weights[0] = 0u;
        weights[1] = 0u;
#endif
    }
}
#else
#ifdef MERGE
#param tasks: u32
#param features: u32
#param channels: u32
#param out_stride: u32
#param lse_stride: u32
#read heavy: array<vec4<u32>>
#read partials: array<f32>
#read partial_lse: array<f32>
#write out: array<f32>
#write logsumexp: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if index >= p.tasks * p.features {
        return;
    }
    let row = heavy[index / p.features]; // row, first segment, one past the last
    let feature = index % p.features;
    let head = feature / p.channels;
    var largest = partial_lse[row.y * p.lse_stride + head];
    for (var s = row.y + 1u; s < row.z; s++) {
        largest = max(largest, partial_lse[s * p.lse_stride + head]);
    }
    var sum = 0.0;
    var total = 0.0;
    for (var s = row.y; s < row.z; s++) {
        let share = exp(partial_lse[s * p.lse_stride + head] - largest);
        total += share;
        sum += share * partials[s * p.out_stride + feature];
    }
    out[row.x * p.out_stride + feature] = sum / total;
    if feature % p.channels == 0u {
        logsumexp[row.x * p.lse_stride + head] = largest + log(total);
    }
}
#else
#ifdef NODES
#param tasks: u32
#param heads: u32
#param channels: u32
#param lanes_log2: u32
#param nodes_stride: u32
#param g_at: u32
#param scalars_at: u32
#param r_channels: u32
#param r_stride: u32
#param stride: u32
#param lse_stride: u32
#read r: array<f32>
#read g: array<f32>
#read h: array<f32>
#read logsumexp: array<f32>
#write nodes: array<f32>

#include lanes
alias Sum = f32;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let index = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let i = index / p.heads;
    let head = index % p.heads;
    var delta = 0.0;
    if i < p.tasks {
        for (var c = lane; c < p.channels; c += lanes) {
            let feature = head * p.channels + c;
            let grad = g[i * p.stride + feature];
            delta += grad * h[i * p.stride + feature];
            nodes[i * p.nodes_stride + p.g_at + feature] = grad;
        }
        for (var c = lane; c < p.r_channels; c += lanes) {
            let feature = head * p.r_channels + c;
            nodes[i * p.nodes_stride + feature] = r[i * p.r_stride + feature];
        }
    }
    delta = sum_over_lanes(delta, thread, lanes);
    if lane == 0u && i < p.tasks {
        let at = i * p.nodes_stride + p.scalars_at + 2u * head;
        nodes[at] = logsumexp[i * p.lse_stride + head];
        nodes[at + 1u] = delta;
    }
}
#else
#ifdef DROPOUT
#include random
#endif

// QUADS: channels are a multiple of 4, so that rows are read in quads.
#ifdef QUADS
alias Unit = vec4<f32>;
#else
alias Unit = f32;
#endif

#param tasks: u32
#param heads: u32
#param channels: u32
#param lanes_log2: u32
#param nodes_stride: u32
#param g_at: u32
#param scalars_at: u32
#param first_task: u32
#param blocks: u32
#param columns_at: u32
#param others_at: u32
#param ids_at: u32
#param out_stride: u32
#param e_stride: u32
#param attributes: u32
#param slope: f32
#ifdef DROPOUT
#param threshold: u32
#param scale: f32
#endif
#read graph: array<u32>
#param l_stride: u32
#read nodes: array<Unit>
#read l: array<Unit>
#ifdef EDGES
#read e: array<f32>
#endif
#ifdef FORWARD
#param lse_stride: u32
#write logsumexp: array<f32>
#endif

const LOWEST: f32 = -3.0e38;

struct Edge {
    i: u32,
    j: u32,
    position: u32,
}

// Four channels from `feature` on, of which the head has `left`; the others are 0.
fn quad_of_l(j: u32, feature: u32, left: u32) -> vec4<f32> {
    let at = j * p.l_stride + feature;
#ifdef QUADS
    return l[at >> 2u];
#else
    var quad = vec4<f32>(l[at], 0.0, 0.0, 0.0);
    if left > 1u {
        quad.y = l[at + 1u];
    }
    if left > 2u {
        quad.z = l[at + 2u];
    }
    if left > 3u {
        quad.w = l[at + 3u];
    }
    return quad;
#endif
}

// Four channels from `at` on, of which the head has `left`; the others are 0.
fn quad_of_nodes(at: u32, left: u32) -> vec4<f32> {
#ifdef QUADS
    return nodes[at >> 2u];
#else
    var quad = vec4<f32>(nodes[at], 0.0, 0.0, 0.0);
    if left > 1u {
        quad.y = nodes[at + 1u];
    }
    if left > 2u {
        quad.z = nodes[at + 2u];
    }
    if left > 3u {
        quad.w = nodes[at + 3u];
    }
    return quad;
#endif
}

fn scalar_of_nodes(at: u32) -> f32 {
#ifdef QUADS
    return nodes[at >> 2u][at & 3u];
#else
    return nodes[at];
#endif
}

// The factor of attention dropout for the edge at position k of the columns bound.
fn kept(k: u32, head: u32) -> f32 {
#ifdef DROPOUT
    let hash = dropout_hash(vec2<u32>(weights[0], weights[1]), graph[p.ids_at + k], head);
    return select(0.0, p.scale, hash >= p.threshold);
#else
    return 1.0;
#endif
}

#ifndef FORWARD
// logsumexp and delta.
fn scalars_of(i: u32, head: u32) -> vec2<f32> {
    let at = i * p.nodes_stride + p.scalars_at + 2u * head;
    return vec2<f32>(scalar_of_nodes(at), scalar_of_nodes(at + 1u));
}
#endif

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

// The softmax of the scores so far: the largest, the sum of exp(score - largest), and what to rescale sums with that
// were made before the last scores came.
struct Softmax {
    largest: f32,
    total: f32,
    rescale: f32,
}

fn with_scores(before: Softmax, scores: vec4<f32>, count: u32) -> Softmax {
    var after = before;
    for (var b = 0u; b < count; b++) {
        after.largest = max(after.largest, scores[b]);
    }
    after.rescale = exp(before.largest - after.largest);
    after.total *= after.rescale;
    for (var b = 0u; b < count; b++) {
        after.total += exp(scores[b] - after.largest);
    }
    return after;
}

// The logarithm of the sum of exp(score), 0 where there are none.
fn logarithm_of(softmax: Softmax) -> f32 {
    return select(0.0, softmax.largest + log(softmax.total), softmax.total > 0.0);
}
#endif
#endif
#endif
