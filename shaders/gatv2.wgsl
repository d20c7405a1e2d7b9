// Attention of GATv2 (Brody, Alon, Yahav, "How Attentive are Graph Attention Networks?", ICLR 2022): for the edge k
// from j to i and a head,
//
//   s_k = sum over channels c of att_c leaky(u_kc),  u_k = l_j + r_i + W e_k,  a_k = softmax of s over the edges into
//       i,
//   h_i = sum of a_k m_k l_j  with m_k 0 or 1 / (1 - p), a hash of the user's edge id and the head.
//   ds_k = a_k (m_k <g_i, l_j> - delta_i)  with delta_i = <g_i, h_i>,  t_k = ds_k att leaky'(u_k)
//
// FORWARD:        out_i = h_i, logsumexp_i. The softmax is computed online: a larger score rescales what was summed so
//                 far.
// BY_DESTINATION: out_i = sum of t_k over the edges into i, grad_att_i = sum of ds_k leaky(u_k)
// BY_SOURCE:      out_j = sum of a_k m_k g_i + t_k over the edges out of j
// BY_WEIGHT:      out_range = sum of t_k e_k^T over a range of edges, laid out as W
// EDGE_GRAD:      out_k = W^T t_k, every edge by itself
// MERGE:          h and logsumexp of a row from those of its segments. Sums of the other kernels are merged by
//                 spmm.wgsl.
// NODES:          what gradients need of a destination, as one row: r, g, and logsumexp and delta of each head
// WEIGHTS:        the key of dropout, att and W, as one array of words
//
//   graph     [tasks: (row, first edge, one past the last, row of the result)], then columns, others and edge ids
//             [edges] from their places on.
//             Others are the rows of edges (BY_WEIGHT, EDGE_GRAD) or their places in edge order (BY_SOURCE).
//   l, r, g, h, out, grad_att [nodes, stride], heads one after the other; e [edges, e_stride]; logsumexp [num_dst,
// heads]
//
// `lanes` threads share a head of a task, each has 4 channels; heads wider than 4 * lanes are done in blocks, each of
// which computes the scores again.
// Scores of 4 edges at a time are summed over the lanes in a fixed tree. Rows of more than a segment of edges are
// several tasks.
// QUADS: channels are a multiple of 4, so that rows are read in quads.
// Bytes an edge, F features, D attributes: FORWARD 4 + 4 F, BY_DESTINATION 4 + 4 F, BY_SOURCE 8 + 8 F, + 4 D each;
// nothing is written per edge.
// Source of the online softmax: "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).

#ifdef DROPOUT
#include random
#endif

#ifdef WEIGHTS
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

// All other kernels sum over lanes.
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

#ifdef NODES
#param stride: u32
#param lse_stride: u32
#read r: array<f32>
#read g: array<f32>
#read h: array<f32>
#read logsumexp: array<f32>
#write nodes: array<f32>

var<workgroup> sums: array<f32, WORKGROUP_SIZE>;

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
            nodes[i * p.nodes_stride + feature] = r[i * p.stride + feature];
            nodes[i * p.nodes_stride + p.g_at + feature] = grad;
        }
    }
    sums[thread] = delta;
    for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] += sums[thread + half];
        }
    }
    if lane == 0u && i < p.tasks {
        let at = i * p.nodes_stride + p.scalars_at + 2u * head;
        nodes[at] = logsumexp[i * p.lse_stride + head];
        nodes[at + 1u] = sums[thread];
    }
}
#else

#param first_task: u32
#param blocks: u32
#param columns_at: u32
#param others_at: u32
#param ids_at: u32
#param l_stride: u32
#param out_stride: u32
#param att_words: u32
#param e_stride: u32
#param attributes: u32
#param slope: f32
#ifdef DROPOUT
#param threshold: u32
#param scale: f32
#endif
#read graph: array<u32>
#read l: array<Unit>
#read nodes: array<Unit>
#read weights: array<u32>
#ifdef EDGES
#read e: array<f32>
#endif
#ifdef FORWARD
#param lse_stride: u32
#write logsumexp: array<f32>
#endif
#ifdef BY_DESTINATION
#write grad_att: array<Unit>
#endif
#ifdef BY_WEIGHT
#write out: array<f32>
#else
#ifdef EDGE_GRAD
#write out: array<f32>
#else
#write out: array<Unit>
#endif
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

fn quad_of_att(feature: u32, left: u32) -> vec4<f32> {
    let at = 2u + feature;
    var quad = vec4<f32>(bitcast<f32>(weights[at]), 0.0, 0.0, 0.0);
    if left > 1u {
        quad.y = bitcast<f32>(weights[at + 1u]);
    }
    if left > 2u {
        quad.z = bitcast<f32>(weights[at + 2u]);
    }
    if left > 3u {
        quad.w = bitcast<f32>(weights[at + 3u]);
    }
    return quad;
}

#ifdef EDGES
// One attribute's weights for four channels.
fn quad_of_weight(feature: u32, column: u32, left: u32) -> vec4<f32> {
    let at = 2u + p.att_words + feature * p.e_stride + column;
    var quad = vec4<f32>(bitcast<f32>(weights[at]), 0.0, 0.0, 0.0);
    if left > 1u {
        quad.y = bitcast<f32>(weights[at + p.e_stride]);
    }
    if left > 2u {
        quad.z = bitcast<f32>(weights[at + 2u * p.e_stride]);
    }
    if left > 3u {
        quad.w = bitcast<f32>(weights[at + 3u * p.e_stride]);
    }
    return quad;
}

fn projected(position: u32, feature: u32, left: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var d = 0u; d < p.attributes; d++) {
        sum += e[position * p.e_stride + d] * quad_of_weight(feature, d, left);
    }
    return sum;
}
#endif

// u_k for four channels.
fn quad_of_sum(edge: Edge, x: vec4<f32>, r: vec4<f32>, feature: u32, left: u32) -> vec4<f32> {
#ifdef EDGES
    return x + r + projected(edge.position, feature, left);
#else
    return x + r;
#endif
}

fn slope_of(u: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(p.slope), vec4<f32>(1.0), u > vec4<f32>());
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
#ifdef QUADS
    let quad = nodes[at >> 2u];
    return select(quad.xy, quad.zw, (at & 2u) != 0u);
#else
    return vec2<f32>(nodes[at], nodes[at + 1u]);
#endif
}
#endif

var<workgroup> sums: array<vec4<f32>, WORKGROUP_SIZE>;

// The sum over the lanes of a head, the same for each of them.
fn sum_over_lanes(value: vec4<f32>, thread: u32) -> vec4<f32> {
    let lane = thread & ((1u << p.lanes_log2) - 1u);
    workgroupBarrier();
    sums[thread] = value;
    for (var half = (1u << p.lanes_log2) >> 1u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] += sums[thread + half];
        }
    }
    workgroupBarrier();
    return sums[thread - lane];
}

#ifdef EDGE_GRAD
@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let k = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let present = k < p.tasks;
    var edge = Edge();
    if present {
        edge = Edge(graph[p.others_at + k], graph[p.columns_at + k], k);
    }
    for (var head = 0u; head < p.heads; head++) {
        var parts = vec4<f32>();
        if present {
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let left = p.channels - c;
                let x = quad_of_l(edge.j, feature, left);
                let r = quad_of_nodes(edge.i * p.nodes_stride + feature, left);
                let g = quad_of_nodes(edge.i * p.nodes_stride + p.g_at + feature, left);
                let u = quad_of_sum(edge, x, r, feature, left);
                parts.x += dot(quad_of_att(feature, left), slope_of(u) * u);
                parts.y += dot(g, x);
            }
        }
        parts = sum_over_lanes(parts, thread);
        var grad = 0.0;
        if present {
            let scalars = scalars_of(edge.i, head);
            grad = exp(parts.x - scalars.x) * (kept(k, head) * parts.y - scalars.y);
        }
        for (var d = 0u; d < p.attributes; d += 4u) {
            var by_attribute = vec4<f32>();
            if present {
                for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                    let feature = head * p.channels + c;
                    let left = p.channels - c;
                    let x = quad_of_l(edge.j, feature, left);
                    let r = quad_of_nodes(edge.i * p.nodes_stride + feature, left);
                    let t = grad * quad_of_att(feature, left) * slope_of(quad_of_sum(edge, x, r, feature, left));
                    for (var n = 0u; n < min(4u, p.attributes - d); n++) {
                        by_attribute[n] += dot(t, quad_of_weight(feature, d + n, left));
                    }
                }
            }
            by_attribute = sum_over_lanes(by_attribute, thread);
            if present && lane == 0u {
                for (var n = 0u; n < min(4u, p.attributes - d); n++) {
                    let at = k * p.out_stride + d + n;
                    var before = 0.0;
                    if head > 0u {
                        before = out[at];
                    }
                    out[at] = before + by_attribute[n];
                }
            }
        }
    }
}
#else

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

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    var index = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let own = 4u * (lane + lanes * (index % p.blocks));
    index /= p.blocks;
#ifdef BY_WEIGHT
    let quads = (p.attributes + 3u) / 4u;
    let first_column = 4u * (index % quads);
    index /= quads;
#endif
    let head = index % p.heads;
    index /= p.heads;
    var task = vec4<u32>();
    if index < p.tasks {
        let at = 4u * (p.first_task + index);
        task = vec4<u32>(graph[at], graph[at + 1u], graph[at + 2u], graph[at + 3u]);
    }
    let mine = index < p.tasks && own < p.channels;
    let own_feature = head * p.channels + own;

    // What stays the same from edge to edge.
    var own_att = vec4<f32>();
    var own_row = vec4<f32>();
    var own_grad = vec4<f32>();
    if mine {
        let left = p.channels - own;
        own_att = quad_of_att(own_feature, left);
#ifdef FORWARD
        own_row = quad_of_nodes(task.x * p.nodes_stride + own_feature, left);
#endif
#ifdef BY_DESTINATION
        own_row = quad_of_nodes(task.x * p.nodes_stride + own_feature, left);
        own_grad = quad_of_nodes(task.x * p.nodes_stride + p.g_at + own_feature, left);
#endif
#ifdef BY_SOURCE
        own_row = quad_of_l(task.x, own_feature, left);
#endif
    }

    var sum = vec4<f32>();
#ifdef FORWARD
    var largest = LOWEST;
    var total = 0.0;
#endif
#ifdef BY_DESTINATION
    var sum_att = vec4<f32>();
#endif
#ifdef BY_WEIGHT
    var by_attribute = array<vec4<f32>, 4>();
#endif
    let batches = (largest_in_workgroup(task.z - task.y, thread) + 3u) / 4u;
    for (var batch = 0u; batch < batches; batch++) {
        let first = task.y + 4u * batch;
        let count = min(4u, max(first, task.z) - first);
        var scores = vec4<f32>();
        var products = vec4<f32>();
        var edges = array<Edge, 4>();
        var own_x = array<vec4<f32>, 4>();
        var own_u = array<vec4<f32>, 4>();
        var own_g = array<vec4<f32>, 4>();
        for (var b = 0u; b < count; b++) {
            let k = first + b;
            let column = graph[p.columns_at + k];
#ifdef BY_SOURCE
            let edge = Edge(column, task.x, graph[p.others_at + k]);
#else
#ifdef BY_WEIGHT
            let edge = Edge(graph[p.others_at + k], column, k);
#else
            let edge = Edge(task.x, column, k);
#endif
#endif
            edges[b] = edge;
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let left = p.channels - c;
                var att = own_att;
                if c != own {
                    att = quad_of_att(feature, left);
                }
#ifdef BY_SOURCE
                var x = own_row;
                if c != own {
                    x = quad_of_l(edge.j, feature, left);
                }
                let r = quad_of_nodes(edge.i * p.nodes_stride + feature, left);
                let g = quad_of_nodes(edge.i * p.nodes_stride + p.g_at + feature, left);
#else
                let x = quad_of_l(edge.j, feature, left);
#ifdef BY_WEIGHT
                let r = quad_of_nodes(edge.i * p.nodes_stride + feature, left);
                let g = quad_of_nodes(edge.i * p.nodes_stride + p.g_at + feature, left);
#else
                var r = own_row;
                var g = own_grad;
                if c != own {
                    r = quad_of_nodes(edge.i * p.nodes_stride + feature, left);
#ifdef BY_DESTINATION
                    g = quad_of_nodes(edge.i * p.nodes_stride + p.g_at + feature, left);
#endif
                }
#endif
#endif
                let u = quad_of_sum(edge, x, r, feature, left);
                scores[b] += dot(att, slope_of(u) * u);
                products[b] += dot(g, x);
                if c == own {
                    own_x[b] = x;
                    own_u[b] = u;
                    own_g[b] = g;
                }
            }
        }
        scores = sum_over_lanes(scores, thread);
#ifdef FORWARD
        var next = largest;
        for (var b = 0u; b < count; b++) {
            next = max(next, scores[b]);
        }
        let rescale = exp(largest - next);
        sum *= rescale;
        total *= rescale;
        largest = next;
        for (var b = 0u; b < count; b++) {
            let share = exp(scores[b] - largest);
            total += share;
            sum += (share * kept(first + b, head)) * own_x[b];
        }
#else
        products = sum_over_lanes(products, thread);
        for (var b = 0u; b < count; b++) {
            let scalars = scalars_of(edges[b].i, head);
            let attention = exp(scores[b] - scalars.x);
            let factor = kept(first + b, head);
            let grad = attention * (factor * products[b] - scalars.y);
            let t = grad * own_att * slope_of(own_u[b]);
#ifdef BY_DESTINATION
            sum += t;
            sum_att += grad * slope_of(own_u[b]) * own_u[b];
#endif
#ifdef BY_SOURCE
            sum += (attention * factor) * own_g[b] + t;
#endif
#ifdef BY_WEIGHT
            for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
                by_attribute[d] += e[edges[b].position * p.e_stride + first_column + d] * t;
            }
#endif
        }
#endif
    }

    if !mine {
        return;
    }
#ifdef FORWARD
    if task.z > task.y {
        sum /= total;
    }
    if own == 0u {
        logsumexp[task.w * p.lse_stride + head] = select(0.0, largest + log(total), task.z > task.y);
    }
#endif
#ifdef BY_WEIGHT
    for (var n = 0u; n < min(4u, p.channels - own); n++) {
        for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
            out[task.w * p.out_stride + (own_feature + n) * p.e_stride + first_column + d] = by_attribute[d][n];
        }
    }
#else
    let at = task.w * p.out_stride + own_feature;
#ifdef QUADS
    out[at >> 2u] = sum;
#ifdef BY_DESTINATION
    grad_att[at >> 2u] = sum_att;
#endif
#else
    for (var n = 0u; n < min(4u, p.channels - own); n++) {
        out[at + n] = sum[n];
#ifdef BY_DESTINATION
        grad_att[at + n] = sum_att[n];
#endif
    }
#endif
#endif
}
#endif
#endif
#endif
#endif
