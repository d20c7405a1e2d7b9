// Attention of GAT: for the edge of attributes e from j to i and each head, s = leaky(source_j + destination_i + <w, e>),
// a the softmax of s over the edges into i, h_i = sum of a m z_j, m the dropout's factor.
// Gradients: t = leaky'(...) a (m <g_i, z_j> - <g_i, h_i>),
//   grad_destination_i = sum of t over the edges into i, grad_source_j = sum of t and grad_z_j = sum of a m g_i over the edges out of j,
//   grad_attr = sum over heads of t w of every edge, grad_weight = sum of t e^T over ranges of edges.
//
//   z, grad_z [num_src, heads * channels] features; g, h [num_dst, heads * channels]
//   source, grad_source [num_src, heads] floats; destination, grad_destination, logsumexp [num_dst, heads]
//   weight [heads, attributes]; attr, grad_attr [edges, attributes]; grad_weight [ranges, heads * weight_stride]
//   numbers [num_dst, heads] pairs for the gradients: logsumexp in units of log 2, and <g_ih, h_ih>
//   partials [num_segments, heads, head_chunks * CHUNK] floats: sums of the segments of heavy rows, merged in order; score_partials
//   [num_segments, heads] those of t; statistics [num_segments, heads] pairs: the softmax of each
//
// head_tasks.cuh tells how rows are shared out. A score needs no channel, so that each is computed by the one lane whose share it is.
// Ranges of edges have a block, whose groups of lanes have a part each.
//
// Bytes an edge, F = heads * channels features: forward 4 + F + 4 heads, by destination the same, by source 4 + F + 12 heads; attributes
// on top. Sources: "Graph Attention Networks" (Velickovic et al., ICLR 2018); softmax kept per node after "On Efficient Scaling of GNNs via
// IO-Aware Layers Implementations" (ICML 2026) and "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).
//
// SOURCE: 1 for the pass by source, 0 for the others. GENERAL: 1 if there are attributes or heads do not start at multiples of 16
// bytes. THREADS, LANES, CHUNKS, UNROLL, WIDE as in head_tasks.cuh.
#include "gat.cuh"

struct GatArgs : GatFamilyArgs {
    const feature* z;
    const float* source;
    const float* destination;
    feature* grad_z;
    float* grad_source;
    float* grad_destination;
    float* score_partials;
    u32 score_stride;  // of source, destination and their gradients
    u32 padding;
};

// What the edge at `position` adds to a score.
__device__ __forceinline__ float score_of_attributes(const GatArgs& p, u32 position, u32 head) {
    float sum = 0.0f;
#if GENERAL
    if (p.attr) {
        const float* attributes = attributes_at(p, position);
        const float* weight = p.weight + (u64)head * p.weight_stride;
        for (u32 d = 0; d < p.attributes; d++) {
            sum = fmaf(attributes[d], weight[d], sum);
        }
    }
#endif
    return sum;
}

// The sum of the scores of both ends and of the edge at `step`, of which `other` is the one that is not the row's.
__device__ __forceinline__ float sum_at_edge(const GatArgs& p, const HeadTask& work, u32 step, float own, const float* others, u32 head) {
    const u32 edge = edge_at(work.task, step);
    const u32 other = p.graph.columns[edge];
    float sum = own + others[(u64)other * p.score_stride + head];
#if GENERAL
    sum += score_of_attributes(p, p.graph.positions && p.attr ? p.graph.positions[edge] : edge, head);
#endif
    return sum;
}

__device__ __forceinline__ float slope_at(const GatArgs& p, float sum) {
    return sum > 0.0f ? 1.0f : p.slope;
}

__device__ __forceinline__ float score_of(const GatArgs& p, float sum) {
    return LOG2_E * slope_at(p, sum) * sum;
}

// The lane's sums of t, over the lanes that have shares.
__device__ __forceinline__ float sum_over_shares(float value) {
    return sum_over_lanes(value, SHARES::AMONG);
}

// Stores the sum of t of a row, or of a segment. Lanes of a head hold it together; one stores it.
__device__ __forceinline__ void store_score_grad(const GatArgs& p, const Work& work, float* matrix, float sum) {
    if (!work.mine || work.lane != 0 || work.first_chunk != 0) {
        return;
    }
    if (work.task.partial != NO_EDGE) {
        p.score_partials[(u64)work.task.partial * p.heads + work.head] = sum;
    } else {
        matrix[(u64)work.task.row * p.score_stride + work.head] = work.count > 0 ? sum : 0.0f;
    }
}

// The same for a heavy row, by the thread of the head's first chunk.
__device__ __forceinline__ void merge_score_grad(const GatArgs& p, const HeavyChunk& at, float* matrix) {
    if (at.chunk != 0) {
        return;
    }
    float sum = 0.0f;
    for (u32 s = at.heavy[1]; s < at.heavy[2]; s++) {
        sum += p.score_partials[(u64)s * p.heads + at.head];
    }
    matrix[(u64)at.heavy[0] * p.score_stride + at.head] = sum;
}

#if WIDE
// This lane's share of <g_i, z_j> over all chunks of the head.
__device__ __forceinline__ float product(const GatArgs& p, const Work& work, u32 i, u32 j) {
    float sum = 0.0f;
#pragma unroll 1
    for (u32 chunk = work.lane; chunk < p.head_chunks; chunk += LANES) {
        const Slot slot = slot_of(p, work.head, chunk);
        sum = add_dot(sum, load_features(p, p.g, i, slot), load_features(p, p.z, j, slot));
    }
    return sum;
}
#endif

#if !SOURCE

KERNEL_OF_WARPS(gat_forward, GatArgs, FORWARD_WARPS) {
    const Work work = find_work(p);
    const feature* z = from_lane(p.z, work);
    const u32 head = some_head(p, work);
    const float own = p.destination[(u64)work.task.row * p.score_stride + head];
    Chunk sum[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        sum[r] = chunk_of(0.0f);
    }
    const DropoutKey key = key_of(p);
    Softmax softmax = no_edges();
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Packed values[UNROLL][CHUNKS];
            float scores[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    values[u][r] = gather(p, work, z, edges.columns[u], r);
                }
            }
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                scores[o] = score_of(p, sum_at_edge(p, work, step + edge_of_share<UNROLL, LANES>(o), own, p.source, head));
            }
            edges = find_edges(p, work, step + UNROLL);
            const float decay = weigh_scores(p, key, work, step, softmax, scores);
#pragma unroll
            for (int r = 0; r < CHUNKS; r++) {
                sum[r] = scaled(sum[r], decay);
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    add_scaled(sum[r], scores[u], unpacked(values[u][r]));
                }
            }
        }
    }
    store_output(p, work, softmax, sum);
}

KERNEL(gat_merge, GatArgs, THREADS) {
    merge_output(p);
}

// Adds to the gradient of an edge's attributes what the heads of this pass give: t w.
__device__ __forceinline__ void add_attributes(const GatArgs& p, const Work& work, u32 step, float t, u32 head) {
    const float* weight = p.weight + (u64)head * p.weight_stride;
    float* to = (float*)((char*)p.grad_attr + (u64)(work.task.first + step) * p.attr_bytes);
    for (u32 d = 0; d < p.attributes; d++) {
        const float sum = sum_over_lanes(work.lane == 0 && work.head < p.heads ? t * weight[d] : 0.0f, p.lanes);
        if (step < work.count && (threadIdx.x & (p.lanes - 1)) == 0) {
            to[d] = p.first_pass == 0 ? sum : to[d] + sum;
        }
    }
}

KERNEL_OF_WARPS(gat_by_destination, GatArgs, WARPS) {
    const Work work = find_work(p);
    // All parts of a head's channels give the same sums.
    if (work.first_chunk != 0) {
        return;
    }
    const feature* z = from_lane(p.z, work);
    const u32 head = some_head(p, work);
    const float own = p.destination[(u64)work.task.row * p.score_stride + head];
    Chunk g[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        g[r] = load_features(p, p.g, work.task.row, work.slots[r]);
    }
    const float2 numbers = find_numbers(p, work);
    const DropoutKey key = key_of(p);
    float sum = 0.0f;
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            float along[UNROLL];
#if WIDE
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                along[u] = product(p, work, work.task.row, edges.columns[u]);
            }
#else
            Packed values[UNROLL][CHUNKS];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    values[u][r] = gather(p, work, z, edges.columns[u], r);
                }
            }
#endif
            edges = find_edges(p, work, step + UNROLL);
            float sums[SHARES::OWN];
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                sums[o] = sum_at_edge(p, work, step + edge_of_share<UNROLL, LANES>(o), own, p.source, head);
            }
#if !WIDE
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                along[u] = 0.0f;
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    along[u] = add_dot(along[u], g[r], unpacked(values[u][r]));
                }
            }
#endif
            sum_shares<UNROLL, LANES>(along);
            float by_score[SHARES::OWN];
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 at = step + edge_of_share<UNROLL, LANES>(o);
                const EdgeGrad grad = edge_grad(p, key, work, at, score_of(p, sums[o]), along[o], numbers.x, numbers.y);
                by_score[o] = slope_at(p, sums[o]) * grad.by_score;
                sum += by_score[o];
            }
#if GENERAL
            if (p.grad_attr) {
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    add_attributes(p, work, step + u, from_share<UNROLL, LANES>(by_score, u), head);
                }
            }
#endif
        }
    }
    store_score_grad(p, work, p.grad_destination, sum_over_shares(sum));
}

KERNEL(gat_merge_by_destination, GatArgs, THREADS) {
    HeavyChunk at;
    if (find_heavy(p, at)) {
        merge_score_grad(p, at, p.grad_destination);
    }
}

// Each lane of a head sums the gradient of one column of the weight.
KERNEL(gat_weight, GatArgs, THREADS) {
    const RangeWork work = find_range(p);
    if (work.first_chunk != 0) {
        return;
    }
    const DropoutKey key = key_of(p);
    const u32 head = some_head(p, work);
    const u32 column = work.tile * LANES + work.lane;
    float total = 0.0f;
    for (u32 step = 0; step < work.most; step++) {
        const u32 edge = edge_at(work.task, step);
        const u32 i = p.rows[edge];
        const u32 j = p.graph.columns[edge];
        float along = 0.0f;
    #pragma unroll 1
    for (u32 chunk = work.lane; chunk < p.head_chunks; chunk += LANES) {
            const Slot slot = slot_of(p, work.head, chunk);
            along = add_dot(along, load_features(p, p.g, i, slot), load_features(p, p.z, j, slot));
        }
        along = sum_over_lanes(along, LANES);
        const float own = p.destination[(u64)i * p.score_stride + head];
        const float sum = sum_at_edge(p, work, step, own, p.source, head);
        const float2 numbers = p.numbers[(u64)i * p.heads + head];
        const EdgeGrad grad = edge_grad(p, key, work, step, score_of(p, sum), along, numbers.x, numbers.y);
        const float attribute = column < p.attributes ? attributes_at(p, edge)[column] : 0.0f;
        total = fmaf(slope_at(p, sum) * grad.by_score, attribute, total);
    }
    const float sum = sum_over_groups(p, total);
    if (threadIdx.x < p.lanes && work.head < p.heads && column < p.attributes) {
        p.grad_weight[(u64)work.range * p.grad_weight_stride + work.head * p.weight_stride + column] = sum;
    }
}

#else

// Over the transpose, rows being sources.
KERNEL_OF_WARPS(gat_by_source, GatArgs, WARPS) {
    const Work work = find_work(p);
    const feature* own_g = from_lane(p.g, work);
    const u32 head = some_head(p, work);
    const float own_score = p.source[(u64)work.task.row * p.score_stride + head];
    Chunk own[CHUNKS];
    Chunk passed[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        own[r] = load_features(p, p.z, work.task.row, work.slots[r]);
        passed[r] = chunk_of(0.0f);
    }
    const DropoutKey key = key_of(p);
    float sum = 0.0f;
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Packed gs[UNROLL][CHUNKS];
            float2 numbers[SHARES::OWN];
            float sums[SHARES::OWN];
            float along[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    gs[u][r] = gather(p, work, own_g, edges.columns[u], r);
                }
            }
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 at = step + edge_of_share<UNROLL, LANES>(o);
                numbers[o] = p.numbers[(u64)p.graph.columns[edge_at(work.task, at)] * p.heads + head];
                sums[o] = sum_at_edge(p, work, at, own_score, p.destination, head);
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                along[u] = 0.0f;
#if WIDE
                along[u] = product(p, work, edges.columns[u], work.task.row);
#else
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    along[u] = add_dot(along[u], own[r], unpacked(gs[u][r]));
                }
#endif
            }
            edges = find_edges(p, work, step + UNROLL);
            sum_shares<UNROLL, LANES>(along);
            float by_value[SHARES::OWN];
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 at = step + edge_of_share<UNROLL, LANES>(o);
                const EdgeGrad grad = edge_grad(p, key, work, at, score_of(p, sums[o]), along[o], numbers[o].x, numbers[o].y);
                by_value[o] = grad.by_value;
                sum = fmaf(slope_at(p, sums[o]), grad.by_score, sum);
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const float weight = from_share<UNROLL, LANES>(by_value, u);
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    add_scaled(passed[r], weight, unpacked(gs[u][r]));
                }
            }
        }
    }
    store_score_grad(p, work, p.grad_source, sum_over_shares(sum));
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        store_features(p, work, p.grad_z, p.partials, r, passed[r]);
    }
}

KERNEL(gat_merge_by_source, GatArgs, THREADS) {
    HeavyChunk at;
    if (find_heavy(p, at)) {
        merge_score_grad(p, at, p.grad_source);
        merge_gradient(p, at, p.grad_z);
    }
}

#endif
