// What GAT and GATv2 share: matrices whose rows are the heads' channels, one head after the other, and gradients of the weight of edge
// attributes, summed over ranges of edges.
#include "head_tasks.cuh"

struct GatFamilyArgs : AttentionArgs {
    feature* h;
    const float* weight;
    float* grad_weight;
    const u32* rows;  // the destination of each edge
    u32 row_bytes;    // from a row of any feature matrix to the next
    u32 aligned;      // whether heads start at multiples of 16 bytes
    u32 weight_stride;
    u32 grad_weight_stride;
    u32 range;        // edges of a range
    u32 ranges;
    float slope;
    u32 padding;
};

template <class Args> __device__ __forceinline__ Slot slot_of(const Args& p, u32 head, u32 chunk) {
    Slot slot;
    const bool any = head < p.heads && chunk < p.head_chunks;
#if GENERAL
    slot.at = head * p.channels + chunk * CHUNK;
    slot.count = any ? min(p.channels - chunk * CHUNK, (u32)CHUNK) : 0;
#else
    slot.at = (head * p.head_chunks + chunk) * CHUNK;
    slot.count = any ? CHUNK : 0;
#endif
    return slot;
}

typedef Slots<Slot> Work;

template <class Args> __device__ __forceinline__ Chunk load_features(const Args& p, const feature* matrix, u32 row, const Slot& slot) {
    return unpacked(load_slot(row_of(matrix, row, p.row_bytes) + slot.at, slot.count, p.aligned));
}

template <class Args> __device__ __forceinline__ Packed gather(const Args& p, const Work& work, const feature* from, u32 row, int r) {
    return gather_slot(work, from, row, p.row_bytes, work.slots[r].at, p.aligned, r);
}

// Stores the lane's chunk `r` of sums over a row's edges, or of a segment among `partials`.
template <class Args>
__device__ __forceinline__ void store_features(const Args& p, const Work& work, feature* matrix, float* partials, int r, const Chunk& sum) {
    const Slot& slot = work.slots[r];
    const Chunk chunk = over_edges(work, sum);
    if (!work.mine || slot.count == 0) {
        return;
    }
    if (work.task.partial != NO_EDGE) {
        store_floats(partials + partial_at(p, work.task.partial, work.head, work.first_chunk + work.lane + r * LANES), chunk);
    } else {
        store_slot((feature*)row_of(matrix, work.task.row, p.row_bytes) + slot.at, chunk, slot.count, p.aligned);
    }
}

// The same for a matrix of floats of `stride`.
template <class Args>
__device__ __forceinline__ void store_sums(const Args& p, const Slot& slot, float* matrix, u32 row, u32 stride, const Chunk& chunk) {
    float* at = matrix + (u64)row * stride + slot.at;
    if (p.aligned && slot.count == CHUNK) {
        store_floats(at, chunk);
        return;
    }
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        if (c < slot.count) {
            at[c] = chunk.v[c];
        }
    }
}

// Stores what a row's edges gave, `sum` times the softmax' top: the output and the logarithm of the sum of exponentials, or a segment's.
template <class Args>
__device__ __forceinline__ void store_output(const Args& p, const Work& work, const Softmax& softmax, const Chunk (&sum)[CHUNKS]) {
    const bool any = work.count > 0;
    const bool segment = work.task.partial != NO_EDGE;
#pragma unroll
    for (int r = 0; r < CHUNKS; r++) {
        store_features(p, work, p.h, p.partials, r, segment ? sum[r] : output_of(p, softmax, sum[r]));
    }
    if (!work.mine || work.lane != 0 || work.first_chunk != 0) {
        return;
    }
    if (segment) {
        p.statistics[(u64)work.task.partial * p.heads + work.head] = make_float2(softmax.top, softmax.total);
    } else {
        p.logsumexp[(u64)work.task.row * p.logsumexp_stride + work.head] = logsumexp_of(softmax, any);
    }
}

// The output of a chunk of a heavy row.
template <class Args> __device__ __forceinline__ void merge_output(const Args& p) {
    HeavyChunk at;
    if (!find_heavy(p, at)) {
        return;
    }
    Softmax softmax;
    const Chunk sum = merge_softmaxes(p, at, softmax);
    const Slot slot = slot_of(p, at.head, at.chunk);
    store_slot((feature*)row_of(p.h, at.heavy[0], p.row_bytes) + slot.at, sum, slot.count, p.aligned);
    if (at.chunk == 0) {
        p.logsumexp[(u64)at.heavy[0] * p.logsumexp_stride + at.head] = logsumexp_of(softmax, true);
    }
}

// The gradient of a chunk of a heavy row.
template <class Args> __device__ __forceinline__ void merge_gradient(const Args& p, const HeavyChunk& at, feature* matrix) {
    const Slot slot = slot_of(p, at.head, at.chunk);
    feature* to = (feature*)row_of(matrix, at.heavy[0], p.row_bytes) + slot.at;
    store_slot(to, sum_of_segments(p, p.partials, at), slot.count, p.aligned);
}

// <g_i, h_i> of the head, known to each of its lanes, and the logarithm in units of log 2; both kept for the other passes.
template <class Args> __device__ __forceinline__ float2 find_numbers(const Args& p, const Work& work) {
    // In the order in which edges sum up, so that of a row with one edge nothing is left.
    float delta = 0.0f;
    for (u32 chunk = work.lane; chunk < p.head_chunks; chunk += LANES) {
        const Slot slot = slot_of(p, work.head, chunk);
        delta = add_dot(delta, load_features(p, p.g, work.task.row, slot), load_features(p, p.h, work.task.row, slot));
    }
    const float logsumexp = LOG2_E * p.logsumexp[(u64)work.task.row * p.logsumexp_stride + some_head(p, work)];
    const float2 numbers = make_float2(logsumexp, sum_over_lanes(delta, LANES));
    const bool first = work.lane == 0 && work.first_chunk == 0 && work.task.first == p.graph.offsets[work.task.row];
    if (work.mine && first) {
        p.numbers[(u64)work.task.row * p.heads + work.head] = numbers;
    }
    return numbers;
}

template <class Args> __device__ __forceinline__ const float* attributes_at(const Args& p, u32 position) {
    return (const float*)((const char*)p.attr + (u64)position * p.attr_bytes);
}

// The part of a range of edges that a group of lanes sums up, the range, and which of its sums.
struct RangeWork : Work {
    u32 range;
    u32 tile;
};

template <class Args> __device__ __forceinline__ RangeWork find_range(const Args& p) {
    RangeWork work;
    work.range = blockIdx.x % p.ranges;
    const u32 pass = blockIdx.x / p.ranges;
    work.tile = pass / p.passes;
    find_head(p, pass % p.passes, work);
    find_slots(p, work);
    const u32 groups = THREADS / p.lanes;
    const u32 edges = p.graph.offsets[p.graph.rows];
    const u32 first = work.range * p.range;
    const u32 last = first + min(p.range, edges - first);
    const u32 of_group = (p.range + groups - 1) / groups;
    work.task.first = first + min(threadIdx.x / p.lanes * of_group, last - first);
    work.task.last = work.task.first + min(of_group, last - work.task.first);
    work.count = work.task.last - work.task.first;
    if (work.count == 0) {
        // Some edge, of weight 0: lanes of a warp stay together.
        work.task.first = work.task.last = 0;
    }
    work.most = edges > 0 ? most_of_groups(work.count, p.lanes) : 0;
    return work;
}

// The sum over the groups of a block, for the first of them.
template <class Args> __device__ __forceinline__ float sum_over_groups(const Args& p, float value) {
    __shared__ float values[THREADS];
    __syncthreads();
    values[threadIdx.x] = value;
    __syncthreads();
    float sum = 0.0f;
    if (threadIdx.x < p.lanes) {
        for (u32 thread = threadIdx.x; thread < THREADS; thread += p.lanes) {
            sum += values[thread];
        }
    }
    return sum;
}
