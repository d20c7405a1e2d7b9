// Attention of GATv2: for the edge of attributes e from j to i and each head, u = l_j + r_i + W e,
// s = sum over channels of att leaky(u), a the softmax of s over the edges into i, h_i = sum of a m l_j, m the dropout's factor.
// Gradients: d = a (m <g_i, l_j> - <g_i, h_i>), t = d att leaky'(u),
//   grad_r_i = sum of t over the edges into i, grad_att_i = sum of d leaky(u), grad_l_j = sum of a m g_i + t over the edges out of j,
//   grad_attr = W^T t of every edge, grad_weight = sum of t e^T over ranges of edges.
//
//   l, grad_l [num_src, heads * channels] features; r, g, h, grad_r [num_dst, heads * channels]; grad_att [num_dst, heads * channels] floats
//   att [heads * channels] floats; weight [heads * channels, attributes]; attr, grad_attr [edges, attributes]
//   grad_weight [ranges, heads * channels * weight_stride] floats; logsumexp [num_dst, heads] floats
//   numbers [num_dst, heads] pairs for the gradients: logsumexp in units of log 2, and <g_ih, h_ih>
//   partials [num_segments, heads, head_chunks * CHUNK] floats: sums of the segments of heavy rows, merged in order (second_partials for
//   grad_att); statistics [num_segments, heads] pairs: the softmax of each
//
// head_tasks.cuh tells how rows are shared out. leaky(u) is computed as (1 + slope) / 2 u + (1 - slope) / 2 |u|, two instructions of
// a multiplication with att and an addition each. Ranges of edges have a block, whose groups of lanes have a part each.
//
// Bytes an edge, F = heads * channels features: forward 4 + F, by destination 4 + F, by source 4 + 2 F + 8 heads; attributes on top.
// Sources: "How Attentive are Graph Attention Networks?" (Brody, Alon, Yahav, ICLR 2022); softmax kept per node after "On Efficient Scaling
// of GNNs via IO-Aware Layers Implementations" (ICML 2026) and "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).
//
// SOURCE: 1 for the pass by source, 0 for the others. GENERAL: 1 if there are attributes or heads do not start at multiples of 16
// bytes. THREADS, LANES, CHUNKS, UNROLL, WIDE as in head_tasks.cuh.
#include "gat.cuh"

struct Gatv2Args : GatFamilyArgs {
    const feature* l;
    const feature* r;
    const float* att;
    feature* grad_l;
    feature* grad_r;
    float* grad_att;
    float* second_partials;
    u32 grad_att_stride;
    float linear;    // what <att, u> and <att, |u|> are multiplied with for a score in units of log 2
    float absolute;
    u32 padding;
};

// Whether a lane's part of a row leaves few registers: then some numbers are read again rather than kept, and attributes one by one.
#define MUCH (GENERAL && CHUNK * CHUNKS >= 16)

__device__ __forceinline__ Chunk load_att(const Gatv2Args& p, const Slot& slot) {
#if GENERAL
    Chunk chunk;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        chunk.v[c] = c < slot.count ? p.att[slot.at + c] : 0.0f;
    }
    return chunk;
#else
    return slot.count > 0 ? load_floats(p.att + slot.at) : chunk_of(0.0f);
#endif
}

// <att, u> and <att, |u|>, of which a score is made.
struct Score {
    float linear;
    float absolute;
};

__device__ __forceinline__ void add_score(Score& score, const Chunk& att, const Chunk& u) {
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        score.linear = fmaf(att.v[c], u.v[c], score.linear);
        score.absolute = fmaf(att.v[c], fabsf(u.v[c]), score.absolute);
    }
}

// In units of log 2.
__device__ __forceinline__ float score_of(const Gatv2Args& p, const Score& score) {
    return fmaf(p.linear, score.linear, p.absolute * score.absolute);
}

// `value` leaky'(u) for each channel, `below` being `value` times the slope.
__device__ __forceinline__ Chunk along_slope(const Chunk& u, float value, float below) {
    Chunk chunk;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        chunk.v[c] = u.v[c] > 0.0f ? value : below;
    }
    return chunk;
}

// u for a chunk of l and one of r.
__device__ __forceinline__ Chunk sum_at_edge(const Gatv2Args& p, const Chunk& l, const Chunk& r, u32 position, const Slot& slot) {
    Chunk u = l;
    add(u, r);
#if GENERAL
    if (p.attr) {
        const float* attributes = attributes_at(p, position);
        const float* weight = p.weight + (u64)slot.at * p.weight_stride;
#pragma unroll(MUCH ? 1 : 4)
        for (u32 d = 0; d < p.attributes; d++) {
            const float attribute = attributes[d];
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                u.v[c] = c < slot.count ? fmaf(attribute, weight[c * p.weight_stride + d], u.v[c]) : 0.0f;
            }
        }
    }
#endif
    return u;
}

// This lane's share of the score and, where `values`, of <g_i, l_j>, over all chunks of the head.
__device__ __forceinline__ float2 products(const Gatv2Args& p, const Work& work, u32 i, u32 j, u32 position, bool values) {
    Score score = {0.0f, 0.0f};
    float along = 0.0f;
#pragma unroll 1
    for (u32 chunk = work.lane; chunk < p.head_chunks; chunk += LANES) {
        const Slot slot = slot_of(p, work.head, chunk);
        const Chunk l = load_features(p, p.l, j, slot);
        add_score(score, load_att(p, slot), sum_at_edge(p, l, load_features(p, p.r, i, slot), position, slot));
        if (values) {
            along = add_dot(along, load_features(p, p.g, i, slot), l);
        }
    }
    return make_float2(score_of(p, score), along);
}

// u of the edges in flight, which is needed once more when their gradients are known. Kept only where attributes are in it: else it is
// one addition, and keeping the row takes no more registers, of halves fewer.
struct Sums {
#if GENERAL
    Chunk of[UNROLL][CHUNKS];
#endif
};

__device__ __forceinline__ void keep_sum(Sums& sums, int u, int r, const Chunk& sum) {
#if GENERAL
    sums.of[u][r] = sum;
#endif
}

__device__ __forceinline__ Chunk kept_sum(const Sums& sums, int u, int r, const Packed& row, const Chunk& own) {
#if GENERAL
    return sums.of[u][r];
#else
    Chunk sum = unpacked(row);
    add(sum, own);
    return sum;
#endif
}

#if !SOURCE

KERNEL_OF_WARPS(gatv2_forward, Gatv2Args, FORWARD_WARPS) {
    const Work work = find_work(p);
    const feature* l = from_lane(p.l, work);
    Chunk own[CHUNKS];
    Chunk att[CHUNKS];
    Chunk sum[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
#if !WIDE
        own[r] = load_features(p, p.r, work.task.row, work.slots[r]);
        att[r] = load_att(p, work.slots[r]);
#endif
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
                    values[u][r] = gather(p, work, l, edges.columns[u], r);
                }
            }
            const Edges these = edges;
            edges = find_edges(p, work, step + UNROLL);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#if WIDE
                scores[u] = products(p, work, work.task.row, these.columns[u], these.positions[u], false).x;
#else
                Score score = {0.0f, 0.0f};
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    add_score(score, att[r], sum_at_edge(p, unpacked(values[u][r]), own[r], these.positions[u], work.slots[r]));
                }
                scores[u] = score_of(p, score);
#endif
            }
            sum_shares<UNROLL, LANES>(scores);
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

KERNEL(gatv2_merge, Gatv2Args, THREADS) {
    merge_output(p);
}

// Adds to the gradient of an edge's attributes what the heads of this pass give: W^T t.
__device__ __forceinline__ void add_attributes(const Gatv2Args& p, const Work& work, u32 step, const Chunk (&t)[CHUNKS]) {
    float* to = (float*)((char*)p.grad_attr + (u64)(work.task.first + step) * p.attr_bytes);
    for (u32 column = 0; column < p.attributes; column++) {
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < CHUNKS; r++) {
            const float* weight = p.weight + (u64)work.slots[r].at * p.weight_stride + column;
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                sum = c < work.slots[r].count ? fmaf(t[r].v[c], weight[c * p.weight_stride], sum) : sum;
            }
        }
        sum = sum_over_lanes(sum, p.lanes);
        if (step < work.count && (threadIdx.x & (p.lanes - 1)) == 0) {
            to[column] = p.first_pass == 0 ? sum : to[column] + sum;
        }
    }
}

KERNEL_OF_WARPS(gatv2_by_destination, Gatv2Args, WARPS) {
    const Work work = find_work(p);
    const feature* l = from_lane(p.l, work);
    Chunk own[CHUNKS];
    Chunk g[CHUNKS];
    Chunk att[CHUNKS];
    Chunk slopes[CHUNKS];
    Chunk leaky[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        own[r] = load_features(p, p.r, work.task.row, work.slots[r]);
#if !WIDE
        g[r] = load_features(p, p.g, work.task.row, work.slots[r]);
        att[r] = load_att(p, work.slots[r]);
#endif
        slopes[r] = chunk_of(0.0f);
        leaky[r] = chunk_of(0.0f);
    }
    const float2 numbers = find_numbers(p, work);
    const DropoutKey key = key_of(p);
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Packed rows[UNROLL][CHUNKS];
            Sums sums;
            float scores[UNROLL];
            float along[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    rows[u][r] = gather(p, work, l, edges.columns[u], r);
                }
            }
            const Edges these = edges;
            edges = find_edges(p, work, step + UNROLL);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                Score score = {0.0f, 0.0f};
                along[u] = 0.0f;
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    const Chunk row = unpacked(rows[u][r]);
                    const Chunk r_i = MUCH ? load_features(p, p.r, work.task.row, work.slots[r]) : own[r];
                    const Chunk sum = sum_at_edge(p, row, r_i, these.positions[u], work.slots[r]);
                    keep_sum(sums, u, r, sum);
#if !WIDE
                    add_score(score, att[r], sum);
                    along[u] = add_dot(along[u], MUCH ? load_features(p, p.g, work.task.row, work.slots[r]) : g[r], row);
#endif
                }
                scores[u] = score_of(p, score);
#if WIDE
                const float2 both = products(p, work, work.task.row, these.columns[u], these.positions[u], true);
                scores[u] = both.x;
                along[u] = both.y;
#endif
            }
            sum_shares<UNROLL, LANES>(scores);
            sum_shares<UNROLL, LANES>(along);
            float by_score[SHARES::OWN];
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 at = step + edge_of_share<UNROLL, LANES>(o);
                by_score[o] = edge_grad(p, key, work, at, scores[o], along[o], numbers.x, numbers.y).by_score;
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const float d = from_share<UNROLL, LANES>(by_score, u);
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    const Chunk sum = kept_sum(sums, u, r, rows[u][r], own[r]);
                    const Chunk part = along_slope(sum, d, d * p.slope);
#pragma unroll
                    for (int c = 0; c < CHUNK; c++) {
                        slopes[r].v[c] += part.v[c];
                        leaky[r].v[c] = fmaf(part.v[c], sum.v[c], leaky[r].v[c]);
                    }
                }
#if GENERAL
                if (p.grad_attr) {
#pragma unroll
                    for (int r = 0; r < CHUNKS; r++) {
                        const Chunk part = along_slope(sums.of[u][r], d, d * p.slope);
                        sums.of[u][r] = load_att(p, work.slots[r]);
#pragma unroll
                        for (int c = 0; c < CHUNK; c++) {
                            sums.of[u][r].v[c] *= part.v[c];
                        }
                    }
                    add_attributes(p, work, step + u, sums.of[u]);
                }
#endif
            }
        }
    }
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        const Slot& slot = work.slots[r];
        Chunk grad = WIDE || MUCH ? load_att(p, slot) : att[r];
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            grad.v[c] *= slopes[r].v[c];
        }
        store_features(p, work, p.grad_r, p.partials, r, grad);
        if (!work.mine || slot.count == 0) {
            continue;
        }
        if (work.task.partial != NO_EDGE) {
            const u32 chunk = work.first_chunk + work.lane + r * LANES;
            store_floats(p.second_partials + partial_at(p, work.task.partial, work.head, chunk), leaky[r]);
        } else {
            store_sums(p, slot, p.grad_att, work.task.row, p.grad_att_stride, over_edges(work, leaky[r]));
        }
    }
}

KERNEL(gatv2_merge_by_destination, Gatv2Args, THREADS) {
    HeavyChunk at;
    if (!find_heavy(p, at)) {
        return;
    }
    merge_gradient(p, at, p.grad_r);
    const Slot slot = slot_of(p, at.head, at.chunk);
    store_sums(p, slot, p.grad_att, at.heavy[0], p.grad_att_stride, sum_of_segments(p, p.second_partials, at));
}

// Attributes of the weight whose gradients a thread sums at once.
#define TILE 4

KERNEL(gatv2_weight, Gatv2Args, THREADS) {
    const RangeWork work = find_range(p);
    const DropoutKey key = key_of(p);
    Chunk sums[CHUNKS][TILE];
    Chunk att[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        att[r] = load_att(p, work.slots[r]);
#pragma unroll
        for (int t = 0; t < TILE; t++) {
            sums[r][t] = chunk_of(0.0f);
        }
    }
    for (u32 step = 0; step < work.most; step++) {
        const u32 edge = edge_at(work.task, step);
        const u32 i = p.rows[edge];
        const u32 j = p.graph.columns[edge];
        const float2 both = products(p, work, i, j, edge, true);
        const float score = sum_over_lanes(both.x, LANES);
        const float along = sum_over_lanes(both.y, LANES);
        const float2 numbers = p.numbers[(u64)i * p.heads + some_head(p, work)];
        const float d = edge_grad(p, key, work, step, score, along, numbers.x, numbers.y).by_score;
#pragma unroll
        for (int r = 0; r < CHUNKS; r++) {
            const Slot& slot = work.slots[r];
            const Chunk u = sum_at_edge(p, load_features(p, p.l, j, slot), load_features(p, p.r, i, slot), edge, slot);
            Chunk grad = along_slope(u, d, d * p.slope);
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                grad.v[c] *= att[r].v[c];
            }
#pragma unroll
            for (int t = 0; t < TILE; t++) {
                const u32 column = work.tile * TILE + t;
                add_scaled(sums[r][t], column < p.attributes ? attributes_at(p, edge)[column] : 0.0f, grad);
            }
        }
    }
    float* to = p.grad_weight + (u64)work.range * p.grad_weight_stride;
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
#pragma unroll
            for (int t = 0; t < TILE; t++) {
                const u32 column = work.tile * TILE + t;
                const float sum = sum_over_groups(p, sums[r][t].v[c]);
                if (threadIdx.x < p.lanes && c < work.slots[r].count && column < p.attributes) {
                    to[(u64)(work.slots[r].at + c) * p.weight_stride + column] = sum;
                }
            }
        }
    }
}

#else

// Over the transpose, rows being sources.
KERNEL_OF_WARPS(gatv2_by_source, Gatv2Args, WARPS) {
    const Work work = find_work(p);
    const feature* own_r = from_lane(p.r, work);
    const feature* own_g = from_lane(p.g, work);
    Chunk own[CHUNKS];
    Chunk att[CHUNKS];
    Chunk passed[CHUNKS];
    Chunk slopes[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        own[r] = load_features(p, p.l, work.task.row, work.slots[r]);
#if !WIDE
        att[r] = load_att(p, work.slots[r]);
#endif
        passed[r] = chunk_of(0.0f);
        slopes[r] = chunk_of(0.0f);
    }
    const DropoutKey key = key_of(p);
    const u32 head = some_head(p, work);
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Packed rows[UNROLL][CHUNKS];
            Packed gs[UNROLL][CHUNKS];
            Sums sums;
            float2 numbers[SHARES::OWN];
            float scores[UNROLL];
            float along[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    rows[u][r] = gather(p, work, own_r, edges.columns[u], r);
                    gs[u][r] = gather(p, work, own_g, edges.columns[u], r);
                }
            }
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 column = p.graph.columns[edge_at(work.task, step + edge_of_share<UNROLL, LANES>(o))];
                numbers[o] = p.numbers[(u64)column * p.heads + head];
            }
            const Edges these = edges;
            edges = find_edges(p, work, step + UNROLL);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                Score score = {0.0f, 0.0f};
                along[u] = 0.0f;
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    const Chunk sum = sum_at_edge(p, unpacked(rows[u][r]), own[r], these.positions[u], work.slots[r]);
                    keep_sum(sums, u, r, sum);
#if !WIDE
                    add_score(score, att[r], sum);
                    along[u] = add_dot(along[u], own[r], unpacked(gs[u][r]));
#endif
                }
                scores[u] = score_of(p, score);
#if WIDE
                const float2 both = products(p, work, these.columns[u], work.task.row, these.positions[u], true);
                scores[u] = both.x;
                along[u] = both.y;
#endif
            }
            sum_shares<UNROLL, LANES>(scores);
            sum_shares<UNROLL, LANES>(along);
            float by_score[SHARES::OWN];
            float by_value[SHARES::OWN];
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 at = step + edge_of_share<UNROLL, LANES>(o);
                const EdgeGrad grad = edge_grad(p, key, work, at, scores[o], along[o], numbers[o].x, numbers[o].y);
                by_value[o] = grad.by_value;
                by_score[o] = grad.by_score;
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const float d = from_share<UNROLL, LANES>(by_score, u);
                const float weight = from_share<UNROLL, LANES>(by_value, u);
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    add_scaled(passed[r], weight, unpacked(gs[u][r]));
                    add(slopes[r], along_slope(kept_sum(sums, u, r, rows[u][r], own[r]), d, d * p.slope));
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        const Chunk own_att = load_att(p, work.slots[r]);
#pragma unroll
        for (int c = 0; c < CHUNK; c++) {
            passed[r].v[c] = fmaf(own_att.v[c], slopes[r].v[c], passed[r].v[c]);
        }
        store_features(p, work, p.grad_l, p.partials, r, passed[r]);
    }
}

KERNEL(gatv2_merge_by_source, Gatv2Args, THREADS) {
    HeavyChunk at;
    if (find_heavy(p, at)) {
        merge_gradient(p, at, p.grad_l);
    }
}

#endif
