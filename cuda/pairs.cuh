// Two halves in a word, compared without being widened: a quarter of the instructions.
//
// DTYPE 1 or 2. PAIRS: whether there are instructions for it; bfloat16 has them from compute capability 9 on.
#include "common.cuh"

#if DTYPE == 0
#define PAIRS 0
#elif DTYPE == 2 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define PAIRS 0
#else
#define PAIRS 1
#endif

#if PAIRS
#if DTYPE == 1
#define INFINITE_PAIR 0x7c007c00u
#define PAIR_TYPE "f16x2"
#else
#define INFINITE_PAIR 0x7f807f80u
#define PAIR_TYPE "bf16x2"
#endif
#define SIGNS_OF_PAIR 0x80008000u

__device__ __forceinline__ float low_half(u32 pair) {
    return to_float((u16)(pair & 0xffffu));
}

__device__ __forceinline__ float high_half(u32 pair) {
    return to_float((u16)(pair >> 16));
}

#ifndef HOPWISE_EMULATION
// The smaller and the larger, NaN if one is.
__device__ __forceinline__ u32 smaller_pair(u32 a, u32 b) {
    u32 value;
    asm("min.NaN." PAIR_TYPE " %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
    return value;
}

__device__ __forceinline__ u32 larger_pair(u32 a, u32 b) {
    u32 value;
    asm("max.NaN." PAIR_TYPE " %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
    return value;
}

// All bits of the halves where a >= b, none of those where one is NaN.
__device__ __forceinline__ u32 at_least_pair(u32 a, u32 b) {
    u32 mask;
    asm("set.ge.u32." PAIR_TYPE " %0, %1, %2;" : "=r"(mask) : "r"(a), "r"(b));
    return mask;
}
#else
static inline u32 pair_of(u32 low, u32 high) {
    return low & 0xffffu | high << 16;
}

static inline u32 smaller_pair(u32 a, u32 b) {
    return pair_of(to_feature(smaller(low_half(a), low_half(b))), to_feature(smaller(high_half(a), high_half(b))));
}

static inline u32 larger_pair(u32 a, u32 b) {
    return pair_of(to_feature(larger(low_half(a), low_half(b))), to_feature(larger(high_half(a), high_half(b))));
}

static inline u32 at_least_pair(u32 a, u32 b) {
    return pair_of(low_half(a) >= low_half(b) ? 0xffffu : 0, high_half(a) >= high_half(b) ? 0xffffu : 0);
}
#endif
#endif
