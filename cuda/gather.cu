// Rows moved by number: out[r] = x[rows[r]] (gather, `fill` where there is none), out[rows[r]] = x[r] (scatter).
//
//   x, out [.., stride] features, rows [count]
//
// A thread a chunk of 16 bytes, or a number where there is one column. Bytes a row of F bytes: 2 F, + 4 for its number.
#include "common.cuh"

struct GatherArgs {
    const feature* x;
    feature* out;
    const u32* rows;
    u64 count;
    u64 stride;
    u32 chunks;  // of a row
    float fill;
};

#define SINGLE_CHUNK (p.stride < CHUNK)

KERNEL(gather_rows, GatherArgs, THREADS) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 r = index / p.chunks;
    if (r >= p.count) {
        return;
    }
    const u32 at = (u32)(index - r * p.chunks) * CHUNK;
    const u32 from = p.rows[r];
    Chunk chunk = chunk_of(p.fill);
    if (from != NO_EDGE) {
        const feature* x = p.x + from * p.stride + at;
        chunk = SINGLE_CHUNK ? load_part(x, 1) : load_chunk(x);
    }
    feature* out = p.out + r * p.stride + at;
    if (SINGLE_CHUNK) {
        store_part(out, chunk, 1);
    } else {
        store_chunk(out, chunk);
    }
}

KERNEL(scatter_rows, GatherArgs, THREADS) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 r = index / p.chunks;
    if (r >= p.count || p.rows[r] == NO_EDGE) {
        return;
    }
    const u32 at = (u32)(index - r * p.chunks) * CHUNK;
    const feature* x = p.x + r * p.stride + at;
    feature* out = p.out + p.rows[r] * p.stride + at;
    if (SINGLE_CHUNK) {
        store_part(out, load_part(x, 1), 1);
    } else {
        store_chunk(out, load_chunk(x));
    }
}
