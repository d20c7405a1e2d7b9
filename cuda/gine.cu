// Sums of rectified messages with edge features: out_i = sum over edges k from j to i of max(x_j + e_k, 0), and, over the
// transpose, grad_e_k = g_i where x_j + e_k > 0, grad_x_j = sum over edges k out of j of grad_e_k.
//
//   x, out, g [nodes, stride] features; e [edges of the rows wanted, stride], from `first_edge` on; overwritten with its gradient
//   partials [num_segments, chunks * CHUNK] floats: sums of segments of heavy rows, which gine_merge adds up in order
//
// A thread a chunk of a task, over its edges in sequence. Bytes an edge: 4 + 2 F, backward 4 + 3 F.
// Source: "Strategies for Pre-training Graph Neural Networks" (Hu et al., ICLR 2020).
#include "graph.cuh"

struct GineArgs {
    Graph graph;
    const feature* x;
    feature* e;
    const feature* g;
    feature* out;
    float* partials;
    u64 stride;
    u32 chunks;
    u32 first_row;
    u32 last_row;
    u32 first_edge;
};

#define PART (p.stride < CHUNK)

__device__ __forceinline__ Chunk load(const GineArgs& p, const feature* at) {
    return PART ? load_part(at, 1) : load_chunk(at);
}

__device__ __forceinline__ void store(const GineArgs& p, feature* at, const Chunk& chunk) {
    if (PART) {
        store_part(at, chunk, 1);
    } else {
        store_chunk(at, chunk);
    }
}

__device__ __forceinline__ bool find_chunk(const GineArgs& p, Task& task, u32& chunk) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 number = index / p.chunks;
    chunk = (u32)(index - number * p.chunks);
    return number < num_tasks(p.graph) && find_task(p.graph, (u32)number, task) && task.row >= p.first_row && task.row < p.last_row;
}

__device__ __forceinline__ void finish(const GineArgs& p, const Task& task, u32 chunk, const Chunk& sum) {
    if (task.partial != NO_EDGE) {
        store_floats(p.partials + ((u64)task.partial * p.chunks + chunk) * CHUNK, sum);
    } else {
        store(p, p.out + task.row * p.stride + chunk * CHUNK, sum);
    }
}

KERNEL(gine_forward, GineArgs, THREADS) {
    Task task;
    u32 chunk;
    if (!find_chunk(p, task, chunk)) {
        return;
    }
    Chunk sum = chunk_of(0.0f);
    for (u32 k = task.first; k < task.last; k++) {
        const Chunk x = load(p, p.x + p.graph.columns[k] * p.stride + chunk * CHUNK);
        const Chunk e = load(p, p.e + (k - p.first_edge) * p.stride + chunk * CHUNK);
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            sum.v[c] += fmaxf(x.v[c] + e.v[c], 0.0f);
        }
    }
    finish(p, task, chunk, sum);
}

KERNEL(gine_backward, GineArgs, THREADS) {
    Task task;
    u32 chunk;
    if (!find_chunk(p, task, chunk)) {
        return;
    }
    const Chunk x = load(p, p.x + task.row * p.stride + chunk * CHUNK);
    Chunk sum = chunk_of(0.0f);
    for (u32 k = task.first; k < task.last; k++) {
        feature* at = p.e + (k - p.first_edge) * p.stride + chunk * CHUNK;
        const Chunk g = load(p, p.g + p.graph.columns[k] * p.stride + chunk * CHUNK);
        Chunk e = load(p, at);
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            e.v[c] = e.v[c] + x.v[c] > 0.0f ? g.v[c] : 0.0f;
        }
        add(sum, e);
        store(p, at, e);
    }
    finish(p, task, chunk, sum);
}

KERNEL(gine_merge, GineArgs, THREADS) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= p.graph.num_heavy * p.chunks) {
        return;
    }
    const u32* heavy = p.graph.heavy + 4 * (index / p.chunks);
    const u32 chunk = index % p.chunks;
    if (heavy[0] < p.first_row || heavy[0] >= p.last_row) {
        return;
    }
    Chunk sum = chunk_of(0.0f);
    for (u32 s = heavy[1]; s < heavy[2]; s++) {
        add(sum, load_floats(p.partials + ((u64)s * p.chunks + chunk) * CHUNK));
    }
    store(p, p.out + heavy[0] * p.stride + chunk * CHUNK, sum);
}
