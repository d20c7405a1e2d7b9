// Attention of graph transformers (Shi et al., "Masked Label Prediction", IJCAI 2021), with edge attributes and
// dropout.
//
// With K_kh = (k_jh, e_k) and V_kh = (v_jh, e_k) for the edge k from j to i, s_kh = factor <q_ih, K_kh>,
// a_kh = exp(s_kh - logsumexp_ih), m_kh the dropout's 0 or 1 / (1 - p):
// FORWARD:  out_ih = sum_k a_kh m_kh V_kh, by an online softmax: the sum shrinks whenever a larger score comes
// PACK:     queries and gradients of a head side by side; (logsumexp, delta) with delta_ih = <g_ih, out_ih>
// QUERY:    grad_q_ih = sum_k d_kh K_kh with d_kh = factor a_kh (m_kh <g_ih, V_kh> - delta_ih), rows = destinations
// SOURCE:   grad_k_jh = sum_k d_kh q_ih, grad_v_jh = sum_k a_kh m_kh g_ih, rows = sources; the first C channels only
// EDGE:     grad_e_k = sum_h (d_kh q_ih + a_kh m_kh g_ih), the last D channels only
//
//   topology           tasks (first edge, one past the last, row), then edges (column; with ATTRIBUTES the position in
//                      edge order; with DROPOUT the user's number)
//   q, out, g, grad_q  [num_dst, heads, C + D];  qg [num_dst, heads, 2 (C + D)]
//   k, v, grad_k, grad_v [num_src, heads, C];  attr, grad_attr [edges, D]
//   stats              [num_dst, heads, 2] with logsumexp in units of log 2, then the two words of the dropout's key
//   logsumexp          [num_dst, heads]; of segments the largest score and the sum of exponentials, in units of log 2
//
// `lanes` threads a (task, head), each takes REGISTERS chunks; scores.wgsl says how they go over the edges. A chunk is
// four channels, or one (SCALAR) where heads are not aligned. Rows of more edges than the plan's segment are tasks of
// segments, which MERGE puts together in order (spmm.wgsl's MERGE for gradients). Nothing is stored for an edge. Bytes
// an edge: FORWARD, QUERY and EDGE 8 H C + 4 D, SOURCE 8 H (C + D) + 8 H; all 4 to 12 for its numbers.

#ifdef MERGE
const LOWEST: f32 = -3.0e38;
const LN_2: f32 = 0.6931471805599453;
#param tasks: u32
#param heads: u32
#param chunks: u32
#param out_stride: u32
#param logsumexp_stride: u32
#read heavy: array<vec4<u32>>
#read partials: array<Chunk>
#read partial_stats: array<vec2<f32>>
#write out: array<Chunk>
#write logsumexp: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    let width = p.heads * p.chunks;
    if index >= p.tasks * width {
        return;
    }
    let row = heavy[index / width]; // row, first segment, one past the last
    let at = index % width;
    let head = at / p.chunks;
    var top = LOWEST;
    for (var s = row.y; s < row.z; s++) {
        top = max(top, partial_stats[s * p.heads + head].x);
    }
    var total = 0.0;
    var sum = Chunk();
    for (var s = row.y; s < row.z; s++) {
        let stats = partial_stats[s * p.heads + head]; // largest score, sum of exponentials
        let shrink = exp2(stats.x - top);
        total += shrink * stats.y;
        sum += shrink * partials[s * p.out_stride + at];
    }
    out[row.x * p.out_stride + at] = sum / total;
    if at % p.chunks == 0u {
        logsumexp[row.x * p.logsumexp_stride + head] = LN_2 * (top + log2(total));
    }
}
#else
#ifdef PACK
#ifdef DROPOUT
#include random
#param layer: u32
#endif
#param tasks: u32
#param heads: u32
#param chunks: u32
#param lanes_log2: u32
#param q_stride: u32
#param qg_stride: u32
#param logsumexp_stride: u32
#read q: array<Chunk>
#read g: array<Chunk>
#read out: array<Chunk>
#read logsumexp: array<f32>
#ifdef DROPOUT
#read state: StepData
#endif
#write qg: array<Chunk>
#write stats: array<vec2<u32>>

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
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let row = task / p.heads;
    let head = task % p.heads;
    var delta = 0.0;
    if row < p.tasks {
        for (var chunk = lane; chunk < p.chunks; chunk += lanes) {
            let start = row * p.q_stride + head * p.chunks + chunk;
            let to = row * p.qg_stride + head * 2u * p.chunks + chunk;
            let gradient = g[start];
            qg[to] = q[start];
            qg[to + p.chunks] = gradient;
            delta = add_inner(delta, gradient, out[start]);
        }
    }
    delta = sum_over_lanes(delta, thread, lanes);
    if lane == 0u && row < p.tasks {
        stats[task] = bitcast<vec2<u32>>(vec2<f32>(LOG2_E * logsumexp[row * p.logsumexp_stride + head], delta));
    }
#ifdef DROPOUT
    if task == 0u && lane == 0u {
        stats[p.tasks * p.heads] = dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
    }
#endif
}
#else

#include scores

#ifdef DROPOUT
#ifdef FORWARD
#param layer: u32
#endif
#endif
#param chunks: u32
#param tasks_at: u32
#param edges_at: u32
#param factor: f32
#param node_chunks: u32
#param node_stride: u32
#param out_stride: u32
#param in_segments: u32
#ifdef ATTRIBUTES
#param attr_stride: u32
#endif
#read topology: array<u32>
#read k: array<Chunk>
#read v: array<Chunk>
#ifdef ATTRIBUTES
#read attr: array<Chunk>
#endif
#ifdef FORWARD
#param q_stride: u32
#param logsumexp_stride: u32
#read q: array<Chunk>
#ifdef DROPOUT
#read state: StepData
#endif
#write out: array<Chunk>
#write logsumexp: array<f32>
#else
#param qg_stride: u32
#param stats_rows: u32
#read qg: array<Chunk>
#read stats: array<vec2<u32>>
#endif
#ifdef QUERY
#write grad_q: array<Chunk>
#endif
#ifdef SOURCE
#write grad_k: array<Chunk>
#write grad_v: array<Chunk>
#endif
#ifdef EDGE
#write grad_attr: array<Chunk>
#endif

#ifdef EDGE
// A task's lanes take one head after the other.
fn heads_apart() -> u32 { return 1u; }
#else
fn heads_apart() -> u32 { return p.heads; }
#endif

fn task_at(task: u32) -> vec3<u32> {
    let at = p.tasks_at + 3u * task;
    return vec3<u32>(topology[at], topology[at + 1u], topology[at + 2u]);
}

// Where the words of an edge start.
fn words_of(edge: u32) -> u32 {
#ifdef ATTRIBUTES
#ifdef DROPOUT
    return p.edges_at + 3u * edge;
#else
    return p.edges_at + 2u * edge;
#endif
#else
#ifdef DROPOUT
    return p.edges_at + 2u * edge;
#else
    return p.edges_at + edge;
#endif
#endif
}

fn column_of(edge: u32) -> u32 { return topology[words_of(edge)]; }

#ifdef ATTRIBUTES
fn position_of(edge: u32) -> u32 { return topology[words_of(edge) + 1u]; }
#endif

#ifdef DROPOUT
fn edge_id(edge: u32) -> u32 { return topology[words_of(edge + 1u) - 1u]; }
#endif

fn key_of_dropout() -> vec2<u32> {
#ifdef DROPOUT
#ifdef FORWARD
    return dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
#else
    return stats[p.stats_rows * p.heads];
#endif
#else
    return vec2<u32>();
#endif
}

// A chunk of a head. Lanes past a head's last one would rather read that one again than ask whether they may.
struct Slot {
    wide: u32, // in a row of q
    pair: u32, // of q's part of a row of qg
    node: u32, // in a row of k, or of the attributes
    there: bool,
    of_edge: bool, // a chunk of attributes
}

fn slot_of(head: u32, chunk: u32) -> Slot {
    let own = min(chunk, p.chunks - 1u);
    var slot: Slot;
    slot.there = chunk < p.chunks;
    slot.wide = head * p.chunks + own;
    slot.pair = slot.wide + head * p.chunks;
    slot.node = head * p.node_chunks + own;
#ifdef ATTRIBUTES
    slot.of_edge = own >= p.node_chunks;
    slot.node = select(slot.node, own - p.node_chunks, slot.of_edge);
#endif
    return slot;
}

#ifdef FORWARD
fn run(work: Work) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, work.lane + ($ru << p.lanes_log2));
    let query_$r = select(Chunk(), q[work.row * p.q_stride + slot_$r.wide], slot_$r.there);
    var sum_$r = Chunk();
#endunroll
    let key = key_of_dropout();
    var softmax = no_edges();
#unroll u 4
    var next_$u = column_of(edge_of(work, $uu));
#endunroll
    let most = most_edges(work);
    for (var step = 0u; step < most; step += 4u) {
#unroll u 4
        let column_$u = next_$u;
        next_$u = column_of(edge_of(work, step + 4u + $uu));
#ifdef ATTRIBUTES
        let position_$u = position_of(edge_of(work, step + $uu));
#endif
#endunroll
        // All rows of the four edges before the first is used.
#unroll r REGISTERS
#ifdef ATTRIBUTES
#unroll u 4
        var key_$u$r = Chunk();
        var value_$u$r = Chunk();
#endunroll
        if slot_$r.of_edge {
#unroll u 4
            key_$u$r = attr[position_$u * p.attr_stride + slot_$r.node];
            value_$u$r = key_$u$r;
#endunroll
        } else {
#unroll u 4
            key_$u$r = k[column_$u * p.node_stride + slot_$r.node];
#endunroll
#unroll u 4
            value_$u$r = v[column_$u * p.node_stride + slot_$r.node];
#endunroll
        }
#else
#unroll u 4
        let key_$u$r = k[column_$u * p.node_stride + slot_$r.node];
#endunroll
#unroll u 4
        let value_$u$r = v[column_$u * p.node_stride + slot_$r.node];
#endunroll
#endif
#endunroll
#unroll u 4
        var score_$u = 0.0;
#unroll r REGISTERS
        score_$u = add_inner(score_$u, query_$r, key_$u$r);
#endunroll
#endunroll
        let parts = vec4<f32>(score_0, score_1, score_2, score_3);
        softmax = take_parts(work, softmax, parts, LOG2_E * p.factor, key, step);
#unroll r REGISTERS
        sum_$r *= softmax.decay;
#unroll u 4
        sum_$r = fma(Chunk(softmax.weights[$u]), value_$u$r, sum_$r);
#endunroll
#endunroll
    }
    let total = total_of(softmax.totals);
    if !work.mine {
        return;
    }
    let in_segments = p.in_segments == 1u;
    let row = select(work.row, work.task, in_segments);
    let some = total > 0.0;
    if work.lane == 0u {
        if in_segments {
            let at = 2u * (row * p.heads + work.head);
            logsumexp[at] = softmax.largest;
            logsumexp[at + 1u] = total;
        } else {
            // Without edges everything is 0.
            let sum = LN_2 * (softmax.largest + log2(select(1.0, total, some)));
            logsumexp[row * p.logsumexp_stride + work.head] = select(0.0, sum, some);
        }
    }
#unroll r REGISTERS
    if slot_$r.there {
        out[row * p.out_stride + slot_$r.wide] = of_total(sum_$r, select(total, 0.0, in_segments));
    }
#endunroll
}
#else

// Log-sum-exp and delta.
fn numbers_of(destination: u32, head: u32) -> vec2<f32> {
    return bitcast<vec2<f32>>(stats[destination * p.heads + head]);
}
#endif

#ifdef QUERY
fn run(work: Work) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, work.lane + ($ru << p.lanes_log2));
    let query_$r = select(Chunk(), qg[work.row * p.qg_stride + slot_$r.pair], slot_$r.there);
    let g_$r = select(Chunk(), qg[work.row * p.qg_stride + slot_$r.pair + p.chunks], slot_$r.there);
    var sum_$r = Chunk();
#endunroll
    let numbers = numbers_of_row(work.row, work.head);
    let key = key_of_dropout();
#unroll u 4
    var next_$u = column_of(edge_of(work, $uu));
#endunroll
    let most = most_edges(work);
    for (var step = 0u; step < most; step += 4u) {
#unroll u 4
        let column_$u = next_$u;
        next_$u = column_of(edge_of(work, step + 4u + $uu));
#ifdef ATTRIBUTES
        let position_$u = position_of(edge_of(work, step + $uu));
#endif
#endunroll
        // All rows of the four edges before the first is used.
#unroll r REGISTERS
#ifdef ATTRIBUTES
#unroll u 4
        var key_$u$r = Chunk();
        var value_$u$r = Chunk();
#endunroll
        if slot_$r.of_edge {
#unroll u 4
            key_$u$r = attr[position_$u * p.attr_stride + slot_$r.node];
            value_$u$r = key_$u$r;
#endunroll
        } else {
#unroll u 4
            key_$u$r = k[column_$u * p.node_stride + slot_$r.node];
#endunroll
#unroll u 4
            value_$u$r = v[column_$u * p.node_stride + slot_$r.node];
#endunroll
        }
#else
#unroll u 4
        let key_$u$r = k[column_$u * p.node_stride + slot_$r.node];
#endunroll
#unroll u 4
        let value_$u$r = v[column_$u * p.node_stride + slot_$r.node];
#endunroll
#endif
#endunroll
#unroll u 4
        var score_$u = 0.0;
        var along_$u = 0.0;
#unroll r REGISTERS
        score_$u = add_inner(score_$u, query_$r, key_$u$r);
        along_$u = add_inner(along_$u, g_$r, value_$u$r);
#endunroll
#endunroll
        let scores = vec4<f32>(score_0, score_1, score_2, score_3);
        let along = vec4<f32>(along_0, along_1, along_2, along_3);
        let terms = terms_of_parts(work, scores, LOG2_E * p.factor, along, numbers, key, work.head, step);
#unroll r REGISTERS
#unroll u 4
        sum_$r = fma(Chunk(terms.by_score[$u]), key_$u$r, sum_$r);
#endunroll
#endunroll
    }
    if !work.mine {
        return;
    }
    let row = select(work.row, work.task, p.in_segments == 1u);
#unroll r REGISTERS
    if slot_$r.there {
        grad_q[row * p.out_stride + slot_$r.wide] = p.factor * sum_$r;
    }
#endunroll
}
#endif

#ifdef SOURCE
fn run(work: Work) {
#unroll r REGISTERS
    let slot_$r = slot_of(work.head, work.lane + ($ru << p.lanes_log2));
    let stored_$r = slot_$r.there && !slot_$r.of_edge;
    var own_key_$r = Chunk();
    var own_value_$r = Chunk();
    if stored_$r {
        own_key_$r = k[work.row * p.node_stride + slot_$r.node];
        own_value_$r = v[work.row * p.node_stride + slot_$r.node];
    }
    var key_sum_$r = Chunk();
    var value_sum_$r = Chunk();
#endunroll
    let key = key_of_dropout();
#unroll u 4
    var next_$u = column_of(edge_of(work, $uu));
#endunroll
    let most = most_edges(work);
    for (var step = 0u; step < most; step += 4u) {
#unroll u 4
        let column_$u = next_$u;
        next_$u = column_of(edge_of(work, step + 4u + $uu));
#ifdef ATTRIBUTES
        let position_$u = position_of(edge_of(work, step + $uu));
#endif
#endunroll
        // All rows of the four edges before the first is used.
#unroll r REGISTERS
#unroll u 4
        let query_$u$r = qg[column_$u * p.qg_stride + slot_$r.pair];
#endunroll
#unroll u 4
        let g_$u$r = qg[column_$u * p.qg_stride + slot_$r.pair + p.chunks];
#endunroll
#ifdef ATTRIBUTES
#unroll u 4
        var key_$u$r = own_key_$r;
        var value_$u$r = own_value_$r;
#endunroll
        if slot_$r.of_edge && slot_$r.there {
#unroll u 4
            key_$u$r = attr[position_$u * p.attr_stride + slot_$r.node];
            value_$u$r = key_$u$r;
#endunroll
        }
#endif
#endunroll
        let numbers = numbers_of_rows(work, vec4<u32>(column_0, column_1, column_2, column_3));
#unroll u 4
        var score_$u = 0.0;
        var along_$u = 0.0;
#unroll r REGISTERS
#ifdef ATTRIBUTES
        score_$u = add_inner(score_$u, query_$u$r, key_$u$r);
        along_$u = add_inner(along_$u, g_$u$r, value_$u$r);
#else
        score_$u = add_inner(score_$u, query_$u$r, own_key_$r);
        along_$u = add_inner(along_$u, g_$u$r, own_value_$r);
#endif
#endunroll
#endunroll
        let scores = vec4<f32>(score_0, score_1, score_2, score_3);
        let along = vec4<f32>(along_0, along_1, along_2, along_3);
        let terms = terms_of_parts(work, scores, LOG2_E * p.factor, along, numbers, key, work.head, step);
#unroll r REGISTERS
#unroll u 4
        key_sum_$r = fma(Chunk(terms.by_score[$u]), query_$u$r, key_sum_$r);
        value_sum_$r = fma(Chunk(terms.by_value[$u]), g_$u$r, value_sum_$r);
#endunroll
#endunroll
    }
    if !work.mine {
        return;
    }
    let row = select(work.row, work.task, p.in_segments == 1u);
#unroll r REGISTERS
    if stored_$r {
        grad_k[row * p.out_stride + slot_$r.node] = p.factor * key_sum_$r;
        grad_v[row * p.out_stride + slot_$r.node] = value_sum_$r;
    }
#endunroll
}
#endif

#ifdef EDGE
fn run(work: Work) {
    let key = key_of_dropout();
    let most = most_edges(work);
    for (var step = 0u; step < most; step += 4u) {
#unroll u 4
        let column_$u = column_of(edge_of(work, step + $uu));
        let position_$u = position_of(edge_of(work, step + $uu));
#unroll r REGISTERS
        var sum_$u$r = Chunk();
#endunroll
#endunroll
        for (var head = 0u; head < p.heads; head++) {
#unroll r REGISTERS
            let slot_$r = slot_of(head, work.lane + ($ru << p.lanes_log2));
            let query_$r = select(Chunk(), qg[work.row * p.qg_stride + slot_$r.pair], slot_$r.there);
            let g_$r = select(Chunk(), qg[work.row * p.qg_stride + slot_$r.pair + p.chunks], slot_$r.there);
#endunroll
            // All rows of the four edges before the first is used.
#unroll r REGISTERS
#ifdef ATTRIBUTES
#unroll u 4
            var key_$u$r = Chunk();
            var value_$u$r = Chunk();
#endunroll
            if slot_$r.of_edge {
#unroll u 4
                key_$u$r = attr[position_$u * p.attr_stride + slot_$r.node];
                value_$u$r = key_$u$r;
#endunroll
            } else {
#unroll u 4
                key_$u$r = k[column_$u * p.node_stride + slot_$r.node];
#endunroll
#unroll u 4
                value_$u$r = v[column_$u * p.node_stride + slot_$r.node];
#endunroll
            }
#else
#unroll u 4
            let key_$u$r = k[column_$u * p.node_stride + slot_$r.node];
#endunroll
#unroll u 4
            let value_$u$r = v[column_$u * p.node_stride + slot_$r.node];
#endunroll
#endif
#endunroll
#unroll u 4
            var score_$u = 0.0;
            var along_$u = 0.0;
#unroll r REGISTERS
            score_$u = add_inner(score_$u, query_$r, key_$u$r);
            along_$u = add_inner(along_$u, g_$r, value_$u$r);
#endunroll
#endunroll
            let scores = vec4<f32>(score_0, score_1, score_2, score_3);
            let along = vec4<f32>(along_0, along_1, along_2, along_3);
            let numbers = numbers_of_row(work.row, head);
            let terms = terms_of_parts(work, scores, LOG2_E * p.factor, along, numbers, key, head, step);
#unroll r REGISTERS
#unroll u 4
            sum_$u$r += (p.factor * terms.by_score[$u]) * query_$r + terms.by_value[$u] * g_$r;
#endunroll
#endunroll
        }
        let there = present(work, step);
#unroll r REGISTERS
        let chunk_$r = work.lane + ($ru << p.lanes_log2);
        if chunk_$r >= p.node_chunks && chunk_$r < p.chunks {
#unroll u 4
            if there[$u] {
                grad_attr[position_$u * p.attr_stride + chunk_$r - p.node_chunks] = sum_$u$r;
            }
#endunroll
        }
#endunroll
    }
}
#endif
#endif
#endif
