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
// As leaky(u) = linear u + absolute |u| with linear, absolute = (1 +- slope) / 2, a score is made of two sums without a
// choice in them; and att_c is left out of sums over edges, and multiplied in once.
// WIDE: a head is more than its threads hold, so that scores are computed from all channels apart.
//
// passes.wgsl says what threads share a row, scores.wgsl how they go over its edges; BY_WEIGHT and EDGE_GRAD go over
// ranges of edges (ranges.wgsl).
// Bytes an edge: FORWARD and BY_DESTINATION 4 + 4 F, BY_SOURCE 8 + 8 F, + 4 D; F features, D attributes.

#include attention

#param att_words: u32
#param linear: f32
#param absolute: f32
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

// What four edges' scores are made of so far, and their <g_i, l_j>.
struct Products {
    linear: vec4<f32>,
    absolute: vec4<f32>,
    along: vec4<f32>,
}

fn scores_of(products: Products) -> vec4<f32> {
    return fma(vec4<f32>(p.linear), products.linear, p.absolute * products.absolute);
}

// Adds the part of four channels to the two sums of a score and to <g_i, l_j>.
fn add_products(sums: vec3<f32>, i: u32, j: u32, position: u32, feature: u32, left: u32) -> vec3<f32> {
    let u = quad_of_sum(i, j, position, feature, left);
    let att = quad_of_att(feature, left);
    let linear = add_inner(sums.x, att, u);
    let absolute = add_inner(sums.y, att, abs(u));
#ifdef FORWARD
    return vec3<f32>(linear, absolute, 0.0);
#else
    let g = quad_of_nodes(i * p.nodes_stride + p.g_at + feature, left);
    return vec3<f32>(linear, absolute, add_inner(sums.z, g, quad_of_l(j * p.l_stride + feature, left)));
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
                let sums = add_products(parts.xyz, edge.i, edge.j, edge.position, feature, p.channels - c);
                parts = vec4<f32>(sums, 0.0);
            }
        }
        parts.x = fma(p.linear, parts.x, p.absolute * parts.y);
        parts = sum_over_lanes(parts, thread, lanes);
        var grad = 0.0;
        if present {
            let scalars = scalars_of(edge.i, head);
            grad = exp2(LOG2_E * parts.x - scalars.x) * (kept(k, head) * parts.z - scalars.y);
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
        var products = Products();
        var edges = array<Edge, 4>();
        for (var b = 0u; b < count; b++) {
            let edge = Edge(graph[p.others_at + first + b], graph[p.columns_at + first + b], first + b);
            edges[b] = edge;
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let before = vec3<f32>(products.linear[b], products.absolute[b], products.along[b]);
                let sums = add_products(before, edge.i, edge.j, edge.position, feature, p.channels - c);
                products.linear[b] = sums.x;
                products.absolute[b] = sums.y;
                products.along[b] = sums.z;
            }
        }
        let scores = sum_over_lanes(scores_of(products), thread, lanes);
        let along = sum_over_lanes(products.along, thread, lanes);
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

#ifdef WIDE
// The lane's parts of the scores and of <g_i, l_j> of four edges, from all channels of the head.
fn products_of_head(work: Work, columns: vec4<u32>, step: u32) -> Products {
    var products = Products();
    for (var quad = work.lane; 4u * quad < p.channels; quad += 1u << p.lanes_log2) {
        let slot = slot_of(work.head, quad);
#unroll u 4
        let position_$u = position_of(edge_of(work, step + $uu));
        let before_$u = vec3<f32>(products.linear[$u], products.absolute[$u], products.along[$u]);
#ifdef BY_SOURCE
        let sums_$u = add_products(before_$u, columns[$u], work.row, position_$u, slot.feature, slot.left);
#else
        let sums_$u = add_products(before_$u, work.row, columns[$u], position_$u, slot.feature, slot.left);
#endif
        products.linear[$u] = sums_$u.x;
        products.absolute[$u] = sums_$u.y;
        products.along[$u] = sums_$u.z;
#endunroll
    }
    return products;
}
#endif

fn run_block(work: Work, block: u32) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, block + work.lane + ($ru << p.lanes_log2));
    let att_$r = select(vec4<f32>(), quad_of_att(slot_$r.feature, slot_$r.left), slot_$r.there);
    var sum_$r = vec4<f32>();
#ifndef FORWARD
    var slopes_$r = vec4<f32>();
#endif
#ifdef BY_SOURCE
    let own_$r = quad_of_l(work.row * p.l_stride + slot_$r.feature, slot_$r.left);
    let own_value_$r = select(vec4<f32>(), own_$r, slot_$r.there);
#else
    let own_$r = quad_of_nodes(work.row * p.nodes_stride + slot_$r.feature, slot_$r.left);
#endif
#ifdef BY_DESTINATION
    let g_at_$r = work.row * p.nodes_stride + p.g_at + slot_$r.feature;
    let g_$r = select(vec4<f32>(), quad_of_nodes(g_at_$r, slot_$r.left), slot_$r.there);
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
        var products = Products();
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
#ifndef WIDE
        products.linear[$u] = add_inner(products.linear[$u], att_$r, u_$u$r);
        products.absolute[$u] = add_inner(products.absolute[$u], att_$r, abs(u_$u$r));
#ifdef BY_DESTINATION
        products.along[$u] = add_inner(products.along[$u], g_$r, other_$u$r);
#endif
#ifdef BY_SOURCE
        products.along[$u] = add_inner(products.along[$u], g_$u$r, own_value_$r);
#endif
#endif
#endunroll
#endunroll
#ifdef WIDE
        products = products_of_head(work, columns, step);
#endif
        let scores = scores_of(products);
#ifdef FORWARD
        softmax = take_parts(work, softmax, scores, LOG2_E, key, step);
#unroll r REGISTERS
        sum_$r *= softmax.decay;
#unroll u 4
        sum_$r = fma(vec4<f32>(softmax.weights[$u]), other_$u$r, sum_$r);
#endunroll
#endunroll
#else
        let terms = terms_of_parts(work, scores, LOG2_E, products.along, numbers, key, work.head, step);
        let low = p.slope * terms.by_score;
#unroll r REGISTERS
#unroll u 4
        let t_$u$r = select(vec4<f32>(low[$u]), vec4<f32>(terms.by_score[$u]), u_$u$r > vec4<f32>());
        slopes_$r += t_$u$r;
#ifdef BY_SOURCE
        sum_$r = fma(vec4<f32>(terms.by_value[$u]), g_$u$r, sum_$r);
#else
        sum_$r = fma(t_$u$r, u_$u$r, sum_$r);
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
    let result_$r = of_total(sum_$r, total);
#endunroll
#endif
#unroll r REGISTERS
#ifdef BY_SOURCE
    let result_$r = fma(att_$r, slopes_$r, sum_$r);
#endif
#ifdef BY_DESTINATION
    let result_$r = att_$r * slopes_$r;
#endif
    if slot_$r.there {
        let at = row * p.out_stride + slot_$r.feature;
#ifdef QUADS
        out[at >> 2u] = result_$r;
#ifdef BY_DESTINATION
        grad_att[at >> 2u] = sum_$r;
#endif
#else
        for (var n = 0u; n < min(4u, slot_$r.left); n++) {
            out[at + n] = result_$r[n];
#ifdef BY_DESTINATION
            grad_att[at + n] = sum_$r[n];
#endif
        }
#endif
    }
#endunroll
}
#endif
#endif
