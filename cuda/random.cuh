// Dropout by a hash of (seed, step, layer, row, column), the same bits as src/backend/kernels/random.rs.
//
// With mix a bijection of 32-bit words: key = mix(mix(mix(mix(seed_low) ^ seed_high) ^ step) ^ layer),
// hash = mix(mix(key ^ row) ^ mix(mix(key ^ 0x9e3779b9) ^ column)). Entries whose hash is below p 2^32 are dropped.
//
// Any thread computes the hash of any entry: no mask is stored, no byte is moved.
// Source: the multipliers of mix are from "Hash Function Prospector" (Wellons, 2018).
#include "common.cuh"

struct StepData {
    u32 seed_low;
    u32 seed_high;
    u32 step;
    float learning_rate;
    float bias_correction1;
    float bias_correction2_sqrt;
    u32 padding[2];
};

__device__ __forceinline__ u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return x ^ (x >> 16);
}

// Which entries are kept, and what they are multiplied with.
struct Dropout {
    const StepData* state;  // null where nothing is dropped
    u32 layer;
    u32 threshold;
    float scale;
    u32 padding;
};

struct DropoutKey {
    u32 row;
    u32 column;
};

__device__ __forceinline__ DropoutKey dropout_key(const Dropout& dropout) {
    const StepData* state = dropout.state;
    DropoutKey key;
    key.row = mix(mix(mix(mix(state->seed_low) ^ state->seed_high) ^ state->step) ^ dropout.layer);
    key.column = mix(key.row ^ 0x9E3779B9u);
    return key;
}

// What an entry is multiplied with: 0 or `scale`. `row` is mix(key.row ^ number of the row).
__device__ __forceinline__ float dropout_factor(const Dropout& dropout, DropoutKey key, u32 row, u32 column) {
    return mix(row ^ mix(key.column ^ column)) >= dropout.threshold ? dropout.scale : 0.0f;
}
