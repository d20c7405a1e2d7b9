// What attention kernels share: sums over the lanes of a head for several edges at once, and the online softmax.
//
// A head lies over `L` neighbouring lanes, a power of two. `N` numbers, one an edge, are summed over them so that each lane ends
// with its share: AMONG = min(N, L) lanes have OWN = N / AMONG numbers each, lane l of the head those of the edges from
// (l % AMONG) * OWN on. That takes about N + log2(L / N) shuffles in place of N log2(L), and what is computed of a sum, an
// exponential or a hash, is computed once and not by every lane.
#include "graph.cuh"
#include "random.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2 0.6931471805599453f
// Below every score, and finite: the difference of two is not NaN.
#define LOWEST -3.0e38f
#define MINUS_INFINITY __int_as_float(0xff800000)

template <int N, int L> struct Shares {
    static constexpr int AMONG = N < L ? N : L;
    static constexpr int OWN = N / AMONG;
};

template <int N, int L> __device__ __forceinline__ void sum_shares(float (&values)[N]) {
    constexpr int AMONG = Shares<N, L>::AMONG;
#pragma unroll
    for (int bit = AMONG / 2; bit > 0; bit /= 2) {
        // Lanes with the bit keep the upper half of what is left, and give the other away.
        const bool upper = threadIdx.x & bit;
        const int half = N / AMONG * bit;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            if (i < half) {
                const float given = upper ? values[i] : values[i + half];
                const float kept = upper ? values[i + half] : values[i];
                values[i] = kept + __shfl_xor_sync(FULL_WARP, given, bit);
            }
        }
    }
#pragma unroll
    for (int bit = AMONG; bit < L; bit *= 2) {
#pragma unroll
        for (int o = 0; o < Shares<N, L>::OWN; o++) {
            values[o] += __shfl_xor_sync(FULL_WARP, values[o], bit);
        }
    }
}

// The edge of the lane's number `o`, counted from the first of the N.
template <int N, int L> __device__ __forceinline__ u32 edge_of_share(u32 o) {
    return threadIdx.x % Shares<N, L>::AMONG * Shares<N, L>::OWN + o;
}

// The number of edge `u`, from the lane that has it.
template <int N, int L> __device__ __forceinline__ float from_share(const float (&shares)[Shares<N, L>::OWN], u32 u) {
    const float value = shares[u % Shares<N, L>::OWN];
    return Shares<N, L>::AMONG == 1 ? value : __shfl_sync(FULL_WARP, value, u / Shares<N, L>::OWN, L);
}

// Of one truth for each edge, those of all lanes: read with `in_share`. Votes do not load the path of shuffles and memory.
template <int N, int L> struct Votes {
    u32 bits[Shares<N, L>::OWN];
};

template <int N, int L> __device__ __forceinline__ bool in_share(const Votes<N, L>& votes, u32 u) {
    const u32 lane = threadIdx.x % WARP / L * L + u / Shares<N, L>::OWN;
    return votes.bits[u % Shares<N, L>::OWN] >> lane & 1;
}

// The most of a number over the groups of `lanes` lanes of a warp, each of which agrees within.
__device__ __forceinline__ u32 most_of_groups(u32 value, u32 lanes) {
    for (u32 distance = WARP / 2; distance >= lanes; distance /= 2) {
        value = max(value, __shfl_xor_sync(FULL_WARP, value, distance));
    }
    return value;
}

// A task of a group of lanes, whose warp stays together: where there is none, or nothing to sum, row and edges can be read all the same,
// as long as any task has edges. Whether there is one.
__device__ __forceinline__ bool find_group_task(const Graph& graph, u32 index, Task& task) {
    const bool found = find_task(graph, index, task);
    task.row = found ? task.row : 0;
    if (task.first == task.last) {
        // An empty row may stand behind the last edge.
        task.first = task.last = 0;
    }
    return found;
}

// The edge at `step` of a task; past the last one, the last one again: what is loaded of it is in the cache.
__device__ __forceinline__ u32 edge_at(const Task& task, u32 step) {
    return task.first + min(step, max(task.last - task.first, 1u) - 1);
}

// A softmax over edges seen so far, scores in units of log 2: `total` is the sum of exp2(score - top).
struct Softmax {
    float top;
    float total;
};

__device__ __forceinline__ Softmax no_edges() {
    return {LOWEST, 0.0f};
}

// Takes N more scores, which become weights in proportion to the new top; returns what earlier sums are to be multiplied with.
template <int N> __device__ __forceinline__ float take_scores(Softmax& softmax, float (&scores)[N]) {
    float top = softmax.top;
#pragma unroll
    for (int u = 0; u < N; u++) {
        top = fmaxf(top, scores[u]);
    }
    const float decay = exp2_fast(softmax.top - top);
    float total = softmax.total * decay;
#pragma unroll
    for (int u = 0; u < N; u++) {
        scores[u] = exp2_fast(scores[u] - top);
        total += scores[u];
    }
    softmax.top = top;
    softmax.total = total;
    return decay;
}

// The natural logarithm of the sum of the exponentials; 0 without edges.
__device__ __forceinline__ float logsumexp_of(const Softmax& softmax, bool edges) {
    return edges ? (softmax.top + log2f(softmax.total)) * LN_2 : 0.0f;
}
