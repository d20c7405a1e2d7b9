// Heads side by side in a row: `channels` numbers each, or those and `attributes` more.
//
// extend_heads: out_ih = (x_ih, W_h^T x_ih);  fold_heads: out_ih = y_ih + W_h t_ih of x_ih = (y_ih, t_ih)
// head_blocks:  of a product of all heads with all heads, those of a head with its own attributes
// mean_heads:   out_i = sum over h of x_ih / heads;  spread_heads: out_ih = x_i / heads
//
//   x [rows, x_stride], out [rows, out_stride] features; weight [heads * channels, weight_stride] floats, [channels, attributes] a head
//   products [heads * channels, x_stride], blocks [heads * channels, out_stride] floats
//
// A thread a number of the output. Bytes: x and out once; extend_heads reads a row once an attribute and fold_heads its attributes once a
// channel, from the cache, as weights.
// Source: linear functions moved across sums, as for edge features in "Masked Label Prediction" (Shi et al., IJCAI 2021).
#include "common.cuh"

struct HeadArgs {
    const feature* x;
    const float* weight;
    feature* out;
    const float* products;  // [heads * channels, x_stride]
    float* blocks;          // [heads * channels, out_stride]
    u64 count;              // numbers of the output, padding apart
    u64 x_stride;
    u64 out_stride;
    u64 weight_stride;
    u32 heads;
    u32 channels;
    u32 attributes;
    u32 columns;  // of the output
};

struct Entry {
    u64 row;
    u32 column;
};

__device__ __forceinline__ bool find_entry(const HeadArgs& p, Entry& entry) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    entry.row = index / p.columns;
    entry.column = (u32)(index - entry.row * p.columns);
    return index < p.count;
}

// out_ih = (x_ih, W_h^T x_ih)
KERNEL(extend_heads, HeadArgs, THREADS) {
    Entry at;
    if (!find_entry(p, at)) {
        return;
    }
    const u32 width = p.channels + p.attributes;
    const u32 head = at.column / width;
    const u32 place = at.column - head * width;
    const feature* x = p.x + at.row * p.x_stride + head * p.channels;
    feature* out = p.out + at.row * p.out_stride + at.column;
    if (place < p.channels) {
        *out = x[place];
        return;
    }
    const float* weight = p.weight + (u64)head * p.channels * p.weight_stride + (place - p.channels);
    float sum = 0.0f;
    for (u32 c = 0; c < p.channels; c++) {
        sum = fmaf(to_float(x[c]), weight[c * p.weight_stride], sum);
    }
    *out = to_feature(sum);
}

// out_ih = y_ih + W_h t_ih of x_ih = (y_ih, t_ih)
KERNEL(fold_heads, HeadArgs, THREADS) {
    Entry at;
    if (!find_entry(p, at)) {
        return;
    }
    const u32 head = at.column / p.channels;
    const feature* x = p.x + at.row * p.x_stride + (u64)head * (p.channels + p.attributes);
    const float* weight = p.weight + at.column * p.weight_stride;
    float sum = 0.0f;
    for (u32 d = 0; d < p.attributes; d++) {
        sum = fmaf(weight[d], to_float(x[p.channels + d]), sum);
    }
    p.out[at.row * p.out_stride + at.column] = to_feature(to_float(x[at.column - head * p.channels]) + sum);
}

// Of products of all heads with all heads, those of a head with its own attributes.
KERNEL(head_blocks, HeadArgs, THREADS) {
    Entry at;
    if (!find_entry(p, at)) {
        return;
    }
    const u64 first = at.row / p.channels * (p.channels + p.attributes) + p.channels;
    p.blocks[at.row * p.out_stride + at.column] = p.products[at.row * p.x_stride + first + at.column];
}

// out_i = sum over h of x_ih / heads
KERNEL(mean_heads, HeadArgs, THREADS) {
    Entry at;
    if (!find_entry(p, at)) {
        return;
    }
    const feature* x = p.x + at.row * p.x_stride + at.column;
    float sum = 0.0f;
    for (u32 h = 0; h < p.heads; h++) {
        sum += to_float(x[(u64)h * p.columns]);
    }
    p.out[at.row * p.out_stride + at.column] = to_feature(sum / (float)p.heads);
}

// out_ih = x_i / heads
KERNEL(spread_heads, HeadArgs, THREADS) {
    Entry at;
    if (!find_entry(p, at)) {
        return;
    }
    const float x = to_float(p.x[at.row * p.x_stride + at.column % p.channels]);
    p.out[at.row * p.out_stride + at.column] = to_feature(x / (float)p.heads);
}
