// Attention of GAT (Velickovic et al., "Graph Attention Networks", ICLR 2018): for the edge k from j to i and a head,
//
//   u_k = source_j + destination_i + <w, e_k>,  s_k = leaky(u_k),  a_k = softmax of s over the edges into i,
//   h_i = sum of a_k m_k z_j  with m_k 0 or 1 / (1 - p), a hash of the user's edge id and the head,
//   t_k = leaky'(u_k) a_k (m_k <g_i, z_j> - delta_i)  with delta_i = <g_i, h_i>.
//
// FORWARD:        out_i = h_i, and logsumexp_i
// BY_DESTINATION: out_i = sum of t_k over the edges into i
// BY_SOURCE:      out_j = sum of a_k m_k g_i, grad_source_j = sum of t_k, over the edges out of j
// BY_WEIGHT:      out_range = sum of t_k e_k over a range of edges, laid out as w
// EDGE_GRAD:      out_k = sum over heads of t_k w, every edge by itself
//
//   graph [words], see attention.wgsl;  z, out of FORWARD and BY_SOURCE [nodes, stride], heads one after the other
//   source [num_src, source_stride];  nodes [num_dst, nodes_stride]: destination, and for gradients g, logsumexp, delta
//   weights [words]: the key of dropout, w [heads, e_stride];  e [edges, e_stride];  logsumexp [num_dst, lse_stride]
//
// `lanes` threads share a head of a task, each has 4 channels; wider heads are done in blocks. Scores need no sum over
// lanes: every lane computes them.
// Bytes an edge: FORWARD and BY_DESTINATION 4 + 4 F + 4 H, BY_SOURCE 8 + 4 F + 12 H, + 4 D; F features, H heads, D
// attributes.

#include attention

#param source_stride: u32
#read source: array<f32>
#ifdef EDGES
#read weights: array<u32>
#else
#ifdef DROPOUT
#read weights: array<u32>
#endif
#endif
#ifdef FORWARD
#write out: array<Unit>
#else
#ifdef BY_SOURCE
#write out: array<Unit>
#write grad_source: array<f32>
#else
#write out: array<f32>
#endif
#endif

// u_k of an edge.
fn sum_of(edge: Edge, head: u32) -> f32 {
    var sum = source[edge.j * p.source_stride + head] + scalar_of_nodes(edge.i * p.nodes_stride + head);
#ifdef EDGES
    for (var d = 0u; d < p.attributes; d++) {
        sum += e[edge.position * p.e_stride + d] * weight_of(head, d);
    }
#endif
    return sum;
}

#ifdef EDGES
fn weight_of(head: u32, column: u32) -> f32 {
    return bitcast<f32>(weights[2u + head * p.e_stride + column]);
}
#endif

fn slope_of(u: f32) -> f32 {
    return select(p.slope, 1.0, u > 0.0);
}

// The edge at position k of the columns bound.
fn edge_at(k: u32, row: u32) -> Edge {
    let column = graph[p.columns_at + k];
#ifdef BY_SOURCE
    return Edge(column, row, graph[p.others_at + k]);
#else
#ifdef FORWARD
    return Edge(row, column, k);
#else
#ifdef BY_DESTINATION
    return Edge(row, column, k);
#else
    return Edge(graph[p.others_at + k], column, k);
#endif
#endif
#endif
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
        edge = edge_at(k, 0u);
    }
    for (var head = 0u; head < p.heads; head++) {
        var product = vec4<f32>();
        if present {
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let left = p.channels - c;
                let g = quad_of_nodes(edge.i * p.nodes_stride + p.g_at + feature, left);
                product.x += dot(g, quad_of_l(edge.j, feature, left));
            }
        }
        product = sum_over_lanes(product, thread, lanes);
        if present {
            let scalars = scalars_of(edge.i, head);
            let u = sum_of(edge, head);
            let attention = exp(slope_of(u) * u - scalars.x);
            let t = slope_of(u) * attention * (kept(k, head) * product.x - scalars.y);
            for (var d = lane; d < p.attributes; d += lanes) {
                var before = 0.0;
                if head > 0u {
                    before = out[k * p.out_stride + d];
                }
                out[k * p.out_stride + d] = before + t * weight_of(head, d);
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
    let own_feature = head * p.channels + own;

#ifdef FORWARD
    if index >= p.tasks || own >= p.channels {
        return;
    }
    var sum = vec4<f32>();
    var softmax = Softmax(LOWEST, 0.0, 1.0);
    for (var first = task.y; first < task.z; first += 4u) {
        let count = min(4u, task.z - first);
        var scores = vec4<f32>();
        var own_x = array<vec4<f32>, 4>();
        for (var b = 0u; b < count; b++) {
            let edge = edge_at(first + b, task.x);
            let u = sum_of(edge, head);
            scores[b] = slope_of(u) * u;
            own_x[b] = quad_of_l(edge.j, own_feature, p.channels - own);
        }
        softmax = with_scores(softmax, scores, count);
        sum *= softmax.rescale;
        for (var b = 0u; b < count; b++) {
            sum += (exp(scores[b] - softmax.largest) * kept(first + b, head)) * own_x[b];
        }
    }
    if task.z > task.y {
        sum /= softmax.total;
    }
    if own == 0u {
        logsumexp[task.w * p.lse_stride + head] = logarithm_of(softmax);
    }
#else
    var sum = vec4<f32>();
    var sum_t = 0.0;
    let batches = (largest_in_workgroup(task.z - task.y, thread) + 3u) / 4u;
    for (var batch = 0u; batch < batches; batch++) {
        let first = task.y + 4u * batch;
        let count = min(4u, max(first, task.z) - first);
        var products = vec4<f32>();
        var edges = array<Edge, 4>();
        var own_g = array<vec4<f32>, 4>();
        for (var b = 0u; b < count; b++) {
            let edge = edge_at(first + b, task.x);
            edges[b] = edge;
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let left = p.channels - c;
                let g = quad_of_nodes(edge.i * p.nodes_stride + p.g_at + feature, left);
                products[b] += dot(g, quad_of_l(edge.j, feature, left));
                if c == own {
                    own_g[b] = g;
                }
            }
        }
        products = sum_over_lanes(products, thread, lanes);
        for (var b = 0u; b < count; b++) {
            let scalars = scalars_of(edges[b].i, head);
            let u = sum_of(edges[b], head);
            let attention = exp(slope_of(u) * u - scalars.x);
            let factor = kept(first + b, head);
            let t = slope_of(u) * attention * (factor * products[b] - scalars.y);
#ifdef BY_WEIGHT
            for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
                sum[d] += e[edges[b].position * p.e_stride + first_column + d] * t;
            }
#else
            sum_t += t;
            sum += (attention * factor) * own_g[b];
#endif
        }
    }
    if index >= p.tasks || own >= p.channels {
        return;
    }
#endif

#ifdef BY_WEIGHT
    if lane == 0u {
        for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
            out[task.w * p.out_stride + head * p.e_stride + first_column + d] = sum[d];
        }
    }
#else
#ifdef BY_DESTINATION
    if own == 0u {
        out[task.w * p.out_stride + head] = sum_t;
    }
#else
#ifdef BY_SOURCE
    if own == 0u {
        grad_source[task.w * p.source_stride + head] = sum_t;
    }
#endif
    let at = task.w * p.out_stride + own_feature;
#ifdef QUADS
    out[at >> 2u] = sum;
#else
    for (var n = 0u; n < min(4u, p.channels - own); n++) {
        out[at + n] = sum[n];
    }
#endif
#endif
#endif
}
#endif
