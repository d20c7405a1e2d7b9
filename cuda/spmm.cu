// Sums over neighbours: out_r = row_scale_r * sum over edges k of row r of weight_k * column_scale_c(k) * x_c(k).
//
//   x [columns, features], out [rows, out_stride] features; weight [edges], row_scale [rows], column_scale [columns]
//   partials [num_segments, chunks * CHUNK] floats: sums of the segments of heavy rows, which spmm_merge adds up in order
//
// spmm_features:   a thread a chunk of a task, over its edges in sequence, UNROLL of them in flight. Consecutive rows share a
//                  block, so that columns they have in common are read once through L1. Wide rows are done in panels of at most a
//                  warp's chunks, one panel of all rows after the other: what is gathered meanwhile is more likely to fit L2.
// spmm_neighbours: LANES threads a task, each takes every LANES-th edge; merged in a fixed tree. For one or two chunks.
//
// Bytes an edge: 4 (column) + F (row of x), + 4 (weight), + 4 (column scale), + 4 (position); a row: 4 + F, + 4 (row scale).
// Source: row-wise SpMM after "Design Principles for Sparse Matrix Multiplication on the GPU" (Yang, Buluc, Owens, Euro-Par 2018);
// the cut of heavy rows after "On Efficient Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026).
//
// WEIGHTED, COLUMN_SCALE: 0 or 1; THREADS of a block; UNROLL; LANES; SINGLE: 1 if x has one column, which is not padded.
#include "graph.cuh"

struct SpmmArgs {
    Graph graph;
    const feature* x;
    const float* weight;
    const float* row_scale;
    const float* column_scale;
    feature* out;
    float* partials;
    u64 out_stride;
    u32 x_bytes;  // of a row of x
    u32 chunks;
    u32 panel;  // chunks of a panel
    u32 tasks_per_block;
    u32 blocks_per_panel;
    u32 padding;
};

// What the edge at position k is multiplied with.
__device__ __forceinline__ float factor_of(const SpmmArgs& p, u32 k, u32 column) {
    float factor = 1.0f;
#if WEIGHTED
    factor = p.weight[p.graph.positions ? p.graph.positions[k] : k];
#endif
#if COLUMN_SCALE
    factor *= p.column_scale[column];
#endif
    return factor;
}

__device__ __forceinline__ void accumulate(Chunk& sum, float factor, const Chunk& x) {
#if WEIGHTED || COLUMN_SCALE
    add_scaled(sum, factor, x);
#else
    add(sum, x);
#endif
}

#if SINGLE
#define LOAD(at) load_part(at, 1)
#define STORE(at, chunk) store_part(at, chunk, 1)
#else
#define LOAD(at) load_chunk(at)
#define STORE(at, chunk) store_chunk(at, chunk)
#endif

__device__ __forceinline__ void finish(const SpmmArgs& p, const Task& task, u32 chunk, Chunk& sum) {
    if (task.partial != NO_EDGE) {
        store_floats(p.partials + ((u64)task.partial * p.chunks + chunk) * CHUNK, sum);
        return;
    }
    if (p.row_scale) {
        const float scale = p.row_scale[task.row];
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            sum.v[c] *= scale;
        }
    }
    STORE(p.out + task.row * p.out_stride + chunk * CHUNK, sum);
}

#if LANES == 1
// Blocks that share a multiprocessor: full ones where the edges in flight leave room.
#if WEIGHTED || COLUMN_SCALE
#define BLOCKS 5
#elif DTYPE != 0
#define BLOCKS 6
#else
#define BLOCKS 8
#endif

// Takes COUNT edges, or the first `left` of them where that is less: the last of those is then read again.
template <int COUNT>
__device__ __forceinline__ void take_edges(const SpmmArgs& p, Chunk& sum, const feature* x, u32 k, u32 left) {
    const u32* at = p.graph.columns + k;
    u32 columns[COUNT];
    Chunk rows[COUNT];
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        columns[u] = at[min(u, left - 1)];
    }
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        rows[u] = LOAD(row_of(x, columns[u], p.x_bytes));
    }
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        if (u < left) {
            accumulate(sum, factor_of(p, k + u, columns[u]), rows[u]);
        }
    }
}

KERNEL_OF_BLOCKS(spmm_features, SpmmArgs, THREADS, BLOCKS) {
    const u32 local = threadIdx.x / p.panel;
    const u32 panel = blockIdx.x / p.blocks_per_panel;
    const u32 chunk = panel * p.panel + threadIdx.x - local * p.panel;
    const u32 index = (blockIdx.x - panel * p.blocks_per_panel) * p.tasks_per_block + local;
    Task task;
    if (local >= p.tasks_per_block || chunk >= p.chunks || !find_task(p.graph, index, task)) {
        return;
    }
    const feature* x = computed(p.x + chunk * CHUNK);
    Chunk sum = chunk_of(0.0f);
    u32 k = task.first;
#pragma unroll 1
    for (; k + UNROLL <= task.last; k += UNROLL) {
        take_edges<UNROLL>(p, sum, x, k, UNROLL);
    }
    if (k < task.last) {
        take_edges<UNROLL - 1>(p, sum, x, k, task.last - k);
    }
    finish(p, task, chunk, sum);
}

#else
KERNEL(spmm_neighbours, SpmmArgs, THREADS) {
    const u32 lane = threadIdx.x % LANES;
    Task task;
    const bool mine = find_task(p.graph, blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES, task);
    for (u32 chunk = 0; chunk < p.chunks; chunk++) {
        Chunk sum = chunk_of(0.0f);
        for (u32 k = task.first + lane; k < task.last; k += LANES) {
            const u32 column = p.graph.columns[k];
            accumulate(sum, factor_of(p, k, column), LOAD(row_of(p.x, column, p.x_bytes) + chunk * CHUNK));
        }
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
#if SINGLE
            if (c > 0) {
                break;
            }
#endif
            sum.v[c] = sum_over_lanes(sum.v[c], LANES);
        }
        if (mine && lane == 0) {
            finish(p, task, chunk, sum);
        }
    }
}

#endif

// A thread a chunk of a heavy row: the sums of its segments in their order.
KERNEL(spmm_merge, SpmmArgs, THREADS) {
    const u32 index = blockIdx.x * THREADS + threadIdx.x;
    if (index >= p.graph.num_heavy * p.chunks) {
        return;
    }
    const u32* heavy = p.graph.heavy + 4 * (index / p.chunks);
    const u32 chunk = index % p.chunks;
    Chunk sum = chunk_of(0.0f);
#pragma unroll 4
    for (u32 s = heavy[1]; s < heavy[2]; s++) {
        add(sum, load_floats(p.partials + ((u64)s * p.chunks + chunk) * CHUNK));
    }
    const Task task = {0, 0, heavy[0], NO_EDGE};
    finish(p, task, chunk, sum);
}
