// Sampled dense-dense products: out_k = row_scale_i * column_scale_j * <a_i, b_j> for the edge k from j to i.
//
//   a [num_dst, stride], b [num_src, stride] features; row_scale [num_dst], column_scale [num_src], out [edges] floats
//
// LANES threads a task, a row or a segment of a heavy one; each has CHUNKS chunks of 16 bytes of a_i in registers while the row's
// edges go by, UNROLL in flight. Rows wider than a warp's registers are done in panels, a_i read again for each step. Products of
// UNROLL edges are summed over the lanes together.
//
// Bytes an edge: 8 + F, + 4 (column scale); a row: 4 + F, + 4 (row scale).
// Source: SDDMM after "Sampled Dense Matrix Multiplication for High-Performance Machine Learning" (Nisa et al., HiPC 2018).
//
// THREADS, LANES, CHUNKS, UNROLL; WIDE: 1 if there are panels.
#include "attention.cuh"

struct SddmmArgs {
    Graph graph;
    const feature* a;
    const feature* b;
    const float* row_scale;
    const float* column_scale;
    float* out;
    u64 stride;
    u32 cols;
    u32 chunks;
};

#define SHARES Shares<UNROLL, LANES>
#define PANEL (LANES * CHUNKS)

// The columns of a chunk; 0 for none.
__device__ __forceinline__ u32 columns_of(const SddmmArgs& p, u32 chunk) {
    return chunk < p.chunks ? min(p.cols - chunk * CHUNK, (u32)CHUNK) : 0;
}

// A chunk of a gathered row, the last one for those past it. Padding is undefined, and must not even be multiplied with 0.
__device__ __forceinline__ Chunk load(const SddmmArgs& p, const feature* row, u32 chunk) {
    if (p.stride < CHUNK) {
        return load_part(row, columns_of(p, chunk));
    }
    Chunk loaded = load_chunk(row + min(chunk, p.chunks - 1) * CHUNK);
    if (p.cols % CHUNK != 0) {
        const u32 count = columns_of(p, chunk);
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            loaded.v[c] = c < count ? loaded.v[c] : 0.0f;
        }
    }
    return loaded;
}

// A chunk of the row that the task has, 0 past the last.
__device__ __forceinline__ Chunk load_own(const SddmmArgs& p, const feature* row, u32 chunk) {
    return chunk < p.chunks ? load(p, row, chunk) : chunk_of(0.0f);
}

KERNEL(sddmm, SddmmArgs, THREADS) {
    const u32 lane = threadIdx.x % LANES;
    Task task;
    find_group_task(p.graph, blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES, task);
    const u32 count = task.last - task.first;
    const u32 most = most_of_groups(count, LANES);
    const feature* own = p.a + task.row * p.stride;
    Chunk a[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        a[r] = most > 0 ? load_own(p, own, lane + r * LANES) : chunk_of(0.0f);
    }
    const float row_scale = p.row_scale && most > 0 ? p.row_scale[task.row] : 1.0f;
    for (u32 step = 0; step < most; step += UNROLL) {
        const feature* rows[UNROLL];
        float sums[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            rows[u] = p.b + p.graph.columns[edge_at(task, step + u)] * p.stride;
            sums[u] = 0.0f;
        }
#if WIDE
        for (u32 first = lane; first < p.chunks + lane; first += PANEL) {
#pragma unroll
            for (int r = 0; r < CHUNKS; r++) {
                a[r] = load_own(p, own, first + r * LANES);
            }
#else
        const u32 first = lane;
        {
#endif
            Chunk b[UNROLL][CHUNKS];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    b[u][r] = load(p, rows[u], first + r * LANES);
                }
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    sums[u] = add_dot(sums[u], a[r], b[u][r]);
                }
            }
        }
        sum_shares<UNROLL, LANES>(sums);
#pragma unroll
        for (int o = 0; o < SHARES::OWN; o++) {
            const u32 at = step + edge_of_share<UNROLL, LANES>(o);
            if (lane < SHARES::AMONG && at < count) {
                const u32 edge = task.first + at;
                const float scale = p.column_scale ? p.column_scale[p.graph.columns[edge]] : 1.0f;
                p.out[edge] = sums[o] * row_scale * scale;
            }
        }
    }
}
