// The gradient of a minimum or maximum, destination by destination: grad_x_j = sum of g_i where the edge from j to i is the argument of i.
//
//   g [num_dst, g_stride], out [num_src, out_stride] features; kept [num_dst, kept_stride] words: the argument of each feature
//   sums [num_src, width] 64-bit integers, width being `features` padded to whole chunks; largest [1]: bits of the largest |g|
//
// Additions of integers give the same sum in any order, which those of floats do not. A number is taken in units in which the largest
// has `bits` bits below its own 24 and all that can meet in one sum fit: what is less than 2^-bits of the largest is rounded, the rest
// is exact, and a sum is rounded once. Where a number is infinite or NaN, nothing happens here, and the kernel of reduce.cu that
// looks through the edges by source does it all: it looks at `largest` first.
//
// extreme_largest: a thread a chunk of a destination, one atomic maximum a warp.
// extreme_scatter: the same, an atomic addition for each of its features that has an argument.
// extreme_round:   a thread a chunk of a source.
//
// Bytes a feature: 8 and 4 of g and the argument, 16 of the sum an addition, 8 to clear it and 12 to round it, none an edge. Additions to
// places that no cache holds are slow: the other way, a byte for every edge, is faster up to a mean degree of some sixty.
// Source: arguments scattered as in "On Efficient Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026), there with floats.
//
// DTYPE; THREADS of a block.
#include "graph.cuh"

struct ExtremeArgs {
    Graph graph;  // by destination
    const feature* g;
    feature* out;
    const u32* kept;
    u64* sums;
    u32* largest;
    u64 g_stride;
    u64 out_stride;
    u64 kept_stride;
    u32 features;
    u32 chunks;
    u32 sources;
    u32 bits;
};

#define INFINITE_BITS 0x7f800000u

// A thread's chunk, and how many of its numbers are features.
struct Place {
    u64 row;
    u32 chunk;
    u32 count;
};

__device__ __forceinline__ Place find_place(const ExtremeArgs& p, u32 rows) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    Place place;
    place.row = index / p.chunks;
    place.chunk = (u32)(index - place.row * p.chunks);
    place.count = place.row < rows ? min(p.features - place.chunk * CHUNK, (u32)CHUNK) : 0;
    return place;
}

__device__ __forceinline__ Chunk load_gradient(const ExtremeArgs& p, const Place& place) {
    const feature* at = p.g + place.row * p.g_stride + place.chunk * CHUNK;
    // Rows are padded to whole chunks unless they are a single number.
    return p.features == 1 ? load_part(at, 1) : load_chunk(at);
}

__device__ __forceinline__ bool is_finite(u32 largest) {
    return largest < INFINITE_BITS;
}

KERNEL(extreme_largest, ExtremeArgs, THREADS) {
    const Place place = find_place(p, p.graph.rows);
    u32 largest = 0;
    if (place.count > 0) {
        const Chunk g = load_gradient(p, place);
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            const u32 bits = __float_as_uint(g.v[c]) & 0x7fffffffu;
            largest = c < place.count ? max(largest, bits) : largest;
        }
    }
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        largest = max(largest, __shfl_xor_sync(FULL_WARP, largest, distance));
    }
    if (threadIdx.x % WARP == 0 && largest > *(volatile u32*)p.largest) {
        atomicMax(p.largest, largest);
    }
}

// The place of a number's lowest bit is its exponent, or that of the denormals.
__device__ __forceinline__ u32 exponent_of(u32 bits) {
    return max(bits >> 23, 1u);
}

// A number in units of 2^-bits of the lowest bit of the largest, two's complement.
__device__ __forceinline__ u64 in_units(float value, u32 largest, u32 bits) {
    const u32 magnitude = __float_as_uint(value) & 0x7fffffffu;
    const u64 digits = (magnitude & 0x7fffffu) | (magnitude < 0x800000u ? 0u : 0x800000u);
    const u32 below = exponent_of(largest) - exponent_of(magnitude);
    u64 units = 0;
    if (below <= bits) {
        units = digits << (bits - below);
    } else if (below - bits <= 24) {
        units = (digits + (1ull << (below - bits - 1))) >> (below - bits);
    }
    return value < 0.0f ? 0ull - units : units;
}

KERNEL(extreme_scatter, ExtremeArgs, THREADS) {
    const Place place = find_place(p, p.graph.rows);
    const u32 largest = *p.largest;
    if (place.count == 0 || !is_finite(largest)) {
        return;
    }
    const Chunk g = load_gradient(p, place);
    const u32* kept = p.kept + place.row * p.kept_stride + place.chunk * CHUNK;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        const u32 edge = c < place.count ? kept[c] : NO_EDGE;
        if (edge != NO_EDGE && g.v[c] != 0.0f) {
            const u64 source = p.graph.columns[edge];
            atomicAdd(p.sums + (source * p.chunks + place.chunk) * CHUNK + c, in_units(g.v[c], largest, p.bits));
        }
    }
}

__device__ __forceinline__ float power_of_two(int exponent) {
    return __uint_as_float((u32)(exponent + 127) << 23);
}

KERNEL(extreme_round, ExtremeArgs, THREADS) {
    const Place place = find_place(p, p.sources);
    const u32 largest = *p.largest;
    if (place.count == 0 || !is_finite(largest)) {
        return;
    }
    // 2 to the power may be less than any float: half of it twice.
    const int exponent = (int)exponent_of(largest) - 150 - (int)p.bits;
    const float first = power_of_two(exponent / 2);
    const float second = power_of_two(exponent - exponent / 2);
    const u64* sums = p.sums + (place.row * p.chunks + place.chunk) * CHUNK;
    Chunk grad;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        grad.v[c] = (float)(long long)sums[c] * first * second;
    }
    feature* out = p.out + place.row * p.out_stride + place.chunk * CHUNK;
    if (p.features == 1) {
        store_part(out, grad, 1);
    } else {
        store_chunk(out, grad);
    }
}
