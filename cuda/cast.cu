// The step between 32-bit floats and features of 16 bits (DTYPE 1 or 2).
//
//   widen: out [rows, cols] floats = x [rows, cols] features, exact; narrow: the other way round, to nearest even
//
// Rows of the two are padded differently. A thread a chunk of features, or a number where there is one column; 6 bytes a
// number.
#include "common.cuh"

struct CastArgs {
    const feature* halves;
    const float* floats;
    u64 rows;
    u64 half_stride;
    u64 float_stride;
    u32 chunks;  // of a row
    u32 cols;
};

KERNEL(widen, CastArgs, THREADS) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 r = index / p.chunks;
    if (r >= p.rows) {
        return;
    }
    const u32 at = (u32)(index - r * p.chunks) * CHUNK;
    const feature* x = p.halves + r * p.half_stride + at;
    float* out = (float*)p.floats + r * p.float_stride + at;
    if (at + CHUNK <= p.cols) {
        store_floats(out, load_chunk(x));
        return;
    }
    for (u32 c = 0; c < p.cols - at; c++) {
        out[c] = to_float(x[c]);
    }
}

KERNEL(narrow, CastArgs, THREADS) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 r = index / p.chunks;
    if (r >= p.rows) {
        return;
    }
    const u32 at = (u32)(index - r * p.chunks) * CHUNK;
    const float* x = p.floats + r * p.float_stride + at;
    feature* out = (feature*)p.halves + r * p.half_stride + at;
    if (at + CHUNK <= p.cols) {
        store_chunk(out, load_floats(x));
        return;
    }
    for (u32 c = 0; c < p.cols - at; c++) {
        out[c] = to_feature(x[c]);
    }
}
