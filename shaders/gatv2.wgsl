// Attention of GATv2 (Brody, Alon, Yahav, "How Attentive are Graph Attention Networks?", ICLR 2022): for the edge k
// from j to i and a head,
//
//   u_k = l_j + r_i + W e_k,  s_k = sum over channels c of att_c leaky(u_kc),  a_k = softmax of s over the edges into i,
//   h_i = sum of a_k m_k l_j  with m_k 0 or 1 / (1 - p), a hash of the user's edge id and the head,
//   ds_k = a_k (m_k <g_i, l_j> - delta_i)  with delta_i = <g_i, h_i>,  t_k = ds_k att leaky'(u_k).
//
// FORWARD:        out_i = h_i, and logsumexp_i
// BY_DESTINATION: out_i = sum of t_k over the edges into i, grad_att_i = sum of ds_k leaky(u_k)
// BY_SOURCE:      out_j = sum of a_k m_k g_i + t_k over the edges out of j
// BY_WEIGHT:      out_range = sum of t_k e_k^T over a range of edges, laid out as W
// EDGE_GRAD:      out_k = W^T t_k, every edge by itself
//
//   graph [words], see attention.wgsl;  l, out, grad_att [nodes, stride], heads one after the other
//   nodes [num_dst, nodes_stride]: r, and for gradients g, logsumexp and delta
//   weights [words]: the key of dropout, att, W;  e [edges, e_stride];  logsumexp [num_dst, lse_stride]
//
// `lanes` threads share a head of a task, each has 4 channels; wider heads are done in blocks, each of which computes
// the scores again. Scores of 4 edges at a time are summed over the lanes.
// Bytes an edge: FORWARD and BY_DESTINATION 4 + 4 F, BY_SOURCE 8 + 8 F, + 4 D; F features, D attributes.

#include attention

#param att_words: u32
#read weights: array<u32>
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
        parts = sum_over_lanes(parts, thread, lanes);
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
            by_attribute = sum_over_lanes(by_attribute, thread, lanes);
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
    var softmax = Softmax(LOWEST, 0.0, 1.0);
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
        scores = sum_over_lanes(scores, thread, lanes);
#ifdef FORWARD
        softmax = with_scores(softmax, scores, count);
        sum *= softmax.rescale;
        for (var b = 0u; b < count; b++) {
            sum += (exp(scores[b] - softmax.largest) * kept(first + b, head)) * own_x[b];
        }
#else
        products = sum_over_lanes(products, thread, lanes);
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
        sum /= softmax.total;
    }
    if own == 0u {
        logsumexp[task.w * p.lse_stride + head] = logarithm_of(softmax);
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
