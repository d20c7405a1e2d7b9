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
// passes.wgsl says what threads share a row, scores.wgsl how they go over its edges; BY_WEIGHT and EDGE_GRAD go over
// ranges of edges (ranges.wgsl).
// Scores need no sum over lanes: each of them computes those of its share of the edges.
// Bytes an edge: FORWARD and BY_DESTINATION 4 + 4 F + 4 H, BY_SOURCE 8 + 4 F + 12 H, + 4 D; F features, H heads, D
// attributes.

#include attention

#param source_stride: u32
#read source: array<f32>
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
fn sum_of(i: u32, j: u32, position: u32, head: u32) -> f32 {
    var sum = source[j * p.source_stride + head] + scalar_of_nodes(i * p.nodes_stride + head);
#ifdef EDGES
    for (var d = 0u; d < p.attributes; d++) {
        sum += e[position * p.e_stride + d] * weight_of(head, d);
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

#ifndef FORWARD
// Adds the part of four channels to <g_i, z_j>.
fn add_product(sum: f32, i: u32, j: u32, feature: u32, left: u32) -> f32 {
    let g = quad_of_nodes(i * p.nodes_stride + p.g_at + feature, left);
    return add_inner(sum, g, quad_of_l(j * p.l_stride + feature, left));
}
#endif

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
        var product = vec4<f32>();
        if present {
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                let left = p.channels - c;
                product.x = add_product(product.x, edge.i, edge.j, feature, left);
            }
        }
        product = sum_over_lanes(product, thread, lanes);
        if present {
            let scalars = scalars_of(edge.i, head);
            let u = sum_of(edge.i, edge.j, edge.position, head);
            let attention = exp2(LOG2_E * slope_of(u) * u - scalars.x);
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
    var sum = vec4<f32>();
    let batches = (largest_in_workgroup(task.z - task.y, thread) + 3u) / 4u;
    for (var batch = 0u; batch < batches; batch++) {
        let first = task.y + 4u * batch;
        let count = min(4u, max(first, task.z) - first);
        var products = vec4<f32>();
        for (var b = 0u; b < count; b++) {
            let i = graph[p.others_at + first + b];
            let j = graph[p.columns_at + first + b];
            for (var c = 4u * lane; c < p.channels; c += 4u * lanes) {
                let feature = head * p.channels + c;
                products[b] = add_product(products[b], i, j, feature, p.channels - c);
            }
        }
        products = sum_over_lanes(products, thread, lanes);
        for (var b = 0u; b < count; b++) {
            let i = graph[p.others_at + first + b];
            let scalars = scalars_of(i, head);
            let u = sum_of(i, graph[p.columns_at + first + b], first + b, head);
            let attention = exp2(LOG2_E * slope_of(u) * u - scalars.x);
            let t = slope_of(u) * attention * (kept(first + b, head) * products[b] - scalars.y);
            for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
                sum[d] += e[(first + b) * p.e_stride + first_column + d] * t;
            }
        }
    }
    if lane == 0u && index < p.tasks {
        for (var d = 0u; d < min(4u, p.attributes - first_column); d++) {
            out[task.w * p.out_stride + head * p.e_stride + first_column + d] = sum[d];
        }
    }
}
#else

// u_k of the edge at `step`.
fn sum_at(work: Work, column: u32, step: u32) -> f32 {
    let position = position_of(edge_of(work, step));
#ifdef BY_SOURCE
    return sum_of(column, work.row, position, work.head);
#else
    return sum_of(work.row, column, position, work.head);
#endif
}

// The same of four edges.
fn sums_at(work: Work, columns: vec4<u32>, step: u32) -> vec4<f32> {
#unroll u 4
    let sum_$u = sum_at(work, columns[$u], step + $uu);
#endunroll
    return vec4<f32>(sum_0, sum_1, sum_2, sum_3);
}

fn slopes_of(u: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(p.slope), vec4<f32>(1.0), u > vec4<f32>());
}

#ifdef FORWARD
fn take(work: Work, before: Softmax, columns: vec4<u32>, key: vec2<u32>, step: u32) -> Softmax {
#ifdef SUBGROUPS
    if in_shares() {
        let u = sum_at(work, own_of(work, columns), step + work.share);
        return take_share(work, before, LOG2_E * slope_of(u) * u, key, step);
    }
#endif
    let u = sums_at(work, columns, step);
    return take_four(work, before, LOG2_E * slopes_of(u) * u, key, step);
}

fn run_block(work: Work, block: u32) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, block + work.lane + ($ru << p.lanes_log2));
    var sum_$r = vec4<f32>();
#endunroll
    var softmax = no_edges();
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
#unroll r REGISTERS
#unroll u 4
        let z_$u$r = quad_of_l(columns[$u] * p.l_stride + slot_$r.feature, slot_$r.left);
#endunroll
#endunroll
        softmax = take(work, softmax, columns, key, step);
#unroll r REGISTERS
        sum_$r *= softmax.decay;
#unroll u 4
        sum_$r = fma(vec4<f32>(softmax.weights[$u]), z_$u$r, sum_$r);
#endunroll
#endunroll
    }
    let total = total_of(softmax.totals);
    if !work.mine {
        return;
    }
    let row = result_of(work);
    if work.lane == 0u && block == 0u {
        logsumexp[row * p.lse_stride + work.head] = logarithm_of(softmax.largest, total);
    }
#unroll r REGISTERS
    sum_$r = of_total(sum_$r, total);
#endunroll
#unroll r REGISTERS
    if slot_$r.there {
        let at = row * p.out_stride + slot_$r.feature;
#ifdef QUADS
        out[at >> 2u] = sum_$r;
#else
        for (var n = 0u; n < min(4u, slot_$r.left); n++) {
            out[at + n] = sum_$r[n];
        }
#endif
    }
#endunroll
}
#else

#ifdef WIDE
// The lane's parts of <g_i, z_j> of four edges, from all channels of the head.
fn products_of_head(work: Work, columns: vec4<u32>) -> vec4<f32> {
    var along = vec4<f32>();
    for (var quad = work.lane; 4u * quad < p.channels; quad += 1u << p.lanes_log2) {
        let slot = slot_of(work.head, quad);
#unroll u 4
#ifdef BY_SOURCE
        along[$u] = add_product(along[$u], columns[$u], work.row, slot.feature, slot.left);
#else
        along[$u] = add_product(along[$u], work.row, columns[$u], slot.feature, slot.left);
#endif
#endunroll
    }
    return along;
}
#endif

// The sums of t_k, of a lane's share in the first place or one for each of four edges, and a_k m_k of the last four.
struct Gathered {
    t_sums: vec4<f32>,
    by_value: vec4<f32>,
}

// Adds four edges.
fn add_terms(
    work: Work,
    t_sums: vec4<f32>,
    along: vec4<f32>,
    columns: vec4<u32>,
    numbers: Numbers,
    key: vec2<u32>,
    step: u32,
) -> Gathered {
#ifdef SUBGROUPS
    if in_shares() {
        let u = sum_at(work, own_of(work, columns), step + work.share);
        let score = LOG2_E * slope_of(u) * u;
        let terms = terms_of_share(work, score, share_of(work, along), numbers, key, work.head, step);
        let t_sum = fma(slope_of(u), terms.x, t_sums.x);
        return Gathered(vec4<f32>(t_sum, 0.0, 0.0, 0.0), from_shares(work, terms.y));
    }
#endif
    let u = sums_at(work, columns, step);
    let sums = sum_eight(work, along, vec4<f32>());
    let terms = terms_of_four(work, LOG2_E * slopes_of(u) * u, sums[0], numbers, key, work.head, step);
    return Gathered(fma(slopes_of(u), terms.by_score, t_sums), terms.by_value);
}

fn run_block(work: Work, block: u32) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, block + work.lane + ($ru << p.lanes_log2));
#ifdef BY_SOURCE
    let own_at_$r = work.row * p.l_stride + slot_$r.feature;
    let own_$r = select(vec4<f32>(), quad_of_l(own_at_$r, slot_$r.left), slot_$r.there);
    var sum_$r = vec4<f32>();
#else
    let own_at_$r = work.row * p.nodes_stride + p.g_at + slot_$r.feature;
    let own_$r = select(vec4<f32>(), quad_of_nodes(own_at_$r, slot_$r.left), slot_$r.there);
#endif
#endunroll
#ifdef BY_DESTINATION
    let numbers = numbers_of_row(work.row, work.head);
#endif
    var t_sums = vec4<f32>();
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
        var along = vec4<f32>();
#unroll r REGISTERS
#unroll u 4
#ifdef BY_SOURCE
        let other_$u$r = quad_of_nodes(columns[$u] * p.nodes_stride + p.g_at + slot_$r.feature, slot_$r.left);
#else
        let other_$u$r = quad_of_l(columns[$u] * p.l_stride + slot_$r.feature, slot_$r.left);
#endif
#endunroll
#endunroll
#ifdef BY_SOURCE
        let numbers = numbers_of_rows(work, columns);
#endif
#ifdef WIDE
        along = products_of_head(work, columns);
#else
#unroll r REGISTERS
#unroll u 4
        along[$u] = add_inner(along[$u], own_$r, other_$u$r);
#endunroll
#endunroll
#endif
        let terms = add_terms(work, t_sums, along, columns, numbers, key, step);
        t_sums = terms.t_sums;
#ifdef BY_SOURCE
#unroll r REGISTERS
#unroll u 4
        sum_$r = fma(vec4<f32>(terms.by_value[$u]), other_$u$r, sum_$r);
#endunroll
#endunroll
#endif
    }
    let t_sum = total_of(t_sums);
    if !work.mine {
        return;
    }
    let row = result_of(work);
#ifdef BY_SOURCE
    if work.lane == 0u && block == 0u {
        grad_source[row * p.source_stride + work.head] = t_sum;
    }
#unroll r REGISTERS
    if slot_$r.there {
        let at = row * p.out_stride + slot_$r.feature;
#ifdef QUADS
        out[at >> 2u] = sum_$r;
#else
        for (var n = 0u; n < min(4u, slot_$r.left); n++) {
            out[at + n] = sum_$r[n];
        }
#endif
    }
#endunroll
#else
    if work.lane == 0u {
        out[row * p.out_stride + work.head] = t_sum;
    }
#endif
}
#endif
#endif
#endif
