// Statistics over neighbours. Several in one pass: sum, mean, minimum, maximum, variance, deviation. By themselves:
// product, and sum weighted by a softmax.
//
//   task_list [tasks, 4]                  first edge, one past the last, row, 0: whole rows, or segments of heavy ones
//   columns [edges]                       from `edge_base` on
//   positions [edges]                     where an edge of the transpose stands in edge order
//   temperature [1]                       t of the softmax
//   x [columns, x_stride chunks]
//   out, g [rows, statistics]             side by side, each from its `_at` on; NO_EDGE for those not asked for
//   kept [rows, kept_stride], parts of kept_part each:
//     SQUARES mean | MINIMUM its edge | MAXIMUM its edge | PRODUCT product of what is not 0, number of zeros
//     | SOFTMAX logsumexp
//     and after them, a byte a number, the low bytes of the edges of MINIMUM and of MAXIMUM, unless SCALAR
//   coefficients [rows, stride], parts of `part` each:
//     SUMS a | SQUARES b | MINIMUM its gradient | MAXIMUM its gradient | PRODUCT c, d | SOFTMAX g, logsumexp, out
//
// FORWARD: `lanes` threads a row, each takes every lanes-th chunk of 4 features and runs over the edges, 4 loads in
// flight.
// BACKWARD, rows = sources, laid out alike: out_j = sum over edges k of a_i + b_i x_j + (gradients of i whose edge is
// k).
//   PRODUCT: sum of c_i / x_j, or of d_i where x_j = 0.
//   SOFTMAX, w = exp(t x_j - logsumexp_i): sum of g_i w (1 + t (x_j - out_i)); slope_j = sum of g_i w (x_j - out_i)^2.
// COEFFICIENTS, a number a thread, makes what a destination sends to all of its sources.
// Heavy rows are SEGMENTED tasks, into partial results that MERGE (forward) and spmm.wgsl's MERGE (backward) combine in
// order.
// A chunk is a single number where F is no multiple of 4 and several statistics stand side by side.
//
// Bytes an edge: 4 (column) + 4 F (row of x). Backward 4 + 4 F for each of a and b, 4 (position) + F an extreme (4 F
// without BYTES), and 16 where one of four matches; 4 + 8 F a product, 4 + 12 F a softmax.
// Bytes a row: 4 + 4 F a statistic and a part kept; COEFFICIENTS 4 F a statistic and a part.
// Source: the family of reductions in "On Efficient Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026);
// the softmax after "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).

#param tasks: u32
#ifdef COEFFICIENTS
#param features: u32
#param g_stride: u32
#param stride: u32
#param part: u32
#else
#param chunks: u32
#endif
#ifndef MERGE
#ifndef COEFFICIENTS
#param edge_base: u32
#param x_stride: u32
#param lanes_log2: u32
#read task_list: array<vec4<u32>>
#read columns: array<u32>
#endif
#endif

#ifndef BACKWARD
#param sum_at: u32
#param mean_at: u32
#param var_at: u32
#param std_at: u32
#param minimum_at: u32
#param maximum_at: u32
#param kept_stride: u32
#ifndef COEFFICIENTS
#param out_stride: u32
#param out_first: u32
#param kept_part: u32
#param bytes_at: u32
#endif
#endif

#ifdef FORWARD
#read x: array<Chunk>
#ifdef SOFTMAX
#read temperature: array<f32>
#endif
#ifdef SEGMENTED
#param partial_stride: u32
#write partials: array<Words>
#else
#write out: array<Chunk>
#ifdef KEEP
#write kept: array<u32>
#endif
#endif
#endif

#ifdef MERGE
#param partial_stride: u32
#read offsets: array<u32>
#read heavy: array<vec4<u32>>
#read partials: array<Words>
#write out: array<Chunk>
#ifdef KEEP
#write kept: array<u32>
#endif
#endif

#ifdef COEFFICIENTS
#ifdef SUMS
#read offsets: array<u32>
#endif
#read g: array<f32>
#ifdef SQUARES
#read out: array<f32>
#read kept: array<u32>
#endif
#ifdef PRODUCT
#read kept: array<u32>
#endif
#ifdef SOFTMAX
#read out: array<f32>
#read kept: array<u32>
#endif
#write coefficients: array<f32>
#endif

#ifdef BACKWARD
#param stride: u32
#param part: u32
#param out_stride: u32
#param out_first: u32
#read coefficients: array<Chunk>
#ifdef SOFTMAX
#read temperature: array<f32>
#endif
#ifdef OWN
#param x_first: u32
#read x: array<Chunk>
#endif
#ifdef ARGUMENTS
#param arguments_stride: u32
#param arguments_first: u32
#param arguments_part: u32
#read positions: array<u32>
#read arguments: array<Words>
#ifdef BYTES
#param bytes_at: u32
#read bytes: array<u32>
#endif
#endif
#write out: array<Chunk>
#ifdef SLOPE
#write slope: array<Chunk>
#endif
#endif

#ifndef BACKWARD
#ifndef COEFFICIENTS
// What is known of the edges so far, for one chunk of features.
struct State {
#ifdef SUMS
    sum: Chunk,
#endif
#ifdef SQUARES
    square: Chunk,
#endif
#ifdef MINIMUM
    minimum: Chunk,
#ifdef KEEP
    minimum_edge: Words,
#endif
#endif
#ifdef MAXIMUM
    maximum: Chunk,
#ifdef KEEP
    maximum_edge: Words,
#endif
#endif
#ifdef PRODUCT
    product: Chunk, // of what is not 0
    zeros: Chunk,
#endif
#ifdef SOFTMAX
    peak: Chunk, // the largest exponent; the sums are relative to it
    weight: Chunk,
    weighted: Chunk,
#endif
}

// Adds later edges to earlier ones, which win where they are equal. A NaN wins over what is none.
fn combine(a: State, b: State) -> State {
    var s = a;
#ifdef SUMS
    s.sum += b.sum;
#endif
#ifdef SQUARES
    s.square += b.square;
#endif
#ifdef MINIMUM
    let below = !(b.minimum >= a.minimum) & (a.minimum == a.minimum);
    s.minimum = select(a.minimum, b.minimum, below);
#ifdef KEEP
    s.minimum_edge = select(a.minimum_edge, b.minimum_edge, below);
#endif
#endif
#ifdef MAXIMUM
    let above = !(b.maximum <= a.maximum) & (a.maximum == a.maximum);
    s.maximum = select(a.maximum, b.maximum, above);
#ifdef KEEP
    s.maximum_edge = select(a.maximum_edge, b.maximum_edge, above);
#endif
#endif
#ifdef PRODUCT
    s.product *= b.product;
    s.zeros += b.zeros;
#endif
#ifdef SOFTMAX
    s.peak = max(a.peak, b.peak);
    let scale_a = exp(a.peak - s.peak);
    let scale_b = exp(b.peak - s.peak);
    s.weight = a.weight * scale_a + b.weight * scale_b;
    s.weighted = a.weighted * scale_a + b.weighted * scale_b;
#endif
    return s;
}

#ifndef SEGMENTED
#ifdef KEEP
fn keep(at: u32, value: Words) {
#ifdef SCALAR
    kept[at] = value;
#else
    kept[4u * at] = value.x;
    kept[4u * at + 1u] = value.y;
    kept[4u * at + 2u] = value.z;
    kept[4u * at + 3u] = value.w;
#endif
}

// Keeps the low bytes of the arguments of a chunk. Of an empty row nobody reads them.
fn keep_bytes(row: u32, chunk: u32, edges: Words) {
#ifndef SCALAR
    let bytes = edges & Words(0xffu);
    let word = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
    kept[4u * row * p.kept_stride + p.bytes_at + p.out_first + chunk] = word;
#endif
}
#endif

// Writes the statistics of a row of `count` edges; `s` is zero if there are none.
fn store(row: u32, chunk: u32, s: State, count: u32) {
    let at = row * p.out_stride + p.out_first + chunk;
#ifdef KEEP
    var kept_at = row * p.kept_stride + p.out_first + chunk;
#endif
#ifdef SUMS
    if p.sum_at != NO_EDGE {
        out[at + p.sum_at] = s.sum;
    }
    let divisor = f32(max(count, 1u));
    let mean = s.sum / divisor;
    if p.mean_at != NO_EDGE {
        out[at + p.mean_at] = mean;
    }
#ifdef SQUARES
    let variance = s.square / divisor - mean * mean;
    if p.var_at != NO_EDGE {
        out[at + p.var_at] = variance;
    }
    if p.std_at != NO_EDGE {
        // Not `variance > limit`, which would turn NaN into 0 and hide it.
        let small = variance <= Chunk(1e-5);
        out[at + p.std_at] = select(sqrt(select(variance, Chunk(1.0), small)), Chunk(), small);
    }
#ifdef KEEP
    keep(kept_at, bitcast<Words>(mean));
    kept_at += p.kept_part;
#endif
#endif
#endif
#ifdef MINIMUM
    out[at + p.minimum_at] = s.minimum;
#ifdef KEEP
    keep(kept_at, select(s.minimum_edge, Words(NO_EDGE), count == 0u));
    keep_bytes(row, chunk, s.minimum_edge);
    kept_at += p.kept_part;
#endif
#endif
#ifdef MAXIMUM
    out[at + p.maximum_at] = s.maximum;
#ifdef KEEP
    keep(kept_at, select(s.maximum_edge, Words(NO_EDGE), count == 0u));
#ifdef MINIMUM
    keep_bytes(row, p.kept_part + chunk, s.maximum_edge);
#else
    keep_bytes(row, chunk, s.maximum_edge);
#endif
#endif
#endif
#ifdef PRODUCT
    let product = select(s.product, Chunk(1.0), count == 0u);
    out[at] = select(product, Chunk(), s.zeros > Chunk());
#ifdef KEEP
    keep(kept_at, bitcast<Words>(product));
    keep(kept_at + p.kept_part, bitcast<Words>(s.zeros));
#endif
#endif
#ifdef SOFTMAX
    let weight = select(s.weight, Chunk(1.0), count == 0u);
    out[at] = s.weighted / weight;
#ifdef KEEP
    keep(kept_at, bitcast<Words>(s.peak + log(weight)));
#endif
#endif
}
#endif
#endif
#endif

#ifdef FORWARD
// The edge at position k of the columns bound, for one chunk of features.
fn edge(k: u32, chunk: u32) -> State {
    let value = x[columns[k] * p.x_stride + chunk];
    var s: State;
#ifdef SUMS
    s.sum = value;
#endif
#ifdef SQUARES
    s.square = value * value;
#endif
#ifdef MINIMUM
    s.minimum = value;
#ifdef KEEP
    s.minimum_edge = Words(k + p.edge_base);
#endif
#endif
#ifdef MAXIMUM
    s.maximum = value;
#ifdef KEEP
    s.maximum_edge = Words(k + p.edge_base);
#endif
#endif
#ifdef PRODUCT
    let zero = value == Chunk();
    s.product = select(value, Chunk(1.0), zero);
    s.zeros = select(Chunk(), Chunk(1.0), zero);
#endif
#ifdef SOFTMAX
    s.peak = temperature[0] * value;
    s.weight = Chunk(1.0);
    s.weighted = value;
#endif
    return s;
}

#ifdef SEGMENTED
// Writes what is known of a segment: the parts of State, one after the other.
fn store(task: u32, chunk: u32, s: State, _count: u32) {
    var at = task * p.partial_stride + chunk;
#ifdef SUMS
    partials[at] = bitcast<Words>(s.sum);
    at += p.chunks;
#endif
#ifdef SQUARES
    partials[at] = bitcast<Words>(s.square);
    at += p.chunks;
#endif
#ifdef MINIMUM
    partials[at] = bitcast<Words>(s.minimum);
    at += p.chunks;
#ifdef KEEP
    partials[at] = s.minimum_edge;
    at += p.chunks;
#endif
#endif
#ifdef MAXIMUM
    partials[at] = bitcast<Words>(s.maximum);
#ifdef KEEP
    partials[at + p.chunks] = s.maximum_edge;
#endif
#endif
#ifdef PRODUCT
    partials[at] = bitcast<Words>(s.product);
    partials[at + p.chunks] = bitcast<Words>(s.zeros);
#endif
#ifdef SOFTMAX
    partials[at] = bitcast<Words>(s.peak);
    partials[at + p.chunks] = bitcast<Words>(s.weight);
    partials[at + 2u * p.chunks] = bitcast<Words>(s.weighted);
#endif
}
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    if task >= p.tasks {
        return;
    }
    let edges = task_list[task].xy - p.edge_base;
#ifdef SEGMENTED
    let result = task;
#else
    let result = task_list[task].z;
#endif
    for (var chunk = thread & (lanes - 1u); chunk < p.chunks; chunk += lanes) {
        var s = State();
        if edges.x < edges.y {
            s = edge(edges.x, chunk);
        }
        var k = edges.x + 1u;
        for (; k + 4u <= edges.y; k += 4u) {
            let a = edge(k, chunk);
            let b = edge(k + 1u, chunk);
            let c = edge(k + 2u, chunk);
            let d = edge(k + 3u, chunk);
            s = combine(s, a);
            s = combine(s, b);
            s = combine(s, c);
            s = combine(s, d);
        }
        for (; k < edges.y; k++) {
            s = combine(s, edge(k, chunk));
        }
        store(result, chunk, s, edges.y - edges.x);
    }
}
#endif

#ifdef MERGE
// What was written of a segment.
fn of_segment(segment: u32, chunk: u32) -> State {
    var s: State;
    var at = segment * p.partial_stride + chunk;
#ifdef SUMS
    s.sum = bitcast<Chunk>(partials[at]);
    at += p.chunks;
#endif
#ifdef SQUARES
    s.square = bitcast<Chunk>(partials[at]);
    at += p.chunks;
#endif
#ifdef MINIMUM
    s.minimum = bitcast<Chunk>(partials[at]);
    at += p.chunks;
#ifdef KEEP
    s.minimum_edge = partials[at];
    at += p.chunks;
#endif
#endif
#ifdef MAXIMUM
    s.maximum = bitcast<Chunk>(partials[at]);
#ifdef KEEP
    s.maximum_edge = partials[at + p.chunks];
#endif
#endif
#ifdef PRODUCT
    s.product = bitcast<Chunk>(partials[at]);
    s.zeros = bitcast<Chunk>(partials[at + p.chunks]);
#endif
#ifdef SOFTMAX
    s.peak = bitcast<Chunk>(partials[at]);
    s.weight = bitcast<Chunk>(partials[at + p.chunks]);
    s.weighted = bitcast<Chunk>(partials[at + 2u * p.chunks]);
#endif
    return s;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if index >= p.tasks * p.chunks {
        return;
    }
    let row = heavy[index / p.chunks]; // row, first segment, one past the last
    let chunk = index % p.chunks;
    var s = of_segment(row.y, chunk);
    for (var segment = row.y + 1u; segment < row.z; segment++) {
        s = combine(s, of_segment(segment, chunk));
    }
    store(row.x, chunk, s, offsets[row.x + 1u] - offsets[row.x]);
}
#endif

#ifdef COEFFICIENTS
@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    let row = index / p.features;
    let feature = index % p.features;
    if row >= p.tasks {
        return;
    }
    let g_at = row * p.g_stride + feature;
    var at = row * p.stride + feature;
#ifdef SUMS
    // Without edges nothing is read of what is written here.
    let divisor = f32(max(offsets[row + 1u] - offsets[row], 1u));
    var a = 0.0;
    if p.sum_at != NO_EDGE {
        a += g[g_at + p.sum_at];
    }
    if p.mean_at != NO_EDGE {
        a += g[g_at + p.mean_at] / divisor;
    }
#ifdef SQUARES
    var b = 0.0;
    if p.var_at != NO_EDGE {
        b += 2.0 * g[g_at + p.var_at] / divisor;
    }
    if p.std_at != NO_EDGE {
        let deviation = out[g_at + p.std_at];
        b += select(g[g_at + p.std_at] / (divisor * deviation), 0.0, deviation == 0.0);
    }
    a -= b * bitcast<f32>(kept[row * p.kept_stride + feature]);
#endif
    coefficients[at] = a;
    at += p.part;
#ifdef SQUARES
    coefficients[at] = b;
    at += p.part;
#endif
#endif
#ifdef MINIMUM
    coefficients[at] = g[g_at + p.minimum_at];
    at += p.part;
#endif
#ifdef MAXIMUM
    coefficients[at] = g[g_at + p.maximum_at];
#endif
#ifdef PRODUCT
    let kept_at = row * p.kept_stride + feature;
    let of_others = g[g_at] * bitcast<f32>(kept[kept_at]);
    let zeros = bitcast<f32>(kept[kept_at + p.part]);
    coefficients[at] = select(0.0, of_others, zeros == 0.0);
    coefficients[at + p.part] = select(0.0, of_others, zeros == 1.0);
#endif
#ifdef SOFTMAX
    coefficients[at] = g[g_at];
    coefficients[at + p.part] = bitcast<f32>(kept[row * p.kept_stride + feature]);
    coefficients[at + 2u * p.part] = out[g_at];
#endif
}
#endif

#ifdef BACKWARD
// An edge, and of which numbers it may be the argument.
struct Edge {
    column: u32,
#ifdef ARGUMENTS
    position: u32,
#ifdef BYTES
    ambiguous: bool, // whether the column has more edges than a byte tells apart
    minimum: u32, // the highest bit of each byte that is the edge's
    maximum: u32,
#endif
#endif
}

#ifdef BYTES
fn equal_bytes(a: u32, b: u32) -> u32 {
    let differ = a ^ b;
    return ~(((differ & 0x7f7f7f7fu) + 0x7f7f7f7fu) | differ) & 0x80808080u;
}
#endif

fn find_edge(k: u32, chunk: u32) -> Edge {
    var edge: Edge;
#ifdef BYTES
    // The highest bit of a column is a flag.
    edge.column = columns[k] & 0x7fffffffu;
    edge.ambiguous = columns[k] != edge.column;
    edge.position = positions[k];
    let wanted = (edge.position & 0xffu) * 0x01010101u;
    var at = 4u * edge.column * p.arguments_stride + p.bytes_at + chunk;
#ifdef MINIMUM
    edge.minimum = equal_bytes(bytes[at], wanted);
    at += p.arguments_part;
#endif
#ifdef MAXIMUM
    edge.maximum = equal_bytes(bytes[at], wanted);
#endif
#else
    edge.column = columns[k];
#ifdef ARGUMENTS
    edge.position = positions[k];
#endif
#endif
    return edge;
}

#ifdef ARGUMENTS
#ifdef BYTES
// The gradient of an extreme where the edge is its argument, read only there.
fn of_extreme(candidates: u32, edge: Edge, argument: u32, at: u32) -> Chunk {
    if candidates == 0u {
        return Chunk();
    }
    var hit = (Words(candidates) & Words(0x80u, 0x8000u, 0x800000u, 0x80000000u)) != Words();
    if edge.ambiguous {
        hit &= arguments[argument] == Words(edge.position);
    }
    return select(Chunk(), coefficients[at], hit);
}
#else
// The gradient of an extreme where its argument is the edge, read only there.
fn of_extreme(edge: Edge, argument: u32, at: u32) -> Chunk {
    let hit = arguments[argument] == Words(edge.position);
    if !any(hit) {
        return Chunk();
    }
    return select(Chunk(), coefficients[at], hit);
}
#endif
#endif

#ifdef SLOPE
var<private> slope_so_far: Chunk;
#endif

// What an edge brings, for one chunk of features; `own` is x of the row.
fn message(edge: Edge, chunk: u32, own: Chunk) -> Chunk {
    var at = edge.column * p.stride + chunk;
    var sum = Chunk();
#ifdef SUMS
    sum += coefficients[at];
    at += p.part;
#ifdef SQUARES
    sum += coefficients[at] * own;
    at += p.part;
#endif
#endif
#ifdef ARGUMENTS
    var argument = edge.column * p.arguments_stride + p.arguments_first + chunk;
#ifdef MINIMUM
#ifdef BYTES
    sum += of_extreme(edge.minimum, edge, argument, at);
#else
    sum += of_extreme(edge, argument, at);
#endif
    at += p.part;
    argument += p.arguments_part;
#endif
#ifdef MAXIMUM
#ifdef BYTES
    sum += of_extreme(edge.maximum, edge, argument, at);
#else
    sum += of_extreme(edge, argument, at);
#endif
#endif
#endif
#ifdef PRODUCT
    let zero = own == Chunk();
    sum = select(coefficients[at] / select(own, Chunk(1.0), zero), coefficients[at + p.part], zero);
#endif
#ifdef SOFTMAX
    let t = temperature[0];
    let weighted = coefficients[at] * exp(t * own - coefficients[at + p.part]);
    let away = own - coefficients[at + 2u * p.part];
    sum = weighted * (1.0 + t * away);
#ifdef SLOPE
    slope_so_far += weighted * away * away;
#endif
#endif
    return sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    if task >= p.tasks {
        return;
    }
    let edges = task_list[task].xy - p.edge_base;
#ifdef SEGMENTED
    let result = task;
#else
    let result = task_list[task].z;
#endif
    for (var chunk = thread & (lanes - 1u); chunk < p.chunks; chunk += lanes) {
        var own = Chunk();
#ifdef OWN
        own = x[task_list[task].z * p.x_stride + p.x_first + chunk];
#endif
        var sum = Chunk();
#ifdef SLOPE
        slope_so_far = Chunk();
#endif
        var k = edges.x;
        for (; k + 4u <= edges.y; k += 4u) {
            // All that tells of matches is asked for before any of it is used.
            let first = find_edge(k, chunk);
            let second = find_edge(k + 1u, chunk);
            let third = find_edge(k + 2u, chunk);
            let fourth = find_edge(k + 3u, chunk);
            let a = message(first, chunk, own);
            let b = message(second, chunk, own);
            let c = message(third, chunk, own);
            let d = message(fourth, chunk, own);
            sum += a;
            sum += b;
            sum += c;
            sum += d;
        }
        for (; k < edges.y; k++) {
            sum += message(find_edge(k, chunk), chunk, own);
        }
        out[result * p.out_stride + p.out_first + chunk] = sum;
#ifdef SLOPE
        slope[result * p.out_stride + p.out_first + chunk] = slope_so_far;
#endif
    }
}
#endif
