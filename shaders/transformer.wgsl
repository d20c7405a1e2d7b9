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
//   stats              [num_dst, heads, 2], then the two words of the dropout's key
//
// `lanes` threads a (task, head), each takes REGISTERS chunks; four edges at a time are in flight and share one tree of
// sums. A chunk is four channels, or one (SCALAR) where heads are not aligned. Heads of a row are neighbours, so that a
// workgroup's tasks are of similar length. Rows of more edges than the plan's segment are tasks of segments, which
// MERGE puts together in order (spmm.wgsl's MERGE for gradients). Nothing is stored for an edge. Bytes an edge:
// FORWARD, QUERY and EDGE 8 H C + 4 D, SOURCE 8 H (C + D) + 8 H; all 4 to 12 for its numbers.

const LOWEST: f32 = -3.0e38;

#ifdef MERGE
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
        let shrink = exp(stats.x - top);
        total += shrink * stats.y;
        sum += shrink * partials[s * p.out_stride + at];
    }
    out[row.x * p.out_stride + at] = sum / total;
    if at % p.chunks == 0u {
        logsumexp[row.x * p.logsumexp_stride + head] = top + log(total);
    }
}
#else

#ifdef DROPOUT
#include random
#param threshold: u32
#param scale: f32
#param layer: u32
#endif
#param tasks: u32
#param heads: u32
#param chunks: u32
#param lanes_log2: u32

#ifdef FORWARD
alias Sums = vec4<f32>;
#else
alias Sums = mat2x4<f32>;
#endif
alias Chunks = array<Chunk, REGISTERS>;

#ifdef SCALAR
fn inner(a: Chunk, b: Chunk) -> f32 { return a * b; }
#else
fn inner(a: Chunk, b: Chunk) -> f32 { return dot(a, b); }
#endif

// The sum over the lanes of a task, the same for each of them: as in lanes.wgsl, for two quads at a time.
#ifdef SUBGROUPS
fn sum_over_lanes(value: Sums, _thread: u32) -> Sums {
    var sum = value;
    for (var half = (1u << p.lanes_log2) >> 1u; half > 0u; half >>= 1u) {
#ifdef FORWARD
        sum += subgroupShuffleXor(sum, half);
#else
        sum = sum + Sums(subgroupShuffleXor(sum[0], half), subgroupShuffleXor(sum[1], half));
#endif
    }
    return sum;
}
#else
var<workgroup> sums: array<Sums, WORKGROUP_SIZE>;

fn sum_over_lanes(value: Sums, thread: u32) -> Sums {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    workgroupBarrier();
    sums[thread] = value;
    for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] = sums[thread] + sums[thread + half];
        }
    }
    workgroupBarrier();
    return sums[thread - lane];
}
#endif

#ifdef PACK
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
#write stats: array<u32>

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
    var delta = Sums();
    if row < p.tasks {
        for (var chunk = lane; chunk < p.chunks; chunk += lanes) {
            let start = row * p.q_stride + head * p.chunks + chunk;
            let to = row * p.qg_stride + head * 2u * p.chunks + chunk;
            let gradient = g[start];
            qg[to] = q[start];
            qg[to + p.chunks] = gradient;
            delta[0].x += inner(gradient, out[start]);
        }
    }
    delta = sum_over_lanes(delta, thread);
    if lane == 0u && row < p.tasks {
        stats[2u * task] = bitcast<u32>(logsumexp[row * p.logsumexp_stride + head]);
        stats[2u * task + 1u] = bitcast<u32>(delta[0].x);
    }
#ifdef DROPOUT
    if task == 0u && lane == 0u {
        let key = dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
        stats[2u * p.tasks * p.heads] = key.x;
        stats[2u * p.tasks * p.heads + 1u] = key.y;
    }
#endif
}
#else

#param tasks_at: u32
#param edges_at: u32
#param factor: f32
#param node_chunks: u32
#param node_stride: u32
#param out_stride: u32
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
#ifdef SEGMENTED
#write partial_stats: array<vec2<f32>>
#else
#write logsumexp: array<f32>
#endif
#else
#param qg_stride: u32
#param stats_rows: u32
#param in_segments: u32
#read qg: array<Chunk>
#read stats: array<u32>
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

struct Edge {
    column: u32,
    position: u32,
    id: u32,
}

fn edge_at(k: u32) -> Edge {
    var edge: Edge;
    var words = 1u;
#ifdef ATTRIBUTES
    words += 1u;
#endif
#ifdef DROPOUT
    words += 1u;
#endif
    let at = p.edges_at + k * words;
    edge.column = topology[at];
#ifdef ATTRIBUTES
    edge.position = topology[at + 1u];
#endif
#ifdef DROPOUT
    edge.id = topology[at + words - 1u];
#endif
    return edge;
}

// First edge, one past the last, and row; no edges past the last task.
fn task_at(task: u32) -> vec3<u32> {
    if task >= p.tasks {
        return vec3<u32>();
    }
    let at = p.tasks_at + 3u * task;
    return vec3<u32>(topology[at], topology[at + 1u], topology[at + 2u]);
}

// A chunk of the source's key or of the edge's attributes.
fn key(source: u32, position: u32, head: u32, chunk: u32) -> Chunk {
#ifdef ATTRIBUTES
    if chunk >= p.node_chunks {
        return attr[position * p.attr_stride + chunk - p.node_chunks];
    }
#endif
    return k[source * p.node_stride + head * p.node_chunks + chunk];
}

fn value(source: u32, position: u32, head: u32, chunk: u32) -> Chunk {
#ifdef ATTRIBUTES
    if chunk >= p.node_chunks {
        return attr[position * p.attr_stride + chunk - p.node_chunks];
    }
#endif
    return v[source * p.node_stride + head * p.node_chunks + chunk];
}

#ifdef DROPOUT
// What dropout multiplies the weights of four edges by.
fn kept(dropout: vec2<u32>, ids: vec4<u32>, head: u32) -> vec4<f32> {
    let hashes = vec4<u32>(
        dropout_hash(dropout, ids.x, head),
        dropout_hash(dropout, ids.y, head),
        dropout_hash(dropout, ids.z, head),
        dropout_hash(dropout, ids.w, head),
    );
    return select(vec4<f32>(), vec4<f32>(p.scale), hashes >= vec4<u32>(p.threshold));
}
#endif

var<workgroup> lengths: array<u32, WORKGROUP_SIZE>;

// The largest number of edges of the workgroup's tasks: all of its threads meet at the same barriers.
fn longest(length: u32, thread: u32) -> u32 {
    lengths[thread] = length;
    for (var half = WORKGROUP_SIZE / 2u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if thread < half {
            lengths[thread] = max(lengths[thread], lengths[thread + half]);
        }
    }
    workgroupBarrier();
    return workgroupUniformLoad(&lengths[0]);
}

// Which of the four edges from `k` on come before `end`.
fn present(k: u32, end: u32) -> vec4<bool> {
    return vec4<u32>(k, k + 1u, k + 2u, k + 3u) < vec4<u32>(end);
}

#ifdef FORWARD
// What a lane sees of an edge: its part of the score, and its chunks of the value.
struct Visit {
    score: f32,
    id: u32,
    value: Chunks,
}

fn visit(k: u32, end: u32, head: u32, lane: u32, query: Chunks) -> Visit {
    var seen: Visit;
    if k >= end {
        return seen;
    }
    var own = query;
    let edge = edge_at(k);
    seen.id = edge.id;
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
        if chunk < p.chunks {
            seen.score += inner(own[r], key(edge.column, edge.position, head, chunk));
            seen.value[r] = value(edge.column, edge.position, head, chunk);
        }
    }
    return seen;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let head = task % p.heads;
    let mine = task / p.heads < p.tasks;
    let edges = task_at(task / p.heads);
    var query: Chunks;
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
        if mine && chunk < p.chunks {
            query[r] = q[edges.z * p.q_stride + head * p.chunks + chunk];
        }
    }
#ifdef DROPOUT
    let dropout = dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
#endif
    var top = LOWEST;
    var total = 0.0;
    var sum: Chunks;
    let most = longest(edges.y - edges.x, thread);
    for (var step = 0u; step < most; step += 4u) {
        let first = edges.x + step;
        let a = visit(first, edges.y, head, lane, query);
        let b = visit(first + 1u, edges.y, head, lane, query);
        let c = visit(first + 2u, edges.y, head, lane, query);
        let d = visit(first + 3u, edges.y, head, lane, query);
        let there = present(first, edges.y);
        let found = p.factor * sum_over_lanes(vec4<f32>(a.score, b.score, c.score, d.score), thread);
        let scores = select(vec4<f32>(LOWEST), found, there);
        let above = max(top, max(max(scores.x, scores.y), max(scores.z, scores.w)));
        var weights = select(vec4<f32>(), exp(scores - above), there);
        let shrink = exp(top - above);
        top = above;
        total = shrink * total + ((weights.x + weights.y) + (weights.z + weights.w));
#ifdef DROPOUT
        weights *= kept(dropout, vec4<u32>(a.id, b.id, c.id, d.id), head);
#endif
        var values = array<Chunks, 4>(a.value, b.value, c.value, d.value);
        for (var r = 0u; r < REGISTERS; r++) {
            let pair = weights.x * values[0][r] + weights.y * values[1][r];
            sum[r] = shrink * sum[r] + (pair + (weights.z * values[2][r] + weights.w * values[3][r]));
        }
    }
    if !mine {
        return;
    }
#ifdef SEGMENTED
    let row = task / p.heads;
    if lane == 0u {
        partial_stats[task] = vec2<f32>(top, total);
    }
#else
    let row = edges.z;
    // Without edges everything is 0.
    let some = total > 0.0;
    let divisor = select(1.0, total, some);
    if lane == 0u {
        logsumexp[row * p.logsumexp_stride + head] = select(0.0, top + log(divisor), some);
    }
#endif
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
        if chunk < p.chunks {
#ifdef SEGMENTED
            out[row * p.out_stride + head * p.chunks + chunk] = sum[r];
#else
            out[row * p.out_stride + head * p.chunks + chunk] = sum[r] / divisor;
#endif
        }
    }
}
#else

#ifdef DROPOUT
fn stored_key() -> vec2<u32> {
    let at = 2u * p.stats_rows * p.heads;
    return vec2<u32>(stats[at], stats[at + 1u]);
}
#endif

// What a task has of its row: query and gradient of a destination with the head's numbers, or key and value of a
// source.
struct Own {
    first: Chunks,
    second: Chunks,
    numbers: vec2<f32>,
}

// Log-sum-exp and delta.
fn numbers_of(destination: u32, head: u32) -> vec2<f32> {
    let at = 2u * (destination * p.heads + head);
    return vec2<f32>(bitcast<f32>(stats[at]), bitcast<f32>(stats[at + 1u]));
}

fn own_of(row: u32, head: u32, lane: u32) -> Own {
    var own: Own;
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
#ifdef SOURCE
        if chunk < p.node_chunks {
            own.first[r] = key(row, 0u, head, chunk);
            own.second[r] = value(row, 0u, head, chunk);
        }
#else
        if chunk < p.chunks {
            let start = row * p.qg_stride + head * 2u * p.chunks + chunk;
            own.first[r] = qg[start];
            own.second[r] = qg[start + p.chunks];
        }
#endif
    }
#ifndef SOURCE
    own.numbers = numbers_of(row, head);
#endif
    return own;
}

// What a lane sees of an edge: its parts of the score and of <g, V>, the numbers of the destination, and the chunks
// that were gathered: the key alone, or query and gradient.
struct Visit {
    score: f32,
    along: f32,
    numbers: vec2<f32>,
    id: u32,
    position: u32,
    first: Chunks,
    second: Chunks,
}

fn visit(at: u32, end: u32, given: Own, head: u32, lane: u32) -> Visit {
    var seen: Visit;
    if at >= end {
        return seen;
    }
    var own = given;
    let edge = edge_at(at);
    seen.id = edge.id;
    seen.position = edge.position;
#ifdef SOURCE
    seen.numbers = numbers_of(edge.column, head);
#else
    seen.numbers = own.numbers;
#endif
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
        if chunk < p.chunks {
#ifdef SOURCE
            let start = edge.column * p.qg_stride + head * 2u * p.chunks + chunk;
            seen.first[r] = qg[start];
            seen.second[r] = qg[start + p.chunks];
#ifdef ATTRIBUTES
            if chunk >= p.node_chunks {
                own.first[r] = key(0u, edge.position, head, chunk);
                own.second[r] = own.first[r];
            }
#endif
            seen.score += inner(seen.first[r], own.first[r]);
            seen.along += inner(seen.second[r], own.second[r]);
#else
            seen.first[r] = key(edge.column, edge.position, head, chunk);
            seen.score += inner(own.first[r], seen.first[r]);
            seen.along += inner(own.second[r], value(edge.column, edge.position, head, chunk));
#endif
        }
    }
    return seen;
}

// Of four edges: d in the first column, a m in the second.
fn weigh(a: Visit, b: Visit, c: Visit, d: Visit, there: vec4<bool>, head: u32, thread: u32) -> mat2x4<f32> {
    let both = sum_over_lanes(
        mat2x4<f32>(vec4<f32>(a.score, b.score, c.score, d.score), vec4<f32>(a.along, b.along, c.along, d.along)),
        thread,
    );
    let logsumexp = vec4<f32>(a.numbers.x, b.numbers.x, c.numbers.x, d.numbers.x);
    let weights = select(vec4<f32>(), exp(p.factor * both[0] - logsumexp), there);
#ifdef DROPOUT
    let passed = weights * kept(stored_key(), vec4<u32>(a.id, b.id, c.id, d.id), head);
#else
    let passed = weights;
#endif
    let delta = vec4<f32>(a.numbers.y, b.numbers.y, c.numbers.y, d.numbers.y);
    return mat2x4<f32>(p.factor * (passed * both[1] - weights * delta), passed);
}

#ifdef EDGE
fn store(edge: Visit, there: bool, lane: u32, sum: Chunks) {
    var grad = sum;
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
        if there && chunk >= p.node_chunks && chunk < p.chunks {
            grad_attr[edge.position * p.attr_stride + chunk - p.node_chunks] = grad[r];
        }
    }
}

fn add(sum: Chunks, given: Own, by_score: f32, by_value: f32) -> Chunks {
    var total = sum;
    var own = given;
    for (var r = 0u; r < REGISTERS; r++) {
        total[r] += by_score * own.first[r] + by_value * own.second[r];
    }
    return total;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let edges = task_at(task);
    let most = longest(edges.y - edges.x, thread);
    for (var step = 0u; step < most; step += 4u) {
        let first = edges.x + step;
        let there = present(first, edges.y);
        var sum_a = Chunks();
        var sum_b = Chunks();
        var sum_c = Chunks();
        var sum_d = Chunks();
        var a = Visit();
        var b = Visit();
        var c = Visit();
        var d = Visit();
        for (var head = 0u; head < p.heads; head++) {
            let own = own_of(edges.z, head, lane);
            a = visit(first, edges.y, own, head, lane);
            b = visit(first + 1u, edges.y, own, head, lane);
            c = visit(first + 2u, edges.y, own, head, lane);
            d = visit(first + 3u, edges.y, own, head, lane);
            let by = weigh(a, b, c, d, there, head, thread);
            sum_a = add(sum_a, own, by[0].x, by[1].x);
            sum_b = add(sum_b, own, by[0].y, by[1].y);
            sum_c = add(sum_c, own, by[0].z, by[1].z);
            sum_d = add(sum_d, own, by[0].w, by[1].w);
        }
        store(a, there.x, lane, sum_a);
        store(b, there.y, lane, sum_b);
        store(c, there.z, lane, sum_c);
        store(d, there.w, lane, sum_d);
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
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let head = task % p.heads;
    let edges = task_at(task / p.heads);
    let own = own_of(edges.z, head, lane);
    var sum: Chunks;
    var second_sum: Chunks;
    let most = longest(edges.y - edges.x, thread);
    for (var step = 0u; step < most; step += 4u) {
        let first = edges.x + step;
        let a = visit(first, edges.y, own, head, lane);
        let b = visit(first + 1u, edges.y, own, head, lane);
        let c = visit(first + 2u, edges.y, own, head, lane);
        let d = visit(first + 3u, edges.y, own, head, lane);
        let by = weigh(a, b, c, d, present(first, edges.y), head, thread);
        var parts = array<Chunks, 4>(a.first, b.first, c.first, d.first);
        for (var r = 0u; r < REGISTERS; r++) {
            sum[r] += (by[0].x * parts[0][r] + by[0].y * parts[1][r])
                + (by[0].z * parts[2][r] + by[0].w * parts[3][r]);
        }
#ifdef SOURCE
        parts = array<Chunks, 4>(a.second, b.second, c.second, d.second);
        for (var r = 0u; r < REGISTERS; r++) {
            second_sum[r] += (by[1].x * parts[0][r] + by[1].y * parts[1][r])
                + (by[1].z * parts[2][r] + by[1].w * parts[3][r]);
        }
#endif
    }
    if task / p.heads >= p.tasks {
        return;
    }
    let row = select(edges.z, task / p.heads, p.in_segments == 1u);
    for (var r = 0u; r < REGISTERS; r++) {
        let chunk = lane + (r << p.lanes_log2);
#ifdef QUERY
        if chunk < p.chunks {
            grad_q[row * p.out_stride + head * p.chunks + chunk] = sum[r];
        }
#endif
#ifdef SOURCE
        if chunk < p.node_chunks {
            grad_k[row * p.out_stride + head * p.node_chunks + chunk] = sum[r];
            grad_v[row * p.out_stride + head * p.node_chunks + chunk] = second_sum[r];
        }
#endif
    }
}
#endif
#endif
#endif
#endif
