// Shared by every kernel. It needs no header of the toolkit; in emulation (cuda/emulation.h) a C++ compiler takes the same text.
//
// DTYPE: what features are stored in, 0 for 32-bit floats, 1 for f16, 2 for bfloat16. Sums are 32-bit floats always.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

#define NO_EDGE 0xffffffffu
#define FULL_WARP 0xffffffffu
#define WARP 32

#ifndef DTYPE
#define DTYPE 0
#endif

#ifndef HOPWISE_EMULATION
// A kernel takes one struct, which it sees as `p`.
#define KERNEL(name, Args, threads) extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args p)
// The same where `blocks` blocks are to fit a multiprocessor. The compiler then takes the registers that those leave; else it saves
// some, and to that end waits for one load before it issues the next.
#define KERNEL_OF_BLOCKS(name, Args, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args p)
// The same with so few registers that multiprocessors are full.
#define FULL_KERNEL(name, Args, threads) KERNEL_OF_BLOCKS(name, Args, threads, 2048 / (threads))
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]

__device__ __forceinline__ float half_to_float(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ u16 float_to_half(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float bfloat_to_float(u16 bits) {
    return __uint_as_float((u32)bits << 16);
}

__device__ __forceinline__ u16 float_to_bfloat(float value) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// The smaller and the larger of two numbers; NaN if one is.
__device__ __forceinline__ float smaller(float a, float b) {
    float value;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

__device__ __forceinline__ float larger(float a, float b) {
    float value;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

// The highest bit of each byte in which two words agree.
__device__ __forceinline__ u32 equal_bytes(u32 a, u32 b) {
    const u32 differ = a ^ b;
    return ~((differ & 0x7f7f7f7fu) + 0x7f7f7f7fu | differ) & 0x80808080u;
}

// Two units in the last place, results below 2^-126 are 0: one instruction, where exp2f takes care of those too.
__device__ __forceinline__ float exp2_fast(float value) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}
#else
#define KERNEL_OF_BLOCKS(name, Args, threads, blocks) KERNEL(name, Args, threads)
#define FULL_KERNEL KERNEL

static inline float smaller(float a, float b) {
    return a != a || b != b ? a + b : a < b ? a : b;
}

static inline float larger(float a, float b) {
    return a != a || b != b ? a + b : a > b ? a : b;
}

static inline u32 equal_bytes(u32 a, u32 b) {
    u32 equal = 0;
    for (u32 byte = 0xffu; byte != 0; byte <<= 8) {
        equal |= ((a ^ b) & byte) == 0 ? byte & 0x80808080u : 0;
    }
    return equal;
}

__device__ __forceinline__ float exp2_fast(float value) {
    return exp2f(value);
}
#endif

// A number of a feature matrix, and how many fill 16 bytes: a chunk, the unit in which rows are read.
#if DTYPE == 0
typedef float feature;
#define CHUNK 4
#else
typedef u16 feature;
#define CHUNK 8
#endif

__device__ __forceinline__ float to_float(float value) {
    return value;
}

__device__ __forceinline__ float to_float(u16 bits) {
#if DTYPE == 2
    return bfloat_to_float(bits);
#else
    return half_to_float(bits);
#endif
}

__device__ __forceinline__ feature to_feature(float value) {
#if DTYPE == 0
    return value;
#elif DTYPE == 1
    return float_to_half(value);
#else
    return float_to_bfloat(value);
#endif
}

// The floats of a chunk, in registers.
struct Chunk {
    float v[CHUNK];
};

__device__ __forceinline__ Chunk chunk_of(float value) {
    Chunk chunk;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        chunk.v[c] = value;
    }
    return chunk;
}

// A chunk as it is stored; of halves, in half as many registers.
#if DTYPE == 0
typedef Chunk Packed;
#else
struct Packed {
    u32 words[4];
};
#endif

// Sixteen bytes at a multiple of sixteen.
__device__ __forceinline__ Packed load_packed(const feature* at) {
#if DTYPE == 0
    const float4 bits = *(const float4*)at;
#else
    const uint4 bits = *(const uint4*)at;
#endif
    return {{bits.x, bits.y, bits.z, bits.w}};
}

// The first `count` numbers of a chunk that may stand anywhere; the others are 0.
__device__ __forceinline__ Packed load_packed_part(const feature* at, u32 count) {
    Packed packed;
#if DTYPE == 0
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        packed.v[c] = c < count ? at[c] : 0.0f;
    }
#else
#pragma unroll
    for (int w = 0; w < 4; w++) {
        packed.words[w] = 2 * w < count ? at[2 * w] : 0;
        packed.words[w] |= 2 * w + 1 < count ? (u32)at[2 * w + 1] << 16 : 0;
    }
#endif
    return packed;
}

// The first `count` numbers of a chunk; the others become 0.
__device__ __forceinline__ Packed first_of(const Packed& packed, u32 count) {
    Packed part;
#if DTYPE == 0
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        part.v[c] = c < count ? packed.v[c] : 0.0f;
    }
#else
#pragma unroll
    for (int w = 0; w < 4; w++) {
        part.words[w] = 2 * w + 1 < count ? packed.words[w] : 2 * w < count ? packed.words[w] & 0xffffu : 0;
    }
#endif
    return part;
}

__device__ __forceinline__ Chunk unpacked(const Packed& packed) {
#if DTYPE == 0
    return packed;
#else
    Chunk chunk;
#pragma unroll
    for (int w = 0; w < 4; w++) {
#if DTYPE == 2
        // One instruction each, which the compiler does not find behind 16-bit numbers.
        chunk.v[2 * w] = __uint_as_float(packed.words[w] << 16);
        chunk.v[2 * w + 1] = __uint_as_float(packed.words[w] & 0xffff0000u);
#else
        chunk.v[2 * w] = to_float((u16)(packed.words[w] & 0xffffu));
        chunk.v[2 * w + 1] = to_float((u16)(packed.words[w] >> 16));
#endif
    }
    return chunk;
#endif
}

__device__ __forceinline__ Chunk load_chunk(const feature* at) {
    return unpacked(load_packed(at));
}

__device__ __forceinline__ void store_chunk(feature* at, const Chunk& chunk) {
#if DTYPE == 0
    *(float4*)at = make_float4(chunk.v[0], chunk.v[1], chunk.v[2], chunk.v[3]);
#else
    u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; w++) {
        words[w] = (u32)to_feature(chunk.v[2 * w]) | (u32)to_feature(chunk.v[2 * w + 1]) << 16;
    }
    *(uint4*)at = make_uint4(words[0], words[1], words[2], words[3]);
#endif
}

__device__ __forceinline__ Chunk load_part(const feature* at, u32 count) {
    return unpacked(load_packed_part(at, count));
}

__device__ __forceinline__ void store_part(feature* at, const Chunk& chunk, u32 count) {
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        if (c < count) {
            at[c] = to_feature(chunk.v[c]);
        }
    }
}

// A chunk of 32-bit floats, for partial sums; `at` is a multiple of sixteen bytes.
__device__ __forceinline__ void store_floats(float* at, const Chunk& chunk) {
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        *(float4*)(at + c) = make_float4(chunk.v[c], chunk.v[c + 1], chunk.v[c + 2], chunk.v[c + 3]);
    }
}

__device__ __forceinline__ Chunk load_floats(const float* at) {
    Chunk chunk;
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) {
        const float4 bits = *(const float4*)(at + c);
        chunk.v[c] = bits.x;
        chunk.v[c + 1] = bits.y;
        chunk.v[c + 2] = bits.z;
        chunk.v[c + 3] = bits.w;
    }
    return chunk;
}

__device__ __forceinline__ void add(Chunk& sum, const Chunk& x) {
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        sum.v[c] += x.v[c];
    }
}

__device__ __forceinline__ void add_scaled(Chunk& sum, float factor, const Chunk& x) {
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        sum.v[c] = fmaf(factor, x.v[c], sum.v[c]);
    }
}

__device__ __forceinline__ float add_dot(float sum, const Chunk& a, const Chunk& b) {
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        sum = fmaf(a.v[c], b.v[c], sum);
    }
    return sum;
}

__device__ __forceinline__ float dot(const Chunk& a, const Chunk& b) {
    return add_dot(0.0f, a, b);
}

// The sum over `lanes` neighbouring lanes, a power of two, the same for each of them.
__device__ __forceinline__ float sum_over_lanes(float value, u32 lanes) {
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        value += __shfl_xor_sync(FULL_WARP, value, half);
    }
    return value;
}
