// Statistics over neighbours, several in one pass: out_i = [s_1, s_2, ...] over x_j of the edges from j to i.
//
//   x [num_src, x_stride], out, g [num_dst, statistics * features] features
//   kept, coefficients [num_dst, parts * width] floats, width being `features` padded to 16 bytes; see src/backend/kernels/reduce.rs
//   partials [num_segments, FIELDS, chunks * CHUNK] floats: what is known of the segments of heavy rows
//
// reduce_forward:      a thread a chunk of a task, over its edges in sequence, UNROLL of them in flight.
// reduce_merge:        a thread a chunk of a heavy row, over its segments in order.
// reduce_coefficients: a thread a chunk of a destination: what its edges hand on, a_i, b_i and the gradients of the extremes.
// reduce_backward:     as forward, over the transpose; the gradient of an extreme is read where its argument is the edge.
// reduce_backward_merge: adds segments up.
//
// Bytes an edge: forward 4 + F. Backward 8 + F for each of sums, squares; minimum and maximum 4 f for the arguments, and the gradient
// where they match. f features, F their bytes.
// Source: the one-pass reductions of "On Efficient Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026).
//
// SUMS, SQUARES, MINIMUM, MAXIMUM, PRODUCT, SOFTMAX: 0 or 1, what the statistics are made of. DIRECT: coefficients are the output's
// gradient itself. THREADS, UNROLL.
#include "graph.cuh"

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
    u64 x_stride;
    u64 out_stride;
    u64 kept_stride;
    u64 coefficient_stride;
    u64 slope_stride;
    u32 statistics[8];
    u32 num_statistics;
    u32 features;
    u32 width;
    u32 chunks;
    u32 tasks_per_block;
    u32 aligned;  // whether every statistic of `out` starts at a multiple of 16 bytes
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

__device__ __forceinline__ State empty_state() {
    State state;
    EACH {
        state.sum.v[c] = 0.0f;
        state.square.v[c] = 0.0f;
        state.minimum.value.v[c] = 0.0f;
        state.minimum.edge[c] = NO_EDGE;
        state.maximum.value.v[c] = 0.0f;
        state.maximum.edge[c] = NO_EDGE;
        state.product.v[c] = 1.0f;
        state.zeros.v[c] = 0.0f;
        state.peak.v[c] = -__int_as_float(0x7f800000);
        state.weight.v[c] = 0.0f;
        state.weighted.v[c] = 0.0f;
    }
    return state;
}

// Takes an entry that is better: the first edge, and a NaN, are better than what is none.
#define TAKE(extreme, compare, number, entry, edge_number)                                                    \
    do {                                                                                                      \
        const float held = extreme.value.v[number];                                                           \
        if (extreme.edge[number] == NO_EDGE || (entry) compare held || ((entry) != (entry) && held == held)) { \
            extreme.value.v[number] = (entry);                                                                \
            extreme.edge[number] = (edge_number);                                                             \
        }                                                                                                     \
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
        TAKE(state.minimum, <, c, entry, k);
#endif
#if MAXIMUM
        TAKE(state.maximum, >, c, entry, k);
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
    if (p.features == 1) {
        row[0] = value.v[0];
        return;
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        const u32 at = chunk * CHUNK + c;
        if (at < p.width) {
            *(float4*)(row + at) = make_float4(value.v[c], value.v[c + 1], value.v[c + 2], value.v[c + 3]);
        }
    }
}

__device__ __forceinline__ Chunk load_row(const ReduceArgs& p, const float* row, u32 chunk) {
    Chunk value = chunk_of(0.0f);
    if (p.features == 1) {
        value.v[0] = row[0];
        return value;
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        const u32 at = chunk * CHUNK + c;
        if (at < p.width) {
            const float4 bits = *(const float4*)(row + at);
            value.v[c] = bits.x;
            value.v[c + 1] = bits.y;
            value.v[c + 2] = bits.z;
            value.v[c + 3] = bits.w;
        }
    }
    return value;
}

__device__ __forceinline__ Chunk load_features(const ReduceArgs& p, const feature* row, u32 chunk) {
    return p.features == 1 ? load_part(row, 1) : load_chunk(row + chunk * CHUNK);
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

__device__ __forceinline__ void finish(const ReduceArgs& p, u32 row, u32 chunk, const State& state) {
    const float degree = (float)max(p.graph.offsets[row + 1] - p.graph.offsets[row], 1u);
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
    float* kept = p.kept + row * p.kept_stride;
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
        TAKE(state.minimum, <, c, minima.v[c], __float_as_uint(first_minima.v[c]));
    }
#endif
#if MAXIMUM
    const Chunk maxima = load_floats(FIELD(field++));
    const Chunk first_maxima = load_floats(FIELD(field++));
    EACH {
        TAKE(state.maximum, >, c, maxima.v[c], __float_as_uint(first_maxima.v[c]));
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

__device__ __forceinline__ bool find_chunks(const ReduceArgs& p, Task& task, u32& chunk, u32& step) {
    const u32 local = p.chunks < THREADS ? threadIdx.x / p.chunks : 0;
    step = p.chunks < THREADS ? p.chunks : THREADS;
    chunk = threadIdx.x - local * step;
    return local < p.tasks_per_block && find_task(p.graph, blockIdx.x * p.tasks_per_block + local, task);
}

#if !DIRECT
KERNEL(reduce_forward, ReduceArgs, THREADS) {
    Task task;
    u32 chunk, step;
    if (!find_chunks(p, task, chunk, step)) {
        return;
    }
    const float temperature = p.temperature ? p.temperature[0] : 1.0f;
    for (; chunk < p.chunks; chunk += step) {
        State state = empty_state();
        u32 k = task.first;
        for (; k + UNROLL <= task.last; k += UNROLL) {
            Chunk rows[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                rows[u] = load_features(p, p.x + p.graph.columns[k + u] * p.x_stride, chunk);
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                take(state, rows[u], k + u, temperature);
            }
        }
        for (; k < task.last; k++) {
            take(state, load_features(p, p.x + p.graph.columns[k] * p.x_stride, chunk), k, temperature);
        }
        if (task.partial != NO_EDGE) {
            store_state(p, task.partial, chunk, state);
        } else {
            finish(p, task.row, chunk, state);
        }
    }
}

KERNEL(reduce_merge, ReduceArgs, THREADS) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= p.graph.num_heavy * p.chunks) {
        return;
    }
    const u32* heavy = p.graph.heavy + 4 * (index / p.chunks);
    const u32 chunk = index % p.chunks;
    State state = empty_state();
    for (u32 s = heavy[1]; s < heavy[2]; s++) {
        take_state(p, s, chunk, state);
    }
    finish(p, heavy[0], chunk, state);
}

// a = g_sum + g_mean / d - b mean, b = (2 g_var + g_std / std) / d; see src/backend/kernels/reduce.rs.
KERNEL(reduce_coefficients, ReduceArgs, THREADS) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 row = index / p.chunks;
    if (row >= p.graph.rows) {
        return;
    }
    const u32 chunk = (u32)(index - row * p.chunks);
    const float degree = (float)max(p.graph.offsets[row + 1] - p.graph.offsets[row], 1u);
    const feature* gradients = p.g + row * p.out_stride;
    const feature* outputs = p.out + row * p.out_stride;
    const float* kept = p.kept + row * p.kept_stride;
    float* to = (float*)p.coefficients + row * p.coefficient_stride;
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

// One coefficient row's part.
#if DIRECT
#define COEFFICIENT(i, part) load_features(p, (const feature*)p.coefficients + (i) * p.coefficient_stride, chunk)
#else
#define COEFFICIENT(i, part) load_row(p, (const float*)p.coefficients + (i) * p.coefficient_stride + (part) * p.width, chunk)
#endif

// Adds the gradient of an extreme where the edge is its argument; rows of gradients are read only then.
__device__ __forceinline__ void take_extreme(
    const ReduceArgs& p, Chunk& grad, const Chunk& arguments, u32 i, u32 part, u32 chunk, u32 position) {
    bool any = false;
    EACH {
        any |= __float_as_uint(arguments.v[c]) == position;
    }
    if (any) {
        const Chunk g = COEFFICIENT(i, part);
        EACH {
            grad.v[c] += __float_as_uint(arguments.v[c]) == position ? g.v[c] : 0.0f;
        }
    }
}

#define EXTREMES (MINIMUM + MAXIMUM)

KERNEL(reduce_backward, ReduceArgs, THREADS) {
    Task task;
    u32 chunk, step;
    if (!find_chunks(p, task, chunk, step)) {
        return;
    }
#if SOFTMAX
    const float temperature = p.temperature ? p.temperature[0] : 1.0f;
#endif
    for (; chunk < p.chunks; chunk += step) {
        Chunk grad = chunk_of(0.0f), slope = chunk_of(0.0f);
#if SQUARES || PRODUCT || SOFTMAX
        const Chunk x = load_features(p, p.x + task.row * p.x_stride, chunk);
#endif
        u32 k = task.first;
#if EXTREMES
        for (; k + UNROLL <= task.last; k += UNROLL) {
            u32 rows[UNROLL];
            Chunk arguments[UNROLL][EXTREMES];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                rows[u] = p.graph.columns[k + u];
#pragma unroll
                for (int e = 0; e < EXTREMES; e++) {
                    arguments[u][e] = load_row(p, p.kept + rows[u] * p.kept_stride + (SQUARES + e) * p.width, chunk);
                }
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const u32 position = p.graph.positions[k + u];
#if SUMS
                add(grad, COEFFICIENT(rows[u], 0));
#endif
#if SQUARES
                const Chunk b = COEFFICIENT(rows[u], 1);
                EACH {
                    grad.v[c] = fmaf(b.v[c], x.v[c], grad.v[c]);
                }
#endif
#pragma unroll
                for (int e = 0; e < EXTREMES; e++) {
                    take_extreme(p, grad, arguments[u][e], rows[u], SUMS + SQUARES + e, chunk, position);
                }
            }
        }
#endif
        for (; k < task.last; k++) {
            const u32 i = p.graph.columns[k];
#if SUMS
            add(grad, COEFFICIENT(i, 0));
#endif
#if SQUARES
            const Chunk b = COEFFICIENT(i, 1);
            EACH {
                grad.v[c] = fmaf(b.v[c], x.v[c], grad.v[c]);
            }
#endif
#if EXTREMES
#pragma unroll
            for (int e = 0; e < EXTREMES; e++) {
                const Chunk arguments = load_row(p, p.kept + i * p.kept_stride + (SQUARES + e) * p.width, chunk);
                take_extreme(p, grad, arguments, i, SUMS + SQUARES + e, chunk, p.graph.positions[k]);
            }
#endif
#if PRODUCT
            const Chunk others = COEFFICIENT(i, 0);
            const Chunk of_zero = COEFFICIENT(i, 1);
            EACH {
                grad.v[c] += x.v[c] == 0.0f ? of_zero.v[c] : others.v[c] / x.v[c];
            }
#endif
#if SOFTMAX
            const Chunk g = COEFFICIENT(i, 0);
            const Chunk logarithm = COEFFICIENT(i, 1);
            const Chunk mean = COEFFICIENT(i, 2);
            EACH {
                const float share = g.v[c] * expf(temperature * x.v[c] - logarithm.v[c]);
                const float away = x.v[c] - mean.v[c];
                grad.v[c] += share * (1.0f + temperature * away);
                slope.v[c] += share * away * away;
            }
#endif
        }
        if (task.partial != NO_EDGE) {
            float* partial = p.partials + ((u64)task.partial * 2 * p.chunks + chunk) * CHUNK;
            store_floats(partial, grad);
            if (p.slope) {
                store_floats(partial + (u64)p.chunks * CHUNK, slope);
            }
            continue;
        }
        feature* out = p.out + task.row * p.out_stride + chunk * CHUNK;
        if (p.features == 1) {
            store_part(out, grad, 1);
        } else {
            store_chunk(out, grad);
        }
        if (p.slope) {
            store_row(p, p.slope + task.row * p.slope_stride, chunk, slope);
        }
    }
}

KERNEL(reduce_backward_merge, ReduceArgs, THREADS) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= p.graph.num_heavy * p.chunks) {
        return;
    }
    const u32* heavy = p.graph.heavy + 4 * (index / p.chunks);
    const u32 chunk = index % p.chunks;
    Chunk grad = chunk_of(0.0f), slope = chunk_of(0.0f);
    for (u32 s = heavy[1]; s < heavy[2]; s++) {
        const float* partial = p.partials + ((u64)s * 2 * p.chunks + chunk) * CHUNK;
        add(grad, load_floats(partial));
        if (p.slope) {
            add(slope, load_floats(partial + (u64)p.chunks * CHUNK));
        }
    }
    feature* out = p.out + heavy[0] * p.out_stride + chunk * CHUNK;
    if (p.features == 1) {
        store_part(out, grad, 1);
    } else {
        store_chunk(out, grad);
    }
    if (p.slope) {
        store_row(p, p.slope + heavy[0] * p.slope_stride, chunk, slope);
    }
}
