// Blocks of columns side by side: a block copied from one matrix to another; out_ib = weight_ib x_i (spread) and out_i = sum over b of
// weight_ib x_ib (merge), each + y where given.
//
//   x, y, out [rows, stride] features of `cols` or `blocks * cols` columns; weight [rows, blocks] floats
//
// A thread a number of `out`. Bytes a number of `out`, f those of a feature: copy 2 f; spread f, + f (y), x once a block from the cache;
// merge (blocks + 1) f, + f (y). 4 more a block of a row for its weight.
#include "common.cuh"

struct BlockArgs {
    const feature* x;
    const feature* y;
    feature* out;
    const float* weight;
    u64 x_stride;
    u64 out_stride;
    u64 weight_stride;
    u64 rows;
    u32 cols;
    u32 blocks;
};

#define EACH_NUMBER(width)                                            \
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;        \
    const u64 row = index / (width);                                  \
    const u32 c = (u32)(index - row * (width));                       \
    if (row >= p.rows) {                                              \
        return;                                                       \
    }

KERNEL(copy_block, BlockArgs, THREADS) {
    EACH_NUMBER(p.cols)
    p.out[row * p.out_stride + c] = p.x[row * p.x_stride + c];
}

KERNEL(spread_blocks, BlockArgs, THREADS) {
    EACH_NUMBER(p.blocks * p.cols)
    const u32 block = c / p.cols;
    float value = p.weight[row * p.weight_stride + block] * to_float(p.x[row * p.x_stride + c - block * p.cols]);
    if (p.y) {
        value += to_float(p.y[row * p.out_stride + c]);
    }
    p.out[row * p.out_stride + c] = to_feature(value);
}

KERNEL(merge_blocks, BlockArgs, THREADS) {
    EACH_NUMBER(p.cols)
    float value = 0.0f;
    for (u32 block = 0; block < p.blocks; block++) {
        value = fmaf(p.weight[row * p.weight_stride + block], to_float(p.x[row * p.x_stride + block * p.cols + c]), value);
    }
    if (p.y) {
        value += to_float(p.y[row * p.out_stride + c]);
    }
    p.out[row * p.out_stride + c] = to_feature(value);
}
