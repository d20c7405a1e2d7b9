// Batch normalisation, column by column, and layer normalisation, row by row. With h = (x - mean) * inverse_deviation:
//
// column_norm, row_norm: out = h weight + bias
// column_norm_grad:      out = weight inverse_deviation (g - (g_sum + h inverse_deviation product_sum) / rows), the latter where the
//                        moments are those of x
// row_norm_grad:         out = inverse_deviation (v - mean(v) - h mean(v h)) with v = g weight; scaled = g h
//
//   x, g, out, scaled [rows, stride] features; mean, inverse_deviation, weight, bias, g_sum, product_sum [cols] floats
//
// By columns a thread a number; by rows a warp a row, lanes across the columns, merged in a fixed tree. Bytes a number, f those of a
// feature: column_norm and row_norm 2 f, column_norm_grad 2 f or 3 f, row_norm_grad 3 f or 4 f; rows are read again from the cache.
// Sources: "Batch Normalization" (Ioffe, Szegedy, ICML 2015); "Layer Normalization" (Ba, Kiros, Hinton, 2016).
#include "common.cuh"

struct NormArgs {
    const feature* x;
    const feature* g;
    feature* out;
    feature* scaled;  // null unless wanted
    const float* mean;
    const float* inverse_deviation;
    const float* weight;  // null for 1
    const float* bias;
    const float* g_sum;  // null where the moments are not those of x
    const float* product_sum;
    u64 stride;
    u64 rows;
    u32 cols;
    float epsilon;
};

#define EACH_NUMBER                                                   \
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;        \
    const u64 row = index / p.cols;                                   \
    const u32 c = (u32)(index - row * p.cols);                        \
    const u64 at = row * p.stride + c;                                \
    if (row >= p.rows) {                                              \
        return;                                                       \
    }

KERNEL(column_norm, NormArgs, THREADS) {
    EACH_NUMBER
    float value = (to_float(p.x[at]) - p.mean[c]) * p.inverse_deviation[c];
    if (p.weight) {
        value = value * p.weight[c] + p.bias[c];
    }
    p.out[at] = to_feature(value);
}

KERNEL(column_norm_grad, NormArgs, THREADS) {
    EACH_NUMBER
    float grad = to_float(p.g[at]);
    const float scale = p.inverse_deviation[c];
    if (p.g_sum) {
        const float along = (to_float(p.x[at]) - p.mean[c]) * scale * scale * p.product_sum[c];
        grad -= (p.g_sum[c] + along) * (1.0f / (float)p.rows);
    }
    if (p.weight) {
        grad *= p.weight[c];
    }
    p.out[at] = to_feature(grad * scale);
}

struct Moments {
    float mean;
    float scale;
};

__device__ __forceinline__ Moments moments_of(const NormArgs& p, const feature* x) {
    Moments moments;
    float sum = 0.0f;
    for (u32 c = threadIdx.x % WARP; c < p.cols; c += WARP) {
        sum += to_float(x[c]);
    }
    moments.mean = sum_over_lanes(sum, WARP) / (float)p.cols;
    float square = 0.0f;
    for (u32 c = threadIdx.x % WARP; c < p.cols; c += WARP) {
        const float away = to_float(x[c]) - moments.mean;
        square = fmaf(away, away, square);
    }
    moments.scale = 1.0f / sqrtf(sum_over_lanes(square, WARP) / (float)p.cols + p.epsilon);
    return moments;
}

KERNEL(row_norm, NormArgs, THREADS) {
    const u64 row = ((u64)blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    const Moments moments = moments_of(p, x);
    for (u32 c = threadIdx.x % WARP; c < p.cols; c += WARP) {
        float value = (to_float(x[c]) - moments.mean) * moments.scale;
        if (p.weight) {
            value = value * p.weight[c] + p.bias[c];
        }
        p.out[row * p.stride + c] = to_feature(value);
    }
}

KERNEL(row_norm_grad, NormArgs, THREADS) {
    const u64 row = ((u64)blockIdx.x * THREADS + threadIdx.x) / WARP;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    const feature* g = p.g + row * p.stride;
    const Moments moments = moments_of(p, x);
    float sum = 0.0f, product = 0.0f;
    for (u32 c = threadIdx.x % WARP; c < p.cols; c += WARP) {
        const float v = to_float(g[c]) * (p.weight ? p.weight[c] : 1.0f);
        sum += v;
        product = fmaf(v, (to_float(x[c]) - moments.mean) * moments.scale, product);
    }
    const float mean = sum_over_lanes(sum, WARP) / (float)p.cols;
    const float product_mean = sum_over_lanes(product, WARP) / (float)p.cols;
    for (u32 c = threadIdx.x % WARP; c < p.cols; c += WARP) {
        const float h = (to_float(x[c]) - moments.mean) * moments.scale;
        const float v = to_float(g[c]) * (p.weight ? p.weight[c] : 1.0f);
        p.out[row * p.stride + c] = to_feature(moments.scale * (v - mean - h * product_mean));
        if (p.scaled) {
            p.scaled[row * p.stride + c] = to_feature(to_float(g[c]) * h);
        }
    }
}
