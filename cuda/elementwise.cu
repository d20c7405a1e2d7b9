// Functions entry by entry: out = f(x), y f'(x), either with dropout, (a + factor) x + b y, x y, x + row, and x with dropout, dense and of the entries of a
// sparse matrix. f is relu, leaky relu, elu, sigmoid, tanh, 1 / x or 1 / sqrt(x), both 0 where x is not positive.
//
//   x, y, out: features of one shape, [rows, stride]; padding is computed along, nobody reads it
//   row [1, cols], factor [1, 1], values [edges]: floats; offsets [rows + 1], columns [edges] of the sparse matrix
//
// A thread a chunk of 16 bytes; of a sparse matrix a warp a row. Bytes an entry, f those of a feature: 2 f, of two operands 3 f; sparse
// 12, + 4 a row.
#include "random.cuh"

struct ElementwiseArgs {
    const feature* x;
    const feature* y;
    feature* out;
    const float* row;
    const float* factor;
    const u32* offsets;  // of a sparse pattern
    const u32* columns;
    Dropout dropout;
    u64 count;  // numbers in memory
    u64 stride;
    u32 rows;
    u32 cols;
    float a;
    float b;
    u32 function;
    u32 padding;
};

#define RELU 0
#define LEAKY_RELU 1
#define ELU 2
#define SIGMOID 3
#define TANH 4
#define INVERSE 5
#define INVERSE_SQRT 6

__device__ __forceinline__ float apply(u32 function, float a, float x) {
    switch (function) {
        // Not fmaxf, which turns NaN into 0 and hides it.
        case RELU: return x <= 0.0f ? 0.0f : x;
        case LEAKY_RELU: return x > 0.0f ? x : a * x;
        case ELU: return x > 0.0f ? x : a * expm1f(x);
        case SIGMOID: return 1.0f / (1.0f + expf(-x));
        case TANH: return tanhf(x);
        case INVERSE: return x > 0.0f ? 1.0f / x : 0.0f;
        default: return x > 0.0f ? 1.0f / sqrtf(x) : 0.0f;
    }
}

// From the value of the function.
__device__ __forceinline__ float derivative(u32 function, float a, float y) {
    switch (function) {
        case RELU: return y > 0.0f ? 1.0f : 0.0f;
        case LEAKY_RELU: return y > 0.0f ? 1.0f : a;
        case ELU: return y > 0.0f ? 1.0f : y + a;
        case SIGMOID: return y * (1.0f - y);
        case TANH: return 1.0f - y * y;
        case INVERSE: return -y * y;
        default: return -0.5f * y * y * y;
    }
}

// The chunk at a number's place; past the end of what counts it is cut.
__device__ __forceinline__ Chunk load_at(const feature* from, u64 at, u64 count) {
    return at + CHUNK <= count ? load_chunk(from + at) : load_part(from + at, (u32)(count - at));
}

__device__ __forceinline__ void store_at(feature* to, u64 at, u64 count, const Chunk& chunk) {
    if (at + CHUNK <= count) {
        store_chunk(to + at, chunk);
    } else {
        store_part(to + at, chunk, (u32)(count - at));
    }
}

__device__ __forceinline__ u64 place() {
    return ((u64)blockIdx.x * THREADS + threadIdx.x) * CHUNK;
}

// Sets what dropout takes to 0 and multiplies the rest.
__device__ __forceinline__ void drop(const ElementwiseArgs& p, u64 at, Chunk& chunk) {
    const DropoutKey key = dropout_key(p.dropout);
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        const u64 row = (at + c) / p.stride;
        const u32 column = (u32)((at + c) - row * p.stride);
        // A product with 0 would keep NaN and infinity.
        const float factor = dropout_factor(p.dropout, key, mix(key.row ^ (u32)row), column);
        chunk.v[c] = factor == 0.0f ? 0.0f : chunk.v[c] * factor;
    }
}

// out = f(x), with dropout where there is one
KERNEL(unary, ElementwiseArgs, THREADS) {
    const u64 at = place();
    if (at >= p.count) {
        return;
    }
    Chunk x = load_at(p.x, at, p.count);
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        x.v[c] = apply(p.function, p.a, x.v[c]);
    }
    if (p.dropout.state) {
        drop(p, at, x);
    }
    store_at(p.out, at, p.count, x);
}

// out = y * f'(x), x being the value of the function and y a gradient; with dropout of the value, which was divided by `b`, y is
// dropped alike
KERNEL(unary_grad, ElementwiseArgs, THREADS) {
    const u64 at = place();
    if (at >= p.count) {
        return;
    }
    Chunk x = load_at(p.x, at, p.count);
    Chunk y = load_at(p.y, at, p.count);
    if (p.dropout.state) {
        drop(p, at, y);
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            x.v[c] *= p.b;
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        x.v[c] = y.v[c] * derivative(p.function, p.a, x.v[c]);
    }
    store_at(p.out, at, p.count, x);
}

// out = (a + factor) * x + b * y, without the factor and without y where they are null
KERNEL(combine, ElementwiseArgs, THREADS) {
    const u64 at = place();
    if (at >= p.count) {
        return;
    }
    const float a = p.factor ? p.a + p.factor[0] : p.a;
    Chunk x = load_at(p.x, at, p.count);
    Chunk y = chunk_of(0.0f);
    if (p.y) {
        y = load_at(p.y, at, p.count);
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        x.v[c] = p.y ? a * x.v[c] + p.b * y.v[c] : a * x.v[c];
    }
    store_at(p.out, at, p.count, x);
}

// out = x * y
KERNEL(multiply, ElementwiseArgs, THREADS) {
    const u64 at = place();
    if (at >= p.count) {
        return;
    }
    Chunk x = load_at(p.x, at, p.count);
    const Chunk y = load_at(p.y, at, p.count);
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        x.v[c] *= y.v[c];
    }
    store_at(p.out, at, p.count, x);
}

// out[r, c] = x[r, c] + row[c]
KERNEL(add_row, ElementwiseArgs, THREADS) {
    const u64 at = place();
    if (at >= p.count) {
        return;
    }
    Chunk x = load_at(p.x, at, p.count);
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        const u32 column = (u32)((at + c) % p.stride);
        x.v[c] += column < p.cols ? p.row[column] : 0.0f;
    }
    store_at(p.out, at, p.count, x);
}

// out[r, c] = x[r, c] * (0 or scale)
KERNEL(dropout, ElementwiseArgs, THREADS) {
    const u64 at = place();
    if (at >= p.count) {
        return;
    }
    Chunk x = load_at(p.x, at, p.count);
    drop(p, at, x);
    store_at(p.out, at, p.count, x);
}

// The same for the stored entries of a sparse matrix: a warp a row.
KERNEL(dropout_sparse, ElementwiseArgs, THREADS) {
    const u32 row = (blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (row >= p.rows) {
        return;
    }
    const DropoutKey key = dropout_key(p.dropout);
    const u32 row_hash = mix(key.row ^ row);
    for (u32 k = p.offsets[row] + threadIdx.x % WARP; k < p.offsets[row + 1]; k += WARP) {
        const float factor = dropout_factor(p.dropout, key, row_hash, p.columns[k]);
        const u64 at = (u64)k * p.stride;
        p.out[at] = to_feature(factor == 0.0f ? 0.0f : to_float(p.x[at]) * factor);
    }
}
