// What stands beside the dense products of cuBLASLt: sums of columns and transposes.
//
// column_sums: out_c = sum over r of x_rc, or of (x - center) * weight, or of (x - center)^2; a block takes ROWS_PER_PART rows of 32
//              columns, 8 threads a column, merged in a fixed order; column_merge adds the parts up.
// transpose:   out_cr = x_rc, tiles of 32 x 32 through shared memory.
//
//   x [rows, stride] features, out [cols, out_stride]; partials [parts, width] floats, sums floats
//
// Bytes an entry, f those of a feature: column_sums f, + f (weight), and 8 a column and part; transpose 2 f.
// Source: transposes after "Optimizing Matrix Transpose in CUDA" (Ruetsch, Micikevicius, NVIDIA, 2009).
#include "common.cuh"

#define TILE 32

struct LinearArgs {
    const feature* x;
    const float* center;    // null for sums of x itself
    const feature* weight;  // null for squares
    feature* out;
    float* partials;
    float* sums;
    u64 stride;
    u64 out_stride;
    u64 rows;
    u32 cols;
    u32 width;  // of a part
    u32 parts;
    u32 column_blocks;
    u32 accumulate;
    u32 padding;
};

KERNEL(column_sums, LinearArgs, THREADS) {
    __shared__ float sums[THREADS];
    const u32 column = blockIdx.x % p.column_blocks * TILE + threadIdx.x % TILE;
    const u32 part = blockIdx.x / p.column_blocks;
    const u64 first = (u64)part * ROWS_PER_PART;
    const u64 last = min(first + ROWS_PER_PART, p.rows);
    float sum = 0.0f;
    if (column < p.cols) {
        for (u64 r = first + threadIdx.x / TILE; r < last; r += THREADS / TILE) {
            const float x = to_float(p.x[r * p.stride + column]);
            if (!p.center) {
                sum += x;
                continue;
            }
            const float away = x - p.center[column];
            sum = fmaf(away, p.weight ? to_float(p.weight[r * p.stride + column]) : away, sum);
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < TILE && column < p.cols) {
        for (u32 t = 1; t < THREADS / TILE; t++) {
            sum += sums[threadIdx.x + t * TILE];
        }
        p.partials[(u64)part * p.width + column] = sum;
    }
}

// A warp a column: lanes over the parts.
KERNEL(column_merge, LinearArgs, THREADS) {
    const u32 column = (blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (column >= p.cols) {
        return;
    }
    float sum = 0.0f;
    for (u32 part = threadIdx.x % WARP; part < p.parts; part += WARP) {
        sum += p.partials[(u64)part * p.width + column];
    }
    sum = sum_over_lanes(sum, WARP);
    if (threadIdx.x % WARP == 0) {
        p.sums[column] = p.accumulate ? p.sums[column] + sum : sum;
    }
}

KERNEL(transpose, LinearArgs, THREADS) {
    __shared__ feature tile[TILE][TILE + 2];
    const u64 first_row = (u64)(blockIdx.x / p.column_blocks) * TILE;
    const u32 first_column = blockIdx.x % p.column_blocks * TILE;
    const u32 x = threadIdx.x % TILE;
    for (u32 y = threadIdx.x / TILE; y < TILE; y += THREADS / TILE) {
        if (first_row + y < p.rows && first_column + x < p.cols) {
            tile[y][x] = p.x[(first_row + y) * p.stride + first_column + x];
        }
    }
    __syncthreads();
    for (u32 y = threadIdx.x / TILE; y < TILE; y += THREADS / TILE) {
        if (first_column + y < p.cols && first_row + x < p.rows) {
            p.out[(first_column + y) * p.out_stride + first_row + x] = tile[x][y];
        }
    }
}
