// Shared by the kernels of attention (gatv2.wgsl, gat.wgsl), which go over rows (passes.wgsl) or ranges of edges
// (ranges.wgsl): what they read, and what stands before and after them:
//
// WEIGHTS: the key of dropout, `att` and the weight of edges, as one array of words.
// NODES: what gradients need of a destination, as one row: r, g, and for each head logsumexp, in units of log 2, and
// delta = <g, h>. With QUADS g is copied apart, and r where it is as wide: by whole chunks.
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
// QUADS: channels are a multiple of 4, so that rows are read in quads.
#ifdef QUADS
alias Unit = vec4<f32>;
#else
alias Unit = f32;
#endif

// The places of four numbers from `at` on; of those past the last one, of which there are `left`, the last one's again.
fn places(at: u32, left: u32) -> vec4<u32> {
    return at + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(left - 1u));
}

// The first `left` of four numbers; the others are 0.
fn first_of(quad: vec4<f32>, left: u32) -> vec4<f32> {
    return select(vec4<f32>(), quad, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(left));
}

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
#read g: array<Unit>
#read h: array<Unit>
#read logsumexp: array<f32>
#write nodes: array<f32>

#include inner
#include lanes
alias Sum = f32;
const LOG2_E: f32 = 1.4426950408889634;

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
        for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
            let feature = head * p.channels + c;
            let left = p.channels - c;
            let start = i * p.stride + feature;
#ifdef QUADS
            let grad = g[start >> 2u];
            delta = add_inner(delta, grad, h[start >> 2u]);
#else
            let place = places(start, left);
            let grad = first_of(vec4<f32>(g[place.x], g[place.y], g[place.z], g[place.w]), left);
            delta = add_inner(delta, grad, vec4<f32>(h[place.x], h[place.y], h[place.z], h[place.w]));
            for (var n = 0u; n < min(4u, left); n++) {
                nodes[i * p.nodes_stride + p.g_at + feature + n] = grad[n];
            }
#endif
        }
        for (var c = lane; c < p.r_channels; c += lanes) {
            let feature = head * p.r_channels + c;
            nodes[i * p.nodes_stride + feature] = r[i * p.r_stride + feature];
        }
    }
    delta = sum_over_lanes(delta, thread, lanes);
    if lane == 0u && i < p.tasks {
        let at = i * p.nodes_stride + p.scalars_at + 2u * head;
        nodes[at] = LOG2_E * logsumexp[i * p.lse_stride + head];
        nodes[at + 1u] = delta;
    }
}
#else

#ifdef BY_WEIGHT
#include ranges
#else
#ifdef EDGE_GRAD
#include ranges
#else
#include passes
#endif
#endif

#param channels: u32
#param nodes_stride: u32
#param g_at: u32
#param scalars_at: u32
#param first_task: u32
#param blocks: u32
#param columns_at: u32
#param others_at: u32
#param ids_at: u32
#param l_stride: u32
#param out_stride: u32
#param e_stride: u32
#param attributes: u32
#param slope: f32
#read graph: array<u32>
#read nodes: array<Unit>
#read l: array<Unit>
#read weights: array<u32>
#ifdef EDGES
#read e: array<f32>
#endif
#ifdef FORWARD
#param lse_stride: u32
#write logsumexp: array<f32>
#endif

// Four channels from `at` on, of which the head has `left`; the others are 0. All are loaded at once.
fn quad_of_l(at: u32, left: u32) -> vec4<f32> {
#ifdef QUADS
    return l[at >> 2u];
#else
    let place = places(at, left);
    return first_of(vec4<f32>(l[place.x], l[place.y], l[place.z], l[place.w]), left);
#endif
}

fn quad_of_nodes(at: u32, left: u32) -> vec4<f32> {
#ifdef QUADS
    return nodes[at >> 2u];
#else
    let place = places(at, left);
    return first_of(vec4<f32>(nodes[place.x], nodes[place.y], nodes[place.z], nodes[place.w]), left);
#endif
}

fn scalar_of_nodes(at: u32) -> f32 {
#ifdef QUADS
    return nodes[at >> 2u][at & 3u];
#else
    return nodes[at];
#endif
}

#ifndef FORWARD
// logsumexp in units of log 2, and delta.
fn scalars_of(i: u32, head: u32) -> vec2<f32> {
    let at = i * p.nodes_stride + p.scalars_at + 2u * head;
#ifdef QUADS
    let quad = nodes[at >> 2u];
    return select(quad.xy, quad.zw, (at & 2u) == 2u);
#else
    return vec2<f32>(nodes[at], nodes[at + 1u]);
#endif
}
#endif
#endif
#endif
#endif
