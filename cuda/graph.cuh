// A graph in one direction, cut into tasks: first the segments of heavy rows, which take longest, then every row; rows of
// more than `segment` edges are left out there. A block is done when its longest task is: where rows next to each other
// differ much, `order` has them by their number of edges, the longest first.
#include "common.cuh"

struct Graph {
    const u32* offsets;       // [rows + 1]
    const u32* columns;       // [edges]
    const u32* positions;     // [edges], of the transpose: where an edge stands in edge order; else null
    const u32* edge_ids;      // [edges], the user's number of each edge; null unless there is dropout
    const u32* segments;      // [num_segments, 2], first edge and one past the last
    const u32* segment_rows;  // [num_segments]
    const u32* heavy;         // [num_heavy, 4]: row, first segment, one past the last, 0
    const u32* order;         // [rows]; null for the rows' own
    u32 rows;
    u32 segment;
    u32 num_segments;
    u32 num_heavy;
};

// Where a row starts in a matrix whose rows are `bytes` apart: one instruction.
template <class T> __device__ __forceinline__ T* row_of(T* matrix, u32 row, u32 bytes) {
    // By way of bytes: of a number the compiler would not know that it is an address in device memory.
    return (T*)((char*)matrix + (u64)row * bytes);
}

// An address in device memory that is computed here once: of its sum with a row's place the compiler would add up all parts for every row.
template <class T> __device__ __forceinline__ T* computed(T* address) {
#ifndef HOPWISE_EMULATION
    asm("" : "+l"(address));
    __builtin_assume(__isGlobal(address));
#endif
    return address;
}

struct Task {
    u32 first;
    u32 last;
    u32 row;
    u32 partial;  // the number of the segment; NO_EDGE for whole rows
};

__device__ __forceinline__ u32 num_tasks(const Graph& graph) {
    return graph.num_segments + graph.rows;
}

// Whether there is anything to do; `index` may be past the last task.
__device__ __forceinline__ bool find_task(const Graph& graph, u32 index, Task& task) {
    if (index < graph.num_segments) {
        task.first = graph.segments[2 * index];
        task.last = graph.segments[2 * index + 1];
        task.row = graph.segment_rows[index];
        task.partial = index;
        return true;
    }
    task.row = index - graph.num_segments;
    task.partial = NO_EDGE;
    task.first = 0;
    task.last = 0;
    if (task.row >= graph.rows) {
        return false;
    }
    if (graph.order) {
        task.row = graph.order[task.row];
    }
    const u32 first = graph.offsets[task.row];
    const u32 last = graph.offsets[task.row + 1];
    if (last - first > graph.segment) {
        return false;
    }
    task.first = first;
    task.last = last;
    return true;
}
