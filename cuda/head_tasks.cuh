// How the rows of attention are shared out, the same for every kind of score.
//
// `lanes` threads have a task, all of its heads that fit: a head lies over LANES of them, each with CHUNKS chunks of 16 bytes. Heads
// that do not fit are passes of the grid, one after the other, so that each gathers from a slice of the matrices that the cache holds
// longer. UNROLL edges are in flight; the columns of the next ones are read meanwhile. Consecutive rows share a block, so that columns
// which they have in common are read once through L1; few of them where rows differ much in length, since a block waits for its longest.
// WIDE: heads of more channels than a warp has registers for. A pass is a part of a head's channels, scores are computed from all of
// them, once for each part.
//
// THREADS of a block at most; LANES, CHUNKS, UNROLL; GENERAL: 1 if chunks are to be read with care; WIDE; WARPS and FORWARD_WARPS that are to
// share a multiprocessor, the latter in forward passes.
#include "attention.cuh"

// What kernels of every kind of score take.
struct AttentionArgs {
    Graph graph;
    const feature* g;  // the gradient of the output
    const float* attr;
    float* grad_attr;
    float* logsumexp;
    float2* numbers;
    float* partials;
    float2* statistics;
    Dropout dropout;
    u32 logsumexp_stride;
    u32 attr_bytes;
    u32 attributes;
    u32 heads;
    u32 channels;
    u32 head_chunks;    // chunks of a head
    u32 lanes;          // of a task
    u32 blocks_a_pass;
    u32 first_pass;
    u32 passes;
};

#define SHARES Shares<UNROLL, LANES>
// Chunks that a task's lanes hold of a head.
#define PART_CHUNKS (LANES * CHUNKS)

// A kernel of which `warps` warps are to share a multiprocessor: that leaves each thread 2048 / warps registers, 255 at most.
#define KERNEL_OF_WARPS(name, Args, warps) KERNEL_OF_BLOCKS(name, Args, THREADS, (warps) * WARP / THREADS)

// A chunk of a row; 0 past the channels.
__device__ __forceinline__ Packed load_slot(const feature* at, u32 count, bool aligned) {
#if GENERAL
    if (!aligned) {
        return load_packed_part(at, count);
    }
#endif
    Packed packed = {};
    if (count > 0) {
        packed = load_packed(at);
    }
#if GENERAL
    packed = first_of(packed, count);
#endif
    return packed;
}

__device__ __forceinline__ void store_slot(feature* at, const Chunk& chunk, u32 count, bool aligned) {
    if (!GENERAL || (aligned && count == CHUNK)) {
        store_chunk(at, chunk);
    } else {
        store_part(at, chunk, count);
    }
}

__device__ __forceinline__ Chunk scaled(const Chunk& chunk, float factor) {
    Chunk result;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        result.v[c] = factor * chunk.v[c];
    }
    return result;
}

// The quotient, which is not to be off by the rounding of a reciprocal: that would be the same way for all channels.
__device__ __forceinline__ Chunk divided(const Chunk& chunk, float divisor) {
    const float reciprocal = 1.0f / divisor;
    Chunk result;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        const float quotient = chunk.v[c] * reciprocal;
        result.v[c] = fmaf(fmaf(-quotient, divisor, chunk.v[c]), reciprocal, quotient);
    }
    return result;
}

// The part of the rows that a thread works on.
struct HeadTask {
    Task task;
    u32 count;  // edges
    u32 most;   // edges of the longest task of the warp, whose lanes stay together
    u32 lane;   // of the head
    u32 head;
    u32 first_chunk;  // of the head's, that the task holds
    bool mine;        // whether there is anything to store
};

// The head to read of, also where there is none.
template <class Args> __device__ __forceinline__ u32 some_head(const Args& p, const HeadTask& work) {
    return work.head < p.heads ? work.head : 0;
}

// The head of this thread in a pass, and its part of the channels.
template <class Args> __device__ __forceinline__ void find_head(const Args& p, u32 pass, HeadTask& work) {
    work.lane = threadIdx.x % LANES;
#if WIDE
    const u32 parts = (p.head_chunks + PART_CHUNKS - 1) / PART_CHUNKS;
    work.head = pass / parts;
    work.first_chunk = pass % parts * PART_CHUNKS;
#else
    work.head = (pass * p.lanes + (threadIdx.x & (p.lanes - 1))) / LANES;
    work.first_chunk = 0;
#endif
}

template <class Args> __device__ __forceinline__ void find_head_task(const Args& p, HeadTask& work) {
    // Rows of few edges are done before divisions are.
    u32 pass = 0;
    u32 block = blockIdx.x;
    if (block >= p.blocks_a_pass) {
        pass = block / p.blocks_a_pass;
        block -= pass * p.blocks_a_pass;
    }
    find_head(p, p.first_pass + pass, work);
    const u32 shift = __ffs(p.lanes) - 1;
    const bool found = find_group_task(p.graph, block * (blockDim.x >> shift) + (threadIdx.x >> shift), work.task);
    work.mine = found && work.head < p.heads;
    work.count = work.task.last - work.task.first;
    work.most = most_of_groups(work.count, p.lanes);
}

// A chunk of a head: where it starts in a row, and how many of its numbers there are.
struct Slot {
    u32 at;
    u32 count;
};

// What a thread works on, and its chunks. Kernels say by `slot_of` where those are.
template <class Slot> struct Slots : HeadTask {
    Slot slots[CHUNKS];
};

template <class Args, class Work> __device__ __forceinline__ void find_slots(const Args& p, Work& work) {
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        work.slots[r] = slot_of(p, work.head, work.first_chunk + work.lane + r * LANES);
#if !GENERAL
        // Lanes past a head's channels would rather read what another one reads than ask whether they may.
        if (work.slots[r].count == 0) {
            work.slots[r] = r > 0 ? work.slots[0] : slot_of(p, some_head(p, work), work.first_chunk);
            work.slots[r].count = 0;
        }
#endif
    }
}

template <class Args> __device__ __forceinline__ auto find_work(const Args& p) {
    Slots<decltype(slot_of(p, 0, 0))> work;
    find_head_task(p, work);
    find_slots(p, work);
    return work;
}

// A matrix whose rows are gathered, from the lane's first chunk on: an address is then one multiplication and addition.
template <class Work> __device__ __forceinline__ const feature* from_lane(const feature* matrix, const Work& work) {
    return GENERAL ? matrix : matrix + work.slots[0].at;
}

// The lane's chunk `r`, which starts `at` in a row, of a row gathered from what `from_lane` gave.
template <class Work>
__device__ __forceinline__ Packed gather_slot(const Work& work, const feature* from, u32 row, u32 bytes, u32 at, bool aligned, int r) {
#if GENERAL
    return load_slot(row_of(from, row, bytes) + at, work.slots[r].count, aligned);
#else
    return load_packed(row_of(from, row, bytes) + (work.slots[r].at - work.slots[0].at));
#endif
}

// What is to be stored of a sum over the edges. Lanes without edges have read some all the same, and a product of 0 and infinity.
__device__ __forceinline__ Chunk over_edges(const HeadTask& work, const Chunk& sum) {
    return work.count > 0 ? sum : chunk_of(0.0f);
}

// Columns of the edges in flight, and where they stand in edge order.
struct Edges {
    u32 columns[UNROLL];
    u32 positions[UNROLL];
};

template <class Args> __device__ __forceinline__ Edges find_edges(const Args& p, const HeadTask& work, u32 step) {
    Edges edges;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const u32 edge = edge_at(work.task, step + u);
        edges.columns[u] = p.graph.columns[edge];
#if GENERAL
        edges.positions[u] = p.graph.positions && p.attr ? p.graph.positions[edge] : edge;
#else
        edges.positions[u] = edge;
#endif
    }
    return edges;
}

// Whether dropout keeps the edge at `step`.
template <class Args> __device__ __forceinline__ bool is_kept(const Args& p, DropoutKey key, const HeadTask& work, u32 step) {
    const u32 row = mix(key.row ^ p.graph.edge_ids[edge_at(work.task, step)]);
    return dropout_factor(p.dropout, key, row, work.head) != 0.0f;
}

template <class Args> __device__ __forceinline__ DropoutKey key_of(const Args& p) {
    DropoutKey none = {0, 0};
    return p.dropout.state ? dropout_key(p.dropout) : none;
}

// Scores that this thread has its share of, summed over the head: edges of weight 0 where there are none, then what every lane is to
// know of each edge. With dropout, edges still count in the softmax whose sums are made without them.
template <class Args>
__device__ __forceinline__ float weigh_scores(const Args& p, DropoutKey key, const HeadTask& work, u32 step, Softmax& softmax, float (&scores)[UNROLL]) {
    float shares[SHARES::OWN];
#pragma unroll
    for (int o = 0; o < SHARES::OWN; o++) {
        shares[o] = step + edge_of_share<UNROLL, LANES>(o) < work.count ? scores[o] : MINUS_INFINITY;
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        scores[u] = from_share<UNROLL, LANES>(shares, u);
    }
    const float decay = take_scores(softmax, scores);
    if (p.dropout.state) {
        Votes<UNROLL, LANES> kept;
#pragma unroll
        for (int o = 0; o < SHARES::OWN; o++) {
            const bool mine = is_kept(p, key, work, step + edge_of_share<UNROLL, LANES>(o));
            kept.bits[o] = __ballot_sync(FULL_WARP, mine);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            scores[u] = in_share<UNROLL, LANES>(kept, u) ? scores[u] : 0.0f;
        }
    }
    return decay;
}

// What an edge's gradients are made of: `by_value` = a m, `by_score` = a (m along - delta).
struct EdgeGrad {
    float by_value;
    float by_score;
};

// Of the edge at `step`, or nothing past the last one; the score in units of log 2.
template <class Args>
__device__ __forceinline__ EdgeGrad edge_grad(
    const Args& p, DropoutKey key, const HeadTask& work, u32 step, float score, float along, float logsumexp, float delta
) {
    const float weight = step < work.count ? exp2_fast(score - logsumexp) : 0.0f;
    float mask = 1.0f;
    if (p.dropout.state) {
        mask = is_kept(p, key, work, step) ? p.dropout.scale : 0.0f;
    }
    // The difference first: the two are almost equal where the softmax is.
    const EdgeGrad grad = {mask * weight, weight * fmaf(mask, along, -delta)};
    return grad;
}

// The place of a head's chunk among the sums of segments.
template <class Args> __device__ __forceinline__ u64 partial_at(const Args& p, u32 segment, u32 head, u32 chunk) {
    return (((u64)segment * p.heads + head) * p.head_chunks + chunk) * CHUNK;
}

// A thread a chunk of a head of a heavy row: what a chunk belongs to.
struct HeavyChunk {
    const u32* heavy;
    u32 head;
    u32 chunk;
};

template <class Args> __device__ __forceinline__ bool find_heavy(const Args& p, HeavyChunk& found) {
    const u64 index = (u64)blockIdx.x * THREADS + threadIdx.x;
    const u64 in_row = (u64)p.heads * p.head_chunks;
    const u64 row = index / in_row;
    const u32 place = (u32)(index - row * in_row);
    found.heavy = p.graph.heavy + 4 * row;
    found.head = place / p.head_chunks;
    found.chunk = place - found.head * p.head_chunks;
    return row < p.graph.num_heavy;
}

template <class Args> __device__ __forceinline__ Chunk sum_of_segments(const Args& p, const float* partials, const HeavyChunk& at) {
    Chunk sum = chunk_of(0.0f);
    for (u32 s = at.heavy[1]; s < at.heavy[2]; s++) {
        add(sum, load_floats(partials + partial_at(p, s, at.head, at.chunk)));
    }
    return sum;
}

// The sum of what edges gave, as the output has it.
template <class Args> __device__ __forceinline__ Chunk output_of(const Args& p, const Softmax& softmax, const Chunk& sum) {
    return divided(p.dropout.state ? scaled(sum, p.dropout.scale) : sum, softmax.total);
}

// The sum that is the output for a chunk of a heavy row, its segments merged by their softmaxes, and the softmax.
template <class Args> __device__ __forceinline__ Chunk merge_softmaxes(const Args& p, const HeavyChunk& at, Softmax& softmax) {
    softmax = no_edges();
    Chunk sum = chunk_of(0.0f);
    for (u32 s = at.heavy[1]; s < at.heavy[2]; s++) {
        const float2 seen = p.statistics[(u64)s * p.heads + at.head];
        const float top = fmaxf(softmax.top, seen.x);
        const float decay = exp2_fast(softmax.top - top);
        const float weight = exp2_fast(seen.x - top);
        softmax.top = top;
        softmax.total = fmaf(weight, seen.y, softmax.total * decay);
        sum = scaled(sum, decay);
        add_scaled(sum, weight, load_floats(p.partials + partial_at(p, s, at.head, at.chunk)));
    }
    return output_of(p, softmax, sum);
}
