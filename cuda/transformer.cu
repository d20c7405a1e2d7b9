// Attention of graph transformers: with K = (k_j, e) and V = (v_j, e) for the edge of attributes e from j to i,
// out_ih = sum of a m V, a the softmax of <q_ih, K> / sqrt(channels) over the edges into i, m the dropout's factor; and its gradients.
//
//   q, g, out, grad_q [num_dst, heads * (channels + attributes)] features; k, v, grad_k, grad_v [num_src, heads * channels]
//   attr, grad_attr [edges, attributes] floats; logsumexp [num_dst, heads] floats
//   numbers [num_dst, heads] pairs for the gradients: logsumexp in units of log 2, and <g_ih, out_ih>
//   partials [num_segments, heads, head_chunks * CHUNK] floats: sums of the segments of heavy rows, merged in order (two such arrays
//   by source); statistics [num_segments, heads] pairs: the softmax of each
//
// head_tasks.cuh tells how rows are shared out: a head's chunks are those of its channels, then those of the attributes.
//
// Bytes an edge, F = heads * channels: forward 4 + 2 F, by destination 4 + 2 F, by source 4 + 2 F + 8 heads; attributes on top of each,
// as often as there are passes. Sources: "Masked Label Prediction" (Shi et al., IJCAI 2021); softmax kept per node after "On Efficient
// Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026) and "Online normalizer calculation for softmax" (Milakov, Gimelshein, 2018).
//
// SOURCE: 1 for the pass by source, 0 for the others. GENERAL: 1 if there are attributes or heads do not start at multiples of 16
// bytes. THREADS, LANES, CHUNKS, UNROLL, WIDE as in head_tasks.cuh.
#include "head_tasks.cuh"

struct TransformerArgs : AttentionArgs {
    const feature* q;
    const feature* k;
    const feature* v;
    feature* out;
    feature* grad_q;
    feature* grad_k;
    feature* grad_v;
    float* second_partials;
    u32 wide_bytes;  // from a row of q to the next
    u32 node_bytes;  // of k
    u32 node_chunks;  // chunks of a head's channels, which the attributes' follow
    u32 wide_aligned;  // whether a head's chunks start at multiples of 16 bytes, in q and in k
    u32 node_aligned;
    float factor;  // 1 / sqrt(channels)
};

// A chunk of a head: `at` in a row of q.
struct MessageSlot : Slot {
    u32 node;  // where it starts in a row of k, or of the attributes
    bool attribute;
};

typedef Slots<MessageSlot> Work;

__device__ __forceinline__ MessageSlot slot_of(const TransformerArgs& p, u32 head, u32 chunk) {
    MessageSlot slot;
#if GENERAL
    slot.attribute = chunk >= p.node_chunks;
    const u32 first = slot.attribute ? (chunk - p.node_chunks) * CHUNK : chunk * CHUNK;
    const u32 all = slot.attribute ? p.attributes : p.channels;
    slot.at = head * (p.channels + p.attributes) + (slot.attribute ? p.channels : 0) + first;
    slot.node = slot.attribute ? first : head * p.channels + first;
    slot.count = head < p.heads && chunk < p.head_chunks ? min(all - first, (u32)CHUNK) : 0;
#else
    slot.attribute = false;
    slot.count = head < p.heads && chunk < p.node_chunks ? CHUNK : 0;
    slot.at = (head * p.node_chunks + chunk) * CHUNK;
    slot.node = slot.at;
#endif
    return slot;
}

__device__ __forceinline__ Chunk load_wide(const TransformerArgs& p, const feature* matrix, u32 row, const MessageSlot& slot) {
    return unpacked(load_slot(row_of(matrix, row, p.wide_bytes) + slot.at, slot.count, p.wide_aligned));
}

__device__ __forceinline__ Chunk load_attributes(const TransformerArgs& p, u32 position, const MessageSlot& slot) {
    const float* at = (const float*)((const char*)p.attr + (u64)position * p.attr_bytes) + slot.node;
    Chunk chunk;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        chunk.v[c] = c < slot.count ? at[c] : 0.0f;
    }
    return chunk;
}

__device__ __forceinline__ Chunk load_node(const TransformerArgs& p, const feature* matrix, u32 row, const MessageSlot& slot) {
    return unpacked(load_slot(row_of(matrix, row, p.node_bytes) + slot.node, slot.count, p.node_aligned));
}

// Of a key or value: the chunk of the source's row, or of the attributes of the edge at `position` of edge order.
__device__ __forceinline__ Chunk load_message(const TransformerArgs& p, const feature* matrix, u32 row, u32 position, const MessageSlot& slot) {
#if GENERAL
    if (slot.attribute) {
        return load_attributes(p, position, slot);
    }
#endif
    return load_node(p, matrix, row, slot);
}

// A chunk of a key or value in flight. Attributes are floats.
#if GENERAL
typedef Chunk Message;
#else
typedef Packed Message;
#endif

__device__ __forceinline__ Message gather_message(const TransformerArgs& p, const Work& work, const feature* from, u32 row, u32 position, int r) {
#if GENERAL
    return load_message(p, from, row, position, work.slots[r]);
#else
    return gather_slot(work, from, row, p.node_bytes, work.slots[r].node, p.node_aligned, r);
#endif
}

__device__ __forceinline__ Chunk floats_of(const Message& message) {
#if GENERAL
    return message;
#else
    return unpacked(message);
#endif
}

__device__ __forceinline__ Packed gather_wide(const TransformerArgs& p, const Work& work, const feature* from, u32 row, int r) {
    return gather_slot(work, from, row, p.wide_bytes, work.slots[r].at, p.wide_aligned, r);
}

#if WIDE
// This lane's share of <q_i, K> and, where `values`, of <g_i, V>, over all chunks of the head.
__device__ __forceinline__ float2 products(const TransformerArgs& p, const Work& work, u32 i, u32 j, u32 position, bool values) {
    float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll 1
    for (u32 chunk = work.lane; chunk < p.head_chunks; chunk += LANES) {
        const MessageSlot slot = slot_of(p, work.head, chunk);
        sums.x = add_dot(sums.x, load_wide(p, p.q, i, slot), load_message(p, p.k, j, position, slot));
        if (values) {
            sums.y = add_dot(sums.y, load_wide(p, p.g, i, slot), load_message(p, p.v, j, position, slot));
        }
    }
    return sums;
}
#endif

#if !SOURCE

KERNEL_OF_WARPS(transformer_forward, TransformerArgs, FORWARD_WARPS) {
    const Work work = find_work(p);
    const Task& task = work.task;
    const feature* k = from_lane(p.k, work);
    const feature* v = from_lane(p.v, work);
    const float log2_factor = p.factor * LOG2_E;
    Chunk query[CHUNKS];
    Chunk sum[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        query[r] = WIDE ? chunk_of(0.0f) : scaled(load_wide(p, p.q, task.row, work.slots[r]), log2_factor);
        sum[r] = chunk_of(0.0f);
    }
    const DropoutKey key = key_of(p);
    Softmax softmax = no_edges();
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Message values[UNROLL][CHUNKS];
            float scores[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                scores[u] = 0.0f;
#if WIDE
                scores[u] = log2_factor * products(p, work, task.row, edges.columns[u], edges.positions[u], false).x;
#endif
            }
#if !WIDE
            Message keys[UNROLL][CHUNKS];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    keys[u][r] = gather_message(p, work, k, edges.columns[u], edges.positions[u], r);
                }
            }
#endif
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    values[u][r] = gather_message(p, work, v, edges.columns[u], edges.positions[u], r);
                }
            }
            edges = find_edges(p, work, step + UNROLL);
#if !WIDE
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    scores[u] = add_dot(scores[u], query[r], floats_of(keys[u][r]));
                }
            }
#endif
            sum_shares<UNROLL, LANES>(scores);
            const float decay = weigh_scores(p, key, work, step, softmax, scores);
#pragma unroll
            for (int r = 0; r < CHUNKS; r++) {
                sum[r] = scaled(sum[r], decay);
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    add_scaled(sum[r], scores[u], floats_of(values[u][r]));
                }
            }
        }
    }
    if (!work.mine) {
        return;
    }
    const bool any = work.count > 0;
    const bool first = work.lane == 0 && work.first_chunk == 0;
    if (task.partial != NO_EDGE) {
#pragma unroll
        for (int r = 0; r < CHUNKS; r++) {
            if (work.slots[r].count > 0) {
                const u32 chunk = work.first_chunk + work.lane + r * LANES;
                store_floats(p.partials + partial_at(p, task.partial, work.head, chunk), sum[r]);
            }
        }
        if (first) {
            p.statistics[(u64)task.partial * p.heads + work.head] = make_float2(softmax.top, softmax.total);
        }
        return;
    }
    feature* out = (feature*)row_of(p.out, task.row, p.wide_bytes);
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        const MessageSlot& slot = work.slots[r];
        if (slot.count > 0) {
            store_slot(out + slot.at, over_edges(work, output_of(p, softmax, sum[r])), slot.count, p.wide_aligned);
        }
    }
    if (first) {
        p.logsumexp[(u64)task.row * p.logsumexp_stride + work.head] = logsumexp_of(softmax, any);
    }
}

// Segments merge by their softmaxes.
KERNEL(transformer_merge, TransformerArgs, THREADS) {
    HeavyChunk at;
    if (!find_heavy(p, at)) {
        return;
    }
    Softmax softmax;
    const Chunk sum = merge_softmaxes(p, at, softmax);
    const u32 row = at.heavy[0];
    const MessageSlot slot = slot_of(p, at.head, at.chunk);
    store_slot((feature*)row_of(p.out, row, p.wide_bytes) + slot.at, sum, slot.count, p.wide_aligned);
    if (at.chunk == 0) {
        p.logsumexp[(u64)row * p.logsumexp_stride + at.head] = logsumexp_of(softmax, true);
    }
}

// Adds to the gradient of attributes what the heads of this pass give for an edge: `by_score` q + `by_value` g.
__device__ __forceinline__ void add_attributes(
    const TransformerArgs& p, const Work& work, u32 step, float by_score, float by_value, const Chunk (&query)[CHUNKS], const Chunk (&g)[CHUNKS]
) {
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        const MessageSlot& slot = work.slots[r];
        Chunk sum = chunk_of(0.0f);
        if (slot.attribute && work.head < p.heads) {
            add_scaled(sum, by_score, query[r]);
            add_scaled(sum, by_value, g[r]);
        }
        // Over the heads of the task.
        for (u32 distance = LANES; distance < p.lanes; distance *= 2) {
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                sum.v[c] += __shfl_xor_sync(FULL_WARP, sum.v[c], distance);
            }
        }
        if (slot.attribute && step < work.count && (threadIdx.x & (p.lanes - 1)) < LANES) {
            float* at = (float*)((char*)p.grad_attr + (u64)(work.task.first + step) * p.attr_bytes) + slot.node;
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                if (c < slot.count) {
                    at[c] = work.head == 0 ? sum.v[c] : at[c] + sum.v[c];
                }
            }
        }
    }
}

// grad_q_i = sum over the edges into i of d K / sqrt(channels), d = a (m <g_i, V> - <g_i, out_i>); attributes' gradients as they go by.
KERNEL_OF_WARPS(transformer_by_destination, TransformerArgs, WARPS) {
    const Work work = find_work(p);
    const Task& task = work.task;
    const feature* k = from_lane(p.k, work);
    const feature* v = from_lane(p.v, work);
    const float log2_factor = p.factor * LOG2_E;
    Chunk query[CHUNKS];
    Chunk g[CHUNKS];
    Chunk sum[CHUNKS];
    float delta = 0.0f;
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        query[r] = scaled(load_wide(p, p.q, task.row, work.slots[r]), log2_factor);
        g[r] = load_wide(p, p.g, task.row, work.slots[r]);
        sum[r] = chunk_of(0.0f);
#if !WIDE
        delta = add_dot(delta, g[r], load_wide(p, p.out, task.row, work.slots[r]));
#endif
    }
#if WIDE
#pragma unroll 1
    for (u32 chunk = work.lane; chunk < p.head_chunks; chunk += LANES) {
        const MessageSlot slot = slot_of(p, work.head, chunk);
        delta = add_dot(delta, load_wide(p, p.g, task.row, slot), load_wide(p, p.out, task.row, slot));
    }
#endif
    delta = sum_over_lanes(delta, LANES);
    const float logsumexp = LOG2_E * p.logsumexp[(u64)task.row * p.logsumexp_stride + some_head(p, work)];
    if (work.mine && work.lane == 0 && work.first_chunk == 0 && task.first == p.graph.offsets[task.row]) {
        p.numbers[(u64)task.row * p.heads + work.head] = make_float2(logsumexp, delta);
    }
    const DropoutKey key = key_of(p);
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Message keys[UNROLL][CHUNKS];
            float scores[UNROLL];
            float along[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                scores[u] = 0.0f;
                along[u] = 0.0f;
#if WIDE
                const float2 both = products(p, work, task.row, edges.columns[u], edges.positions[u], true);
                scores[u] = log2_factor * both.x;
                along[u] = both.y;
#endif
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    keys[u][r] = gather_message(p, work, k, edges.columns[u], edges.positions[u], r);
                }
            }
#if !WIDE
            Message values[UNROLL][CHUNKS];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    values[u][r] = gather_message(p, work, v, edges.columns[u], edges.positions[u], r);
                }
            }
#endif
            edges = find_edges(p, work, step + UNROLL);
#if !WIDE
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    scores[u] = add_dot(scores[u], query[r], floats_of(keys[u][r]));
                    along[u] = add_dot(along[u], g[r], floats_of(values[u][r]));
                }
            }
#endif
            sum_shares<UNROLL, LANES>(scores);
            sum_shares<UNROLL, LANES>(along);
            float by_score[SHARES::OWN];
            float by_value[SHARES::OWN];
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 at = step + edge_of_share<UNROLL, LANES>(o);
                const EdgeGrad grad = edge_grad(p, key, work, at, scores[o], along[o], logsumexp, delta);
                by_value[o] = grad.by_value;
                by_score[o] = grad.by_score;
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const float d = from_share<UNROLL, LANES>(by_score, u);
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    add_scaled(sum[r], d, floats_of(keys[u][r]));
                }
#if GENERAL
                if (p.grad_attr) {
                    // The factor and the logarithm of 2 are in the query.
                    add_attributes(p, work, step + u, d * LN_2, from_share<UNROLL, LANES>(by_value, u), query, g);
                }
#endif
            }
        }
    }
    if (!work.mine) {
        return;
    }
    feature* grad_q = (feature*)row_of(p.grad_q, task.row, p.wide_bytes);
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        const MessageSlot& slot = work.slots[r];
        if (slot.count == 0) {
            continue;
        }
        const Chunk grad = over_edges(work, scaled(sum[r], p.factor));
        if (task.partial != NO_EDGE) {
            const u32 chunk = work.first_chunk + work.lane + r * LANES;
            store_floats(p.partials + partial_at(p, task.partial, work.head, chunk), grad);
        } else {
            store_slot(grad_q + slot.at, grad, slot.count, p.wide_aligned);
        }
    }
}

KERNEL(transformer_merge_by_destination, TransformerArgs, THREADS) {
    HeavyChunk at;
    if (!find_heavy(p, at)) {
        return;
    }
    const MessageSlot slot = slot_of(p, at.head, at.chunk);
    feature* grad_q = (feature*)row_of(p.grad_q, at.heavy[0], p.wide_bytes) + slot.at;
    store_slot(grad_q, sum_of_segments(p, p.partials, at), slot.count, p.wide_aligned);
}

#else

// Over the transpose, rows being sources: grad_k_j = sum over the edges out of j of d q_i / sqrt(channels), grad_v_j = sum of a m g_i.
KERNEL_OF_WARPS(transformer_by_source, TransformerArgs, WARPS) {
    const Work work = find_work(p);
    const Task& task = work.task;
    const feature* q = from_lane(p.q, work);
    const feature* g = from_lane(p.g, work);
    const float log2_factor = p.factor * LOG2_E;
    Chunk own_key[CHUNKS];
    Chunk own_value[CHUNKS];
    Chunk key_sum[CHUNKS];
    Chunk value_sum[CHUNKS];
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        own_key[r] = chunk_of(0.0f);
        own_value[r] = chunk_of(0.0f);
        if (!WIDE && !work.slots[r].attribute) {
            own_key[r] = scaled(load_node(p, p.k, task.row, work.slots[r]), log2_factor);
            own_value[r] = load_node(p, p.v, task.row, work.slots[r]);
        }
        key_sum[r] = chunk_of(0.0f);
        value_sum[r] = chunk_of(0.0f);
    }
    const DropoutKey key = key_of(p);
    const u32 head = some_head(p, work);
    if (work.most > 0) {
        Edges edges = find_edges(p, work, 0);
        for (u32 step = 0; step < work.most; step += UNROLL) {
            Packed queries[UNROLL][CHUNKS];
            Packed gs[UNROLL][CHUNKS];
            float2 numbers[SHARES::OWN];
            float scores[UNROLL];
            float along[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    queries[u][r] = gather_wide(p, work, q, edges.columns[u], r);
                    gs[u][r] = gather_wide(p, work, g, edges.columns[u], r);
                }
            }
#pragma unroll
            for (int o = 0; o < SHARES::OWN; o++) {
                const u32 column = p.graph.columns[edge_at(work.task, step + edge_of_share<UNROLL, LANES>(o))];
                numbers[o] = p.numbers[(u64)column * p.heads + head];
            }
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                scores[u] = 0.0f;
                along[u] = 0.0f;
#if WIDE
                const float2 both = products(p, work, edges.columns[u], task.row, edges.positions[u], true);
                scores[u] = log2_factor * both.x;
                along[u] = both.y;
#else
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
#if GENERAL
                    if (work.slots[r].attribute) {
                        own_value[r] = load_attributes(p, edges.positions[u], work.slots[r]);
                        own_key[r] = scaled(own_value[r], log2_factor);
                    }
#endif
                    scores[u] = add_dot(scores[u], own_key[r], unpacked(queries[u][r]));
                    along[u] = add_dot(along[u], own_value[r], unpacked(gs[u][r]));
                }
#endif
            }
            edges = find_edges(p, work, step + UNROLL);
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
                const float passed = from_share<UNROLL, LANES>(by_value, u);
#pragma unroll
                for (int r = 0; r < CHUNKS; r++) {
                    add_scaled(key_sum[r], d, unpacked(queries[u][r]));
                    add_scaled(value_sum[r], passed, unpacked(gs[u][r]));
                }
            }
        }
    }
    if (!work.mine) {
        return;
    }
    const u64 row = (u64)task.row * p.node_bytes;
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        const MessageSlot& slot = work.slots[r];
        if (slot.count == 0 || slot.attribute) {
            continue;
        }
        const Chunk grad = over_edges(work, scaled(key_sum[r], p.factor));
        if (task.partial != NO_EDGE) {
            const u64 at = partial_at(p, task.partial, work.head, work.first_chunk + work.lane + r * LANES);
            store_floats(p.partials + at, grad);
            store_floats(p.second_partials + at, value_sum[r]);
        } else {
            store_slot((feature*)((char*)p.grad_k + row) + slot.node, grad, slot.count, p.node_aligned);
            store_slot((feature*)((char*)p.grad_v + row) + slot.node, over_edges(work, value_sum[r]), slot.count, p.node_aligned);
        }
    }
}

KERNEL(transformer_merge_by_source, TransformerArgs, THREADS) {
    HeavyChunk at;
    if (!find_heavy(p, at)) {
        return;
    }
    const MessageSlot slot = slot_of(p, at.head, at.chunk);
    if (slot.attribute) {
        return;
    }
    feature* grad_k = (feature*)row_of(p.grad_k, at.heavy[0], p.node_bytes) + slot.node;
    feature* grad_v = (feature*)row_of(p.grad_v, at.heavy[0], p.node_bytes) + slot.node;
    store_slot(grad_k, sum_of_segments(p, p.partials, at), slot.count, p.node_aligned);
    store_slot(grad_v, sum_of_segments(p, p.second_partials, at), slot.count, p.node_aligned);
}

#endif
