// Statistics over neighbours, several in one pass: out_i = [s_1, s_2, ...] over x_j of the edges from j to i.
//
//   x [num_src, features], out, g [num_dst, statistics * features] features
//   kept, coefficients [num_dst, parts * width] floats, width being `features` padded to 16 bytes; see src/backend/kernels/reduce.rs.
//   kept ends with the low bytes of the arguments, four to a word: edges that cannot be one are passed over by them.
//   tags [edges] of the transpose: the low byte of the position in edge order, and whether that may not be enough
//   partials [num_segments, FIELDS, chunks * CHUNK] floats: what is known of the segments of heavy rows
//
// reduce_forward:      a thread a chunk of a task, over its edges in sequence, UNROLL of them in flight.
// reduce_merge:        a thread a chunk of a heavy row, over its segments in order.
// reduce_coefficients: a thread a chunk of a destination: what its edges hand on, a_i, b_i and the gradients of the extremes.
// reduce_backward:     as forward, over the transpose; the gradient of an extreme is read where its argument is the edge.
// reduce_backward_merge: adds segments up.
//
// Bytes an edge: forward 4 + F. Backward 4, 4 f for each of sums and squares; 2 and f for each of minimum and maximum, and 16 where one
// of four numbers has its argument there. f features, F their bytes.
// Source: the one-pass reductions of "On Efficient Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026).
//
// SUMS, SQUARES, MINIMUM, MAXIMUM, PRODUCT, SOFTMAX: 0 or 1, what the statistics are made of. DIRECT: coefficients are the output's
// gradient itself. SINGLE: 1 if x has one column. THREADS, UNROLL. Wide rows are done in panels of at most a warp's chunks, as in spmm.cu.
#include "graph.cuh"
#include "pairs.cuh"

#define FIELDS (SUMS + SQUARES + 2 * MINIMUM + 2 * MAXIMUM + 2 * PRODUCT + 3 * SOFTMAX)
// In the order of kernels::Statistic.
#define SUM 0
#define MEAN 1
#define MIN 2
#define MAX 3
#define VAR 4
#define STD 5
#define PROD 6
#define SOFT 7
#define SMALLEST_VARIANCE 1e-5f

struct ReduceArgs {
    Graph graph;
    const feature* x;
    feature* out;
    const feature* g;
    const float* temperature;  // null for 1
    float* kept;               // null if nothing is
    void* coefficients;        // features where DIRECT, else floats
    float* slope;              // null unless wanted; [num_src, slope_stride]
    float* partials;
    const u32* largest;        // null unless the gradient is done by extreme.cu where this is finite
    const u16* tags;           // of the transpose's edges, with extremes
    u64 out_stride;
    u64 slope_stride;
    u32 x_bytes;               // of a row of x, of `kept`, of `coefficients`
    u32 kept_bytes;
    u32 coefficient_bytes;
    u32 statistics[8];
    u32 num_statistics;
    u32 features;
    u32 width;
    u32 chunks;
    u32 panel;  // chunks of a panel
    u32 tasks_per_block;
    u32 blocks_per_panel;
    u32 aligned;  // whether every statistic of `out` starts at a multiple of 16 bytes
    u32 padding;
};

struct Extreme {
    Chunk value;
    u32 edge[CHUNK];
};

// What is known of a row, for a chunk of features. Fields that are not asked for never become registers.
struct State {
    Chunk sum;
    Chunk square;
    Extreme minimum;
    Extreme maximum;
    Chunk product;  // of the entries that are not 0
    Chunk zeros;
    Chunk peak;  // the largest exponent of a softmax; the sums of weights relative to it, and of weighted entries
    Chunk weight;
    Chunk weighted;
};

#define EACH _Pragma("unroll") for (int c = 0; c < CHUNK; c++)

#define INFINITE __int_as_float(0x7f800000)

// Before the first edge, which is `first`.
__device__ __forceinline__ State empty_state(u32 first) {
    State state;
    EACH {
        state.sum.v[c] = 0.0f;
        state.square.v[c] = 0.0f;
        state.minimum.value.v[c] = INFINITE;
        state.minimum.edge[c] = first;
        state.maximum.value.v[c] = -INFINITE;
        state.maximum.edge[c] = first;
        state.product.v[c] = 1.0f;
        state.zeros.v[c] = 0.0f;
        state.peak.v[c] = -INFINITE;
        state.weight.v[c] = 0.0f;
        state.weighted.v[c] = 0.0f;
    }
    return state;
}

// Takes an entry that is smaller or larger; a NaN stays.
#define TAKE(extreme, choose, compare, number, entry, edge_number)                                              \
    do {                                                                                                        \
        const float held = extreme.value.v[number];                                                             \
        extreme.edge[number] = (entry) compare held ? extreme.edge[number] : (edge_number);                     \
        extreme.value.v[number] = choose(held, entry);                                                          \
    } while (0)

__device__ __forceinline__ void take(State& state, const Chunk& x, u32 k, float temperature) {
    EACH {
        const float entry = x.v[c];
#if SUMS
        state.sum.v[c] += entry;
#endif
#if SQUARES
        state.square.v[c] = fmaf(entry, entry, state.square.v[c]);
#endif
#if MINIMUM
        TAKE(state.minimum, smaller, >=, c, entry, k);
#endif
#if MAXIMUM
        TAKE(state.maximum, larger, <=, c, entry, k);
#endif
#if PRODUCT
        if (entry == 0.0f) {
            state.zeros.v[c] += 1.0f;
        } else {
            state.product.v[c] *= entry;
        }
#endif
#if SOFTMAX
        const float exponent = temperature * entry;
        const float peak = fmaxf(state.peak.v[c], exponent);
        const float before = expf(state.peak.v[c] - peak);
        const float weight = expf(exponent - peak);
        state.peak.v[c] = peak;
        state.weight.v[c] = fmaf(state.weight.v[c], before, weight);
        state.weighted.v[c] = fmaf(state.weighted.v[c], before, weight * entry);
#endif
    }
}

__device__ __forceinline__ float statistic_of(const State& state, u32 statistic, float degree, int c) {
#if PRODUCT
    return state.zeros.v[c] > 0.0f ? 0.0f : state.product.v[c];
#elif SOFTMAX
    return state.weight.v[c] == 0.0f ? 0.0f : state.weighted.v[c] / state.weight.v[c];
#else
    switch (statistic) {
#if SUMS
        case SUM: return state.sum.v[c];
        case MEAN: return state.sum.v[c] / degree;
#endif
#if MINIMUM
        case MIN: return state.minimum.value.v[c];
#endif
#if MAXIMUM
        case MAX: return state.maximum.value.v[c];
#endif
#if SQUARES
        default: {
            const float mean = state.sum.v[c] / degree;
            const float variance = state.square.v[c] / degree - mean * mean;
            if (statistic == VAR) {
                return variance;
            }
            return variance <= SMALLEST_VARIANCE ? 0.0f : sqrtf(variance);
        }
#else
        default: return 0.0f;
#endif
    }
#endif
}

// A part of a row of floats, which is `width` numbers wide.
__device__ __forceinline__ void store_row(const ReduceArgs& p, float* row, u32 chunk, const Chunk& value) {
    if (SINGLE) {
        row[0] = value.v[0];
        return;
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        const u32 at = chunk * CHUNK + c;
        if (c == 0 || at < p.width) {
            *(float4*)(row + at) = make_float4(value.v[c], value.v[c + 1], value.v[c + 2], value.v[c + 3]);
        }
    }
}

// The same, `from` being the chunk's own place.
__device__ __forceinline__ Chunk load_row_chunk(const ReduceArgs& p, const float* from, u32 chunk) {
    Chunk value = chunk_of(0.0f);
    if (SINGLE) {
        value.v[0] = from[0];
        return value;
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        if (c == 0 || chunk * CHUNK + c < p.width) {
            const float4 bits = *(const float4*)(from + c);
            value.v[c] = bits.x;
            value.v[c + 1] = bits.y;
            value.v[c + 2] = bits.z;
            value.v[c + 3] = bits.w;
        }
    }
    return value;
}

__device__ __forceinline__ Chunk load_row(const ReduceArgs& p, const float* row, u32 chunk) {
    return load_row_chunk(p, row + chunk * CHUNK, chunk);
}

__device__ __forceinline__ Chunk load_features(const feature* at) {
    return SINGLE ? load_part(at, 1) : load_chunk(at);
}

// A chunk of one statistic in a row of outputs, which may start anywhere.
__device__ __forceinline__ Chunk load_statistic(const ReduceArgs& p, const feature* row, u32 statistic, u32 chunk) {
    const feature* at = row + statistic * p.features + chunk * CHUNK;
    return p.aligned ? load_chunk(at) : load_part(at, p.features - chunk * CHUNK);
}

#define ARGUMENTS(extreme, chunk_name)                          \
    Chunk chunk_name;                                           \
    EACH {                                                      \
        chunk_name.v[c] = __uint_as_float(extreme.edge[c]);     \
    }

// Where the low bytes of the arguments of an extreme stand in a row of what is kept.
__device__ __forceinline__ u32 words_of_bytes(const ReduceArgs& p) {
    return (p.width + 3) / 4;
}

__device__ __forceinline__ u32 bytes_at(const ReduceArgs& p, u32 extreme) {
    return (SQUARES + MINIMUM + MAXIMUM) * p.width + extreme * words_of_bytes(p);
}

__device__ __forceinline__ void store_bytes(const ReduceArgs& p, float* row, u32 chunk, const u32* edges) {
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        if (c == 0 || chunk * CHUNK + c < p.width) {
            const u32 word = (edges[c] & 0xffu) | (edges[c + 1] & 0xffu) << 8 | (edges[c + 2] & 0xffu) << 16 | edges[c + 3] << 24;
            row[(chunk * CHUNK + c) / 4] = __uint_as_float(word);
        }
    }
}

__device__ __forceinline__ void finish(const ReduceArgs& p, u32 row, u32 chunk, State& state) {
    const u32 first = p.graph.offsets[row], last = p.graph.offsets[row + 1];
    const float degree = (float)max(last - first, 1u);
    if (first == last) {
        EACH {
            state.minimum.value.v[c] = 0.0f;
            state.minimum.edge[c] = NO_EDGE;
            state.maximum.value.v[c] = 0.0f;
            state.maximum.edge[c] = NO_EDGE;
        }
    }
    feature* out = p.out + row * p.out_stride + chunk * CHUNK;
    for (u32 s = 0; s < p.num_statistics; s++) {
        Chunk value;
        EACH {
            value.v[c] = statistic_of(state, p.statistics[s], degree, c);
        }
        if (p.aligned) {
            store_chunk(out + s * p.features, value);
        } else {
            store_part(out + s * p.features, value, p.features - chunk * CHUNK);
        }
    }
    if (!p.kept) {
        return;
    }
    float* kept = row_of(p.kept, row, p.kept_bytes);
#if MINIMUM
    store_bytes(p, kept + bytes_at(p, 0), chunk, state.minimum.edge);
#endif
#if MAXIMUM
    store_bytes(p, kept + bytes_at(p, MINIMUM), chunk, state.maximum.edge);
#endif
#if SQUARES
    Chunk mean;
    EACH {
        mean.v[c] = state.sum.v[c] / degree;
    }
    store_row(p, kept, chunk, mean);
    kept += p.width;
#endif
#if MINIMUM
    ARGUMENTS(state.minimum, minima)
    store_row(p, kept, chunk, minima);
    kept += p.width;
#endif
#if MAXIMUM
    ARGUMENTS(state.maximum, maxima)
    store_row(p, kept, chunk, maxima);
#endif
#if PRODUCT
    store_row(p, kept, chunk, state.product);
    store_row(p, kept + p.width, chunk, state.zeros);
#endif
#if SOFTMAX
    Chunk logarithm;
    EACH {
        logarithm.v[c] = state.peak.v[c] + logf(state.weight.v[c]);
    }
    store_row(p, kept, chunk, logarithm);
#endif
}

// The fields of a segment's state, one after the other.
#define FIELD(number) (p.partials + (((u64)segment * FIELDS + (number)) * p.chunks + chunk) * CHUNK)

__device__ __forceinline__ void store_state(const ReduceArgs& p, u32 segment, u32 chunk, const State& state) {
    u32 field = 0;
#if SUMS
    store_floats(FIELD(field++), state.sum);
#endif
#if SQUARES
    store_floats(FIELD(field++), state.square);
#endif
#if MINIMUM
    ARGUMENTS(state.minimum, minima)
    store_floats(FIELD(field++), state.minimum.value);
    store_floats(FIELD(field++), minima);
#endif
#if MAXIMUM
    ARGUMENTS(state.maximum, maxima)
    store_floats(FIELD(field++), state.maximum.value);
    store_floats(FIELD(field++), maxima);
#endif
#if PRODUCT
    store_floats(FIELD(field++), state.product);
    store_floats(FIELD(field++), state.zeros);
#endif
#if SOFTMAX
    store_floats(FIELD(field++), state.peak);
    store_floats(FIELD(field++), state.weight);
    store_floats(FIELD(field++), state.weighted);
#endif
}

__device__ __forceinline__ void take_state(const ReduceArgs& p, u32 segment, u32 chunk, State& state) {
    u32 field = 0;
#if SUMS
    add(state.sum, load_floats(FIELD(field++)));
#endif
#if SQUARES
    add(state.square, load_floats(FIELD(field++)));
#endif
#if MINIMUM
    const Chunk minima = load_floats(FIELD(field++));
    const Chunk first_minima = load_floats(FIELD(field++));
    EACH {
        TAKE(state.minimum, smaller, >=, c, minima.v[c], __float_as_uint(first_minima.v[c]));
    }
#endif
#if MAXIMUM
    const Chunk maxima = load_floats(FIELD(field++));
    const Chunk first_maxima = load_floats(FIELD(field++));
    EACH {
        TAKE(state.maximum, larger, <=, c, maxima.v[c], __float_as_uint(first_maxima.v[c]));
    }
#endif
#if PRODUCT
    const Chunk product = load_floats(FIELD(field++));
    add(state.zeros, load_floats(FIELD(field++)));
    EACH {
        state.product.v[c] *= product.v[c];
    }
#endif
#if SOFTMAX
    const Chunk other_peak = load_floats(FIELD(field++));
    const Chunk weight = load_floats(FIELD(field++));
    const Chunk weighted = load_floats(FIELD(field++));
    EACH {
        const float peak = fmaxf(state.peak.v[c], other_peak.v[c]);
        const float before = expf(state.peak.v[c] - peak);
        const float share = expf(other_peak.v[c] - peak);
        state.peak.v[c] = peak;
        state.weight.v[c] = state.weight.v[c] * before + weight.v[c] * share;
        state.weighted.v[c] = state.weighted.v[c] * before + weighted.v[c] * share;
    }
#endif
}

__device__ __forceinline__ bool find_chunk(const ReduceArgs& p, Task& task, u32& chunk) {
    const u32 local = threadIdx.x / p.panel;
    const u32 panel = blockIdx.x / p.blocks_per_panel;
    chunk = panel * p.panel + threadIdx.x - local * p.panel;
    const u32 index = (blockIdx.x - panel * p.blocks_per_panel) * p.tasks_per_block + local;
    return local < p.tasks_per_block && chunk < p.chunks && find_task(p.graph, index, task);
}

// Halves of which only extremes are wanted stay as they are. An edge is then told by 16 bits, counted from the first of at most
// WINDOW.
#define PACKED (PAIRS && (MINIMUM || MAXIMUM) && !SUMS && !SQUARES)
#if PACKED
#define WINDOW 65536u

struct PackedExtreme {
    u32 values[CHUNK / 2];
    u32 edges[CHUNK / 2];
};

__device__ __forceinline__ PackedExtreme no_pairs(u32 value) {
    PackedExtreme extreme;
#pragma unroll
    for (int c = 0; c < CHUNK / 2; c++) {
        extreme.values[c] = value;
        extreme.edges[c] = 0;
    }
    return extreme;
}

// An entry is passed over where `high` is at least `low`.
#define TAKE_PAIRS(extreme, choose, high, low)                                  \
    do {                                                                        \
        const u32 keep = at_least_pair(high, low);                              \
        extreme.edges[c] = extreme.edges[c] & keep | number * 0x10001u & ~keep; \
        extreme.values[c] = choose(extreme.values[c], entry);                   \
    } while (0)

__device__ __forceinline__ void take_pairs(PackedExtreme& minimum, PackedExtreme& maximum, const uint4& row, u32 number) {
    const u32 words[CHUNK / 2] = {row.x, row.y, row.z, row.w};
#pragma unroll
    for (int c = 0; c < CHUNK / 2; c++) {
        const u32 entry = words[c];
#if MINIMUM
        TAKE_PAIRS(minimum, smaller_pair, entry, minimum.values[c]);
#endif
#if MAXIMUM
        TAKE_PAIRS(maximum, larger_pair, maximum.values[c], entry);
#endif
    }
}

// Takes COUNT edges, or the first `left` of them where that is less: the last of those is then read again.
template <int COUNT>
__device__ __forceinline__ void take_packed_rows(
    const ReduceArgs& p, PackedExtreme& minimum, PackedExtreme& maximum, const feature* x, u32 k, u32 left, u32 number
) {
    const u32* columns = p.graph.columns + k;
    uint4 rows[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        rows[u] = *(const uint4*)row_of(x, columns[min(u, left - 1)], p.x_bytes);
    }
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        if (u < left) {
            take_pairs(minimum, maximum, rows[u], number + u);
        }
    }
}

// The edges of a window, of no more than WINDOW.
__device__ __forceinline__ void take_window(const ReduceArgs& p, State& state, u32 first, u32 last, u32 chunk) {
    PackedExtreme minimum = no_pairs(INFINITE_PAIR);
    PackedExtreme maximum = no_pairs(INFINITE_PAIR | SIGNS_OF_PAIR);
    const feature* x = computed(p.x + chunk * CHUNK);
    u32 k = first;
#pragma unroll 1
    for (; k + UNROLL <= last; k += UNROLL) {
        take_packed_rows<UNROLL>(p, minimum, maximum, x, k, UNROLL, k - first);
    }
    if (k < last) {
        take_packed_rows<UNROLL - 1>(p, minimum, maximum, x, k, last - k, k - first);
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        const int shift = c % 2 * 16;
#if MINIMUM
        const float smallest = c % 2 ? high_half(minimum.values[c / 2]) : low_half(minimum.values[c / 2]);
        TAKE(state.minimum, smaller, >=, c, smallest, first + (minimum.edges[c / 2] >> shift & 0xffffu));
#endif
#if MAXIMUM
        const float largest = c % 2 ? high_half(maximum.values[c / 2]) : low_half(maximum.values[c / 2]);
        TAKE(state.maximum, larger, <=, c, largest, first + (maximum.edges[c / 2] >> shift & 0xffffu));
#endif
    }
}
#endif

// Blocks that share a multiprocessor: as many as leave room for the edges in flight.
#if FIELDS <= 2 && DTYPE == 0
#define FORWARD_BLOCKS 6
#elif DTYPE == 0 || (PACKED && MINIMUM + MAXIMUM == 1)
#define FORWARD_BLOCKS 4
#else
#define FORWARD_BLOCKS 3
#endif

#if !DIRECT
// Takes COUNT edges, or the first `left` of them where that is less: the last of those is then read again.
template <int COUNT>
__device__ __forceinline__ void take_rows(const ReduceArgs& p, State& state, const feature* x, u32 k, u32 left, float temperature) {
    const u32* columns = p.graph.columns + k;
    Chunk rows[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        rows[u] = load_features(row_of(x, columns[min(u, left - 1)], p.x_bytes));
    }
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        if (u < left) {
            take(state, rows[u], k + u, temperature);
        }
    }
}

KERNEL_OF_BLOCKS(reduce_forward, ReduceArgs, THREADS, FORWARD_BLOCKS) {
    Task task;
    u32 chunk;
    if (!find_chunk(p, task, chunk)) {
        return;
    }
    const float temperature = p.temperature ? p.temperature[0] : 1.0f;
    State state = empty_state(task.first);
#if PACKED
    for (u32 first = task.first; first < task.last; first += min(WINDOW, task.last - first)) {
        take_window(p, state, first, first + min(WINDOW, task.last - first), chunk);
    }
#else
    const feature* x = computed(p.x + chunk * CHUNK);
    u32 k = task.first;
#pragma unroll 1
    for (; k + UNROLL <= task.last; k += UNROLL) {
        take_rows<UNROLL>(p, state, x, k, UNROLL, temperature);
    }
    if (k < task.last) {
        take_rows<UNROLL - 1>(p, state, x, k, task.last - k, temperature);
    }
#endif
    if (task.partial != NO_EDGE) {
        store_state(p, task.partial, chunk, state);
    } else {
        finish(p, task.row, chunk, state);
    }
}

KERNEL(reduce_merge, ReduceArgs, THREADS) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= p.graph.num_heavy * p.chunks) {
        return;
    }
    const u32* heavy = p.graph.heavy + 4 * (index / p.chunks);
    const u32 chunk = index % p.chunks;
    State state = empty_state(p.graph.offsets[heavy[0]]);
#pragma unroll 4
    for (u32 s = heavy[1]; s < heavy[2]; s++) {
        take_state(p, s, chunk, state);
    }
    finish(p, heavy[0], chunk, state);
}

// a = g_sum + g_mean / d - b mean, b = (2 g_var + g_std / std) / d; see src/backend/kernels/reduce.rs.
KERNEL(reduce_coefficients, ReduceArgs, THREADS) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u32 row = (u32)(index / p.chunks);
    if (index / p.chunks >= p.graph.rows) {
        return;
    }
    const u32 chunk = (u32)(index - (u64)row * p.chunks);
    const float degree = (float)max(p.graph.offsets[row + 1] - p.graph.offsets[row], 1u);
    const feature* gradients = p.g + row * p.out_stride;
    const feature* outputs = p.out + row * p.out_stride;
    const float* kept = row_of(p.kept, row, p.kept_bytes);
    float* to = row_of((float*)p.coefficients, row, p.coefficient_bytes);
#if PRODUCT
    const Chunk g = load_statistic(p, gradients, 0, chunk);
    const Chunk product = load_row(p, kept, chunk);
    const Chunk zeros = load_row(p, kept + p.width, chunk);
    Chunk others, of_zero;
    EACH {
        others.v[c] = zeros.v[c] == 0.0f ? g.v[c] * product.v[c] : 0.0f;
        of_zero.v[c] = zeros.v[c] == 1.0f ? g.v[c] * product.v[c] : 0.0f;
    }
    store_row(p, to, chunk, others);
    store_row(p, to + p.width, chunk, of_zero);
#elif SOFTMAX
    store_row(p, to, chunk, load_statistic(p, gradients, 0, chunk));
    store_row(p, to + p.width, chunk, load_row(p, kept, chunk));
    store_row(p, to + 2 * p.width, chunk, load_statistic(p, outputs, 0, chunk));
#else
    Chunk a = chunk_of(0.0f), b = chunk_of(0.0f), minimum = chunk_of(0.0f), maximum = chunk_of(0.0f);
    for (u32 s = 0; s < p.num_statistics; s++) {
        const Chunk g = load_statistic(p, gradients, s, chunk);
        switch (p.statistics[s]) {
            case SUM: add(a, g); break;
            case MEAN: add_scaled(a, 1.0f / degree, g); break;
            case MIN: minimum = g; break;
            case MAX: maximum = g; break;
            case VAR: add_scaled(b, 2.0f / degree, g); break;
            default: {
                const Chunk deviation = load_statistic(p, outputs, s, chunk);
                EACH {
                    b.v[c] += deviation.v[c] == 0.0f ? 0.0f : g.v[c] / (degree * deviation.v[c]);
                }
            }
        }
    }
#if SQUARES
    const Chunk mean = load_row(p, kept, chunk);
    EACH {
        a.v[c] -= b.v[c] * mean.v[c];
    }
#endif
#if SUMS
    store_row(p, to, chunk, a);
    to += p.width;
#endif
#if SQUARES
    store_row(p, to, chunk, b);
    to += p.width;
#endif
#if MINIMUM
    store_row(p, to, chunk, minimum);
    to += p.width;
#endif
#if MAXIMUM
    store_row(p, to, chunk, maximum);
#endif
#endif
}
#endif

// What is gathered of destinations, from the thread's chunk on.
#if DIRECT
typedef feature coefficient;
#else
typedef float coefficient;
#endif

struct Gathered {
    const coefficient* coefficients;
    const float* bytes;
};

__device__ __forceinline__ Chunk load_coefficient(const ReduceArgs& p, const Gathered& from, u32 row, u32 part, u32 chunk) {
    const coefficient* at = row_of(from.coefficients, row, p.coefficient_bytes);
#if DIRECT
    return load_features(at);
#else
    return load_row_chunk(p, at + part * p.width, chunk);
#endif
}

#define COEFFICIENT(i, part) load_coefficient(p, from, i, part, chunk)

#define EXTREMES (MINIMUM + MAXIMUM)
// Edges in flight.
#if SUMS || SQUARES || PRODUCT || SOFTMAX
#define BACKWARD_UNROLL 2
#else
#define BACKWARD_UNROLL UNROLL
#endif

#if SQUARES && EXTREMES && DTYPE != 0
#define BACKWARD_BLOCKS 2
#elif EXTREMES > 1 || ((SUMS || PRODUCT || SOFTMAX) && DTYPE != 0)
#define BACKWARD_BLOCKS 3
#elif DTYPE == 0
#define BACKWARD_BLOCKS 5
#else
#define BACKWARD_BLOCKS 4
#endif

// Which numbers of a chunk have the edge of a tag as their argument, by their low bytes: the highest bit of a byte each.
struct Matches {
    u32 words[CHUNK / 4];
};

__device__ __forceinline__ bool any(const Matches& matches) {
    return CHUNK == 4 ? matches.words[0] : matches.words[0] | matches.words[CHUNK / 4 - 1];
}

__device__ __forceinline__ bool is_match(const Matches& matches, int c) {
    return matches.words[c / 4] & 0x80u << 8 * (c % 4);
}

__device__ __forceinline__ Matches matching_bytes(const ReduceArgs& p, const float* bytes, u32 chunk, u32 tag) {
    const u32 wanted = __byte_perm(tag, 0, 0);
    Matches matches;
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        const bool has = c == 0 || chunk * CHUNK + c < p.width;
        matches.words[c / 4] = has ? equal_bytes(__float_as_uint(bytes[c / 4]), wanted) : 0;
    }
    return matches;
}

// A tag is the low byte of the position, and whether it takes more to tell the edge from others of its destination.
#define TAG_BYTE 0xffu
#define TAG_AMBIGUOUS 0x100u

// Keeps the matches whose whole argument is `position`.
__device__ __forceinline__ void check_arguments(Matches& matches, const Chunk& arguments, u32 position) {
    EACH {
        if (__float_as_uint(arguments.v[c]) != position) {
            matches.words[c / 4] &= ~(0x80u << 8 * (c % 4));
        }
    }
}

struct Gradient {
    Chunk x;      // of the row itself
    Chunk grad;
    Chunk slope;
};

// Takes COUNT edges from k on; all that they read is asked for before any of it is used.
template <int COUNT>
__device__ __forceinline__ void take_edges(const ReduceArgs& p, const Gathered& from, Gradient& to, u32 k, u32 chunk, float temperature) {
    const u32* columns = p.graph.columns + k;
    u32 rows[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        rows[u] = columns[u];
    }
#if EXTREMES
    const u16* tags = p.tags + k;
    Matches found[COUNT][EXTREMES];
    u32 all_tags = 0;
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        const u32 tag = tags[u];
        const float* bytes = row_of(from.bytes, rows[u], p.kept_bytes);
#pragma unroll
        for (int e = 0; e < EXTREMES; e++) {
            found[u][e] = matching_bytes(p, bytes + e * words_of_bytes(p), chunk, tag);
        }
        all_tags |= tag;
    }
    if (all_tags & TAG_AMBIGUOUS) {
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
#pragma unroll
            for (int e = 0; e < EXTREMES; e++) {
                if (any(found[u][e])) {
                    const float* kept = row_of(p.kept, rows[u], p.kept_bytes) + (SQUARES + e) * p.width;
                    check_arguments(found[u][e], load_row(p, kept, chunk), p.graph.positions[k + u]);
                }
            }
        }
    }
#endif
#if SUMS || PRODUCT || SOFTMAX
    Chunk first[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        first[u] = COEFFICIENT(rows[u], 0);
    }
#endif
#if SQUARES || PRODUCT || SOFTMAX
    Chunk second[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        second[u] = COEFFICIENT(rows[u], 1);
    }
#endif
#if SOFTMAX
    Chunk third[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        third[u] = COEFFICIENT(rows[u], 2);
    }
#endif
#if EXTREMES
#pragma unroll
    for (int e = 0; e < EXTREMES; e++) {
        Chunk extreme[COUNT];
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            extreme[u] = chunk_of(0.0f);
            if (any(found[u][e])) {
                extreme[u] = COEFFICIENT(rows[u], SUMS + SQUARES + e);
            }
        }
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            EACH {
                if (is_match(found[u][e], c)) {
                    to.grad.v[c] += extreme[u].v[c];
                }
            }
        }
    }
#endif
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
#if SUMS
        add(to.grad, first[u]);
#endif
        EACH {
#if SQUARES
            to.grad.v[c] = fmaf(second[u].v[c], to.x.v[c], to.grad.v[c]);
#endif
#if PRODUCT
            to.grad.v[c] += to.x.v[c] == 0.0f ? second[u].v[c] : first[u].v[c] / to.x.v[c];
#endif
#if SOFTMAX
            const float share = first[u].v[c] * expf(temperature * to.x.v[c] - second[u].v[c]);
            const float away = to.x.v[c] - third[u].v[c];
            to.grad.v[c] += share * (1.0f + temperature * away);
            to.slope.v[c] += share * away * away;
#endif
        }
    }
}

// Whether extreme.cu has done it all.
__device__ __forceinline__ bool is_done(const ReduceArgs& p) {
    return p.largest && *p.largest < __float_as_uint(INFINITE);
}

KERNEL_OF_BLOCKS(reduce_backward, ReduceArgs, THREADS, BACKWARD_BLOCKS) {
    Task task;
    u32 chunk;
    if (is_done(p) || !find_chunk(p, task, chunk)) {
        return;
    }
    const float temperature = p.temperature ? p.temperature[0] : 1.0f;
    Gradient gradient;
    gradient.grad = chunk_of(0.0f);
    gradient.slope = chunk_of(0.0f);
#if SQUARES || PRODUCT || SOFTMAX
    gradient.x = load_features(row_of(p.x, task.row, p.x_bytes) + chunk * CHUNK);
#endif
    Gathered from;
    from.coefficients = computed((const coefficient*)p.coefficients + chunk * CHUNK);
    from.bytes = EXTREMES ? computed(p.kept + bytes_at(p, 0) + chunk * CHUNK / 4) : 0;
    u32 k = task.first;
#pragma unroll 1
    for (; k + BACKWARD_UNROLL <= task.last; k += BACKWARD_UNROLL) {
        take_edges<BACKWARD_UNROLL>(p, from, gradient, k, chunk, temperature);
    }
#pragma unroll 1
    for (; k < task.last; k++) {
        take_edges<1>(p, from, gradient, k, chunk, temperature);
    }
    if (task.partial != NO_EDGE) {
        float* partial = p.partials + ((u64)task.partial * 2 * p.chunks + chunk) * CHUNK;
        store_floats(partial, gradient.grad);
        if (p.slope) {
            store_floats(partial + (u64)p.chunks * CHUNK, gradient.slope);
        }
        return;
    }
    feature* out = p.out + task.row * p.out_stride + chunk * CHUNK;
    if (SINGLE) {
        store_part(out, gradient.grad, 1);
    } else {
        store_chunk(out, gradient.grad);
    }
    if (p.slope) {
        store_row(p, p.slope + task.row * p.slope_stride, chunk, gradient.slope);
    }
}

KERNEL(reduce_backward_merge, ReduceArgs, THREADS) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (is_done(p) || index >= p.graph.num_heavy * p.chunks) {
        return;
    }
    const u32* heavy = p.graph.heavy + 4 * (index / p.chunks);
    const u32 chunk = index % p.chunks;
    Chunk grad = chunk_of(0.0f), slope = chunk_of(0.0f);
#pragma unroll 4
    for (u32 s = heavy[1]; s < heavy[2]; s++) {
        const float* partial = p.partials + ((u64)s * 2 * p.chunks + chunk) * CHUNK;
        add(grad, load_floats(partial));
        if (p.slope) {
            add(slope, load_floats(partial + (u64)p.chunks * CHUNK));
        }
    }
    feature* out = p.out + heavy[0] * p.out_stride + chunk * CHUNK;
    if (SINGLE) {
        store_part(out, grad, 1);
    } else {
        store_chunk(out, grad);
    }
    if (p.slope) {
        store_row(p, p.slope + heavy[0] * p.slope_stride, chunk, slope);
    }
}
