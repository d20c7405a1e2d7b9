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
// passes.wgsl says what threads share a row, scores.wgsl how they go over its edges; BY_WEIGHT and EDGE_GRAD go over
// ranges of edges (ranges.wgsl).
// Bytes an edge: FORWARD and BY_DESTINATION 4 + 4 F, BY_SOURCE 8 + 8 F, + 4 D; F features, D attributes.

#include attention

#param att_words: u32
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

// Four numbers of `weights` from `at` on, `stride` apart, of which there are `left`; the others are 0.
fn quad_of_weights(at: u32, stride: u32, left: u32) -> vec4<f32> {
    let place = at + stride * places(0u, left);
    let quad = vec4<u32>(weights[place.x], weights[place.y], weights[place.z], weights[place.w]);
    return first_of(bitcast<vec4<f32>>(quad), left);
}

fn quad_of_att(feature: u32, left: u32) -> vec4<f32> {
    return quad_of_weights(2u + feature, 1u, left);
}

#ifdef EDGES
// One attribute's weights for four channels.
fn quad_of_weight(feature: u32, column: u32, left: u32) -> vec4<f32> {
    return quad_of_weights(2u + p.att_words + feature * p.e_stride + column, p.e_stride, left);
}

fn projected(position: u32, feature: u32, left: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var d = 0u; d < p.attributes; d++) {
        sum += e[position * p.e_stride + d] * quad_of_weight(feature, d, left);
    }
    return sum;
}

// Of the edges at four positions: each weight is read once.
fn projected_four(positions: vec4<u32>, feature: u32, left: u32) -> mat4x4<f32> {
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    for (var d = 0u; d < p.attributes; d++) {
        let weight = quad_of_weight(feature, d, left);
#unroll u 4
        sum_$u += e[positions[$u] * p.e_stride + d] * weight;
#endunroll
    }
    return mat4x4<f32>(sum_0, sum_1, sum_2, sum_3);
}
#endif

fn slope_of(u: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(p.slope), vec4<f32>(1.0), u > vec4<f32>());
}

// u_k for four channels.
fn quad_of_sum(i: u32, j: u32, position: u32, feature: u32, left: u32) -> vec4<f32> {
    let sum = quad_of_l(j * p.l_stride + feature, left) + quad_of_nodes(i * p.nodes_stride + feature, left);
#ifdef EDGES
    return sum + projected(position, feature, left);
#else
    return sum;
#endif
}

// Adds the part of four channels to the score and to <g_i, l_j>.
fn add_products(sums: vec2<f32>, i: u32, j: u32, position: u32, feature: u32, left: u32) -> vec2<f32> {
    let u = quad_of_sum(i, j, position, feature, left);
    let att = quad_of_att(feature, left);
    let score = add_inner(sums.x, select(p.slope * att, att, u > vec4<f32>()), u);
#ifdef FORWARD
    return vec2<f32>(score, 0.0);
#else
    let g = quad_of_nodes(i * p.nodes_stride + p.g_at + feature, left);
    return vec2<f32>(score, add_inner(sums.y, g, quad_of_l(j * p.l_stride + feature, left)));
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
        edge = Edge(graph[p.others_at + k], graph[p.columns_at + k], k);
    }
    for (var head = 0u; head < p.heads; head++) {
        var parts = vec4<f32>();
        if present {
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let both = add_products(parts.xy, edge.i, edge.j, edge.position, feature, p.channels - c);
                parts.x = both.x;
                parts.y = both.y;
            }
        }
        parts = sum_over_lanes(parts, thread, lanes);
        var grad = 0.0;
        if present {
            let scalars = scalars_of(edge.i, head);
            grad = exp2(LOG2_E * parts.x - scalars.x) * (kept(k, head) * parts.y - scalars.y);
        }
        for (var d = 0u; d < p.attributes; d += 4u) {
            var by_attribute = vec4<f32>();
            if present {
                for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                    let feature = head * p.channels + c;
                    let left = p.channels - c;
                    let u = quad_of_sum(edge.i, edge.j, edge.position, feature, left);
                    let t = grad * quad_of_att(feature, left) * slope_of(u);
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
#ifdef BY_WEIGHT
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
    let quads = (p.attributes + 3u) / 4u;
    let first_column = 4u * (index % quads);
    index /= quads;
    let head = index % p.heads;
    index /= p.heads;
    var task = vec4<u32>();
    if index < p.tasks {
        let at = 4u * (p.first_task + index);
        task = vec4<u32>(graph[at], graph[at + 1u], graph[at + 2u], graph[at + 3u]);
    }
    let mine = index < p.tasks && own < p.channels;
    let own_feature = head * p.channels + own;
    var own_att = vec4<f32>();
    if mine {
        own_att = quad_of_att(own_feature, p.channels - own);
    }
    var by_attribute = array<vec4<f32>, 4>();
    let batches = (largest_in_workgroup(task.z - task.y, thread) + 3u) / 4u;
    for (var batch = 0u; batch < batches; batch++) {
        let first = task.y + 4u * batch;
        let count = min(4u, max(first, task.z) - first);
        var scores = vec4<f32>();
        var along = vec4<f32>();
        var edges = array<Edge, 4>();
        for (var b = 0u; b < count; b++) {
            let edge = Edge(graph[p.others_at + first + b], graph[p.columns_at + first + b], first + b);
            edges[b] = edge;
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let before = vec2<f32>(scores[b], along[b]);
                let both = add_products(before, edge.i, edge.j, edge.position, feature, p.channels - c);
                scores[b] = both.x;
                along[b] = both.y;
            }
        }
        scores = sum_over_lanes(scores, thread, lanes);
        along = sum_over_lanes(along, thread, lanes);
        if mine {
            for (var b = 0u; b < count; b++) {
                let edge = edges[b];
                let scalars = scalars_of(edge.i, head);
                let grad = exp2(LOG2_E * scores[b] - scalars.x) * (kept(first + b, head) * along[b] - scalars.y);
                let u = quad_of_sum(edge.i, edge.j, edge.position, own_feature, p.channels - own);
                let t = grad * own_att * slope_of(u);
                for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
                    by_attribute[d] += e[edge.position * p.e_stride + first_column + d] * t;
                }
            }
        }
    }
    if !mine {
        return;
    }
    for (var n = 0u; n < min(4u, p.channels - own); n++) {
        for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
            out[task.w * p.out_stride + (own_feature + n) * p.e_stride + first_column + d] = by_attribute[d][n];
        }
    }
}
#else

// The lane's parts of the scores and of <g_i, l_j> of four edges, from all channels of the head.
fn products_of_head(work: Work, columns: vec4<u32>, step: u32) -> mat2x4<f32> {
    var scores = vec4<f32>();
    var along = vec4<f32>();
    for (var quad = work.lane; 4u * quad < p.channels; quad += 1u << p.lanes_log2) {
        let slot = slot_of(work.head, quad);
#unroll u 4
        let position_$u = position_of(edge_of(work, step + $uu));
        let before_$u = vec2<f32>(scores[$u], along[$u]);
#ifdef BY_SOURCE
        let both_$u = add_products(before_$u, columns[$u], work.row, position_$u, slot.feature, slot.left);
#else
        let both_$u = add_products(before_$u, work.row, columns[$u], position_$u, slot.feature, slot.left);
#endif
        scores[$u] = both_$u.x;
        along[$u] = both_$u.y;
#endunroll
    }
    return mat2x4<f32>(scores, along);
}

fn run_block(work: Work, block: u32) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, block + work.lane + ($ru << p.lanes_log2));
    let att_$r = select(vec4<f32>(), quad_of_att(slot_$r.feature, slot_$r.left), slot_$r.there);
    let low_att_$r = p.slope * att_$r;
    var sum_$r = vec4<f32>();
#ifdef BY_SOURCE
    let own_$r = quad_of_l(work.row * p.l_stride + slot_$r.feature, slot_$r.left);
    let own_value_$r = select(vec4<f32>(), own_$r, slot_$r.there);
#else
    let own_$r = quad_of_nodes(work.row * p.nodes_stride + slot_$r.feature, slot_$r.left);
#endif
#ifdef BY_DESTINATION
    let g_at_$r = work.row * p.nodes_stride + p.g_at + slot_$r.feature;
    let g_$r = select(vec4<f32>(), quad_of_nodes(g_at_$r, slot_$r.left), slot_$r.there);
    var att_sum_$r = vec4<f32>();
#endif
#endunroll
#ifdef BY_DESTINATION
    let numbers = numbers_of_row(work.row, work.head);
#endif
#ifdef FORWARD
    var softmax = no_edges();
#endif
    let key = key_of_dropout();
#unroll u 4
    var next_$u = column_of(edge_of(work, $uu));
#endunroll
    let most = most_edges(work);
    for (var step = 0u; step < most; step += 4u) {
        let columns = vec4<u32>(next_0, next_1, next_2, next_3);
#unroll u 4
        next_$u = column_of(edge_of(work, step + 4u + $uu));
#endunroll
        // All rows of the four edges before the first is used.
#unroll r REGISTERS
#unroll u 4
#ifdef BY_SOURCE
        let other_at_$u$r = columns[$u] * p.nodes_stride + slot_$r.feature;
        let other_$u$r = quad_of_nodes(other_at_$u$r, slot_$r.left);
        let g_$u$r = quad_of_nodes(other_at_$u$r + p.g_at, slot_$r.left);
#else
        let other_$u$r = quad_of_l(columns[$u] * p.l_stride + slot_$r.feature, slot_$r.left);
#endif
#endunroll
#endunroll
#ifdef BY_SOURCE
        let numbers = numbers_of_rows(work, columns);
#endif
#ifdef EDGES
#unroll u 4
        let position_$u = position_of(edge_of(work, step + $uu));
#endunroll
        let positions = vec4<u32>(position_0, position_1, position_2, position_3);
#endif
        var scores = vec4<f32>();
        var along = vec4<f32>();
#unroll r REGISTERS
#ifdef EDGES
        let added_$r = projected_four(positions, slot_$r.feature, slot_$r.left);
#endif
#unroll u 4
#ifdef EDGES
        let u_$u$r = other_$u$r + own_$r + added_$r[$u];
#else
        let u_$u$r = other_$u$r + own_$r;
#endif
        // att leaky(u) is u times this, and t_k the gradient of the score times it.
        let att_$u$r = select(low_att_$r, att_$r, u_$u$r > vec4<f32>());
        scores[$u] = add_inner(scores[$u], att_$u$r, u_$u$r);
#ifdef BY_DESTINATION
        along[$u] = add_inner(along[$u], g_$r, other_$u$r);
#endif
#ifdef BY_SOURCE
        along[$u] = add_inner(along[$u], g_$u$r, own_value_$r);
#endif
#endunroll
#endunroll
        if p.blocks > 1u {
            let products = products_of_head(work, columns, step);
            scores = products[0];
            along = products[1];
        }
#ifdef FORWARD
        softmax = take_parts(work, softmax, scores, LOG2_E, key, step);
#unroll r REGISTERS
        sum_$r *= softmax.decay;
#unroll u 4
        sum_$r = fma(vec4<f32>(softmax.weights[$u]), other_$u$r, sum_$r);
#endunroll
#endunroll
#else
        let terms = terms_of_parts(work, scores, LOG2_E, along, numbers, key, work.head, step);
#unroll r REGISTERS
#unroll u 4
        sum_$r = fma(vec4<f32>(terms.by_score[$u]), att_$u$r, sum_$r);
#ifdef BY_SOURCE
        sum_$r = fma(vec4<f32>(terms.by_value[$u]), g_$u$r, sum_$r);
#else
        att_sum_$r = fma(vec4<f32>(terms.by_score[$u]), slope_of(u_$u$r) * u_$u$r, att_sum_$r);
#endif
#endunroll
#endunroll
#endif
    }
#ifdef FORWARD
    let total = total_of(softmax.totals);
#endif
    if !work.mine {
        return;
    }
    let row = result_of(work);
#ifdef FORWARD
    if work.lane == 0u && block == 0u {
        logsumexp[row * p.lse_stride + work.head] = logarithm_of(softmax.largest, total);
    }
#unroll r REGISTERS
    sum_$r = of_total(sum_$r, total);
#endunroll
#endif
#unroll r REGISTERS
    if slot_$r.there {
        let at = row * p.out_stride + slot_$r.feature;
#ifdef QUADS
        out[at >> 2u] = sum_$r;
#ifdef BY_DESTINATION
        grad_att[at >> 2u] = att_sum_$r;
#endif
#else
        for (var n = 0u; n < min(4u, slot_$r.left); n++) {
            out[at + n] = sum_$r[n];
#ifdef BY_DESTINATION
            grad_att[at + n] = att_sum_$r[n];
#endif
        }
#endif
    }
#endunroll
}
#endif
#endif
