// Softmax over the in-edges of each node, column by column, and its gradient.
//
// softmax_forward:  out_k = exp(scale s_k - m_i) / sum over edges k' into i of exp(scale s_k' - m_i), m_i the largest of the row
// softmax_backward: out_k = scale w_k (g_k - sum over edges k' into i of w_k' g_k'), w the weights of the forward pass
//
//   score, weight, grad, out [edges, stride] floats, in edge order
//
// Threads lie over a row's edges and, neighbouring ones, over `lanes` of their columns, so that what is read is one piece. A warp a
// row; of more than `segment` edges, a block. Threads of a column merge in a fixed tree. Bytes an edge and column: 12, of which 4 from
// the cache; backward 20, of which 8.
// Source: "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).
//
// HEAVY: 1 for blocks; THREADS of a block.
#include "attention.cuh"

struct SoftmaxArgs {
    Graph graph;
    const float* score;
    const float* weight;
    const float* grad;
    float* out;
    u64 stride;
    u32 cols;
    u32 lanes;  // a power of two up to 32: threads across columns
    float scale;
    u32 padding;
};

#if HEAVY
#define GROUP THREADS
#else
#define GROUP WARP
#endif

// Of a difference, not of the difference of two products: those would be off by the rounding of the larger one.
__device__ __forceinline__ float exp_fast(float difference) {
    return exp2_fast(LOG2_E * difference);
}

struct Row {
    u32 first;
    u32 last;
    bool there;
};

__device__ __forceinline__ Row find_row(const SoftmaxArgs& p) {
    Row row = {0, 0, false};
#if HEAVY
    const u32 number = p.graph.heavy[4 * blockIdx.x];
#else
    const u32 number = (u32)(((u64)blockIdx.x * THREADS + threadIdx.x) / WARP);
    if (number >= p.graph.rows) {
        return row;
    }
#endif
    row.first = p.graph.offsets[number];
    row.last = p.graph.offsets[number + 1];
    row.there = HEAVY || row.last - row.first <= p.graph.segment;
    return row;
}

__device__ __forceinline__ Softmax merged(const Softmax& a, const Softmax& b) {
    const float top = fmaxf(a.top, b.top);
    return {top, a.total * exp_fast(a.top - top) + b.total * exp_fast(b.top - top)};
}

// Over the threads of the group that have the same column as this one.
__device__ __forceinline__ Softmax merge_group(Softmax own, u32 lanes) {
    for (u32 distance = lanes; distance < WARP; distance *= 2) {
        const Softmax other = {__shfl_xor_sync(FULL_WARP, own.top, distance), __shfl_xor_sync(FULL_WARP, own.total, distance)};
        own = merged(own, other);
    }
#if HEAVY
    __shared__ float tops[THREADS];
    __shared__ float totals[THREADS];
    // The last round's numbers may still be read.
    __syncthreads();
    tops[threadIdx.x] = own.top;
    totals[threadIdx.x] = own.total;
    __syncthreads();
    own = no_edges();
    for (u32 at = threadIdx.x % WARP; at < THREADS; at += WARP) {
        own = merged(own, {tops[at], totals[at]});
    }
#endif
    return own;
}

KERNEL(softmax_forward, SoftmaxArgs, THREADS) {
    const Row row = find_row(p);
    if (!row.there) {
        return;
    }
    const u32 lane = threadIdx.x % GROUP;
    for (u32 block = 0; block < p.cols; block += p.lanes) {
        const u32 column = block + lane % p.lanes;
        const bool there = column < p.cols;
        Softmax softmax = no_edges();
        for (u32 k = row.first + lane / p.lanes; there && k < row.last; k += GROUP / p.lanes) {
            const float score = p.scale * p.score[k * p.stride + column];
            const float top = fmaxf(softmax.top, score);
            softmax = {top, softmax.total * exp_fast(softmax.top - top) + exp_fast(score - top)};
        }
        softmax = merge_group(softmax, p.lanes);
        const float share = 1.0f / softmax.total;
        for (u32 k = row.first + lane / p.lanes; there && k < row.last; k += GROUP / p.lanes) {
            p.out[k * p.stride + column] = exp_fast(p.scale * p.score[k * p.stride + column] - softmax.top) * share;
        }
    }
}

__device__ __forceinline__ float sum_group(float own, u32 lanes) {
    for (u32 distance = lanes; distance < WARP; distance *= 2) {
        own += __shfl_xor_sync(FULL_WARP, own, distance);
    }
#if HEAVY
    __shared__ float sums[THREADS];
    __syncthreads();
    sums[threadIdx.x] = own;
    __syncthreads();
    own = 0.0f;
    for (u32 at = threadIdx.x % WARP; at < THREADS; at += WARP) {
        own += sums[at];
    }
#endif
    return own;
}

// out_k = scale w_k (g_k - sum over the row of w g)
KERNEL(softmax_backward, SoftmaxArgs, THREADS) {
    const Row row = find_row(p);
    if (!row.there) {
        return;
    }
    const u32 lane = threadIdx.x % GROUP;
    for (u32 block = 0; block < p.cols; block += p.lanes) {
        const u32 column = block + lane % p.lanes;
        const bool there = column < p.cols;
        float sum = 0.0f;
        for (u32 k = row.first + lane / p.lanes; there && k < row.last; k += GROUP / p.lanes) {
            sum = fmaf(p.weight[k * p.stride + column], p.grad[k * p.stride + column], sum);
        }
        sum = sum_group(sum, p.lanes);
        for (u32 k = row.first + lane / p.lanes; there && k < row.last; k += GROUP / p.lanes) {
            const u64 at = k * p.stride + column;
            p.out[at] = p.scale * p.weight[at] * (p.grad[at] - sum);
        }
    }
}
