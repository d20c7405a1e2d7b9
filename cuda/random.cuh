// Dropout by a hash of (seed, step, layer, row, column), the same bits as src/backend/kernels/random.rs.
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
