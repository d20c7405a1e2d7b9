// Sums over neighbours: out_r = row_scale_r * sum over edges k of row r of weight_k * column_scale_c(k) * x_c(k).
//
//   task_list [tasks, 4]                  first edge, one past the last, row, 0: whole rows, or segments of heavy ones
//   columns [edges]                       from `edge_base` on
//   positions [edges]                     where an edge of the transpose stands in edge order (PERMUTED)
//   weight [all edges], row_scale [rows], column_scale [columns]
//   x [columns, x_stride chunks], out [rows, out_stride chunks], in halves with HALF; partial sums never are
//
// FEATURE_PARALLEL: `lanes` threads a row, each takes every lanes-th chunk of 4 features and runs over the edges, 4 loads in flight.
// NEIGHBOUR_PARALLEL: `lanes` threads a row, each takes every lanes-th edge; merged in a fixed tree.
// Heavy rows are SEGMENTED tasks, into partial sums that MERGE adds up in order.
// Consecutive tasks share a workgroup: where rows are alike, so that columns they have in common are read once through the
// cache; else rows with as many edges, as it waits for the longest.
//
// Bytes an edge: 4 (column) + 4 F (row of x), + 4 (weight), + 4 (column scale), + 4 (position); a row: 4 + 4 F, + 4 (row scale).
// Source: row-wise SpMM after "Design Principles for Sparse Matrix Multiplication on the GPU" (Yang, Buluc, Owens, Euro-Par 2018);
// the cut of heavy rows after "On Efficient Scaling of GNNs via IO-Aware Layers Implementations" (ICML 2026).

#param tasks: u32
#param chunks: u32
#param out_stride: u32
#param out_first: u32
#ifdef MERGE
#read heavy: array<vec4<u32>>
#read partials: array<Chunk>
#else
#param edge_base: u32
#param x_stride: u32
#param lanes_log2: u32
#read task_list: array<vec4<u32>>
#read columns: array<u32>
#ifdef PERMUTED
#read positions: array<u32>
#endif
#ifdef WEIGHTED
#read weight: array<f32>
#endif
#ifdef COLUMN_SCALE
#read column_scale: array<f32>
#endif
#read x: array<Packed>
#endif
#ifdef ROW_SCALE
#read row_scale: array<f32>
#endif
#ifdef SEGMENTED
#write out: array<Chunk>
#else
#write out: array<Packed>
#endif

fn store(row: u32, chunk: u32, sum: Chunk) {
    let at = row * p.out_stride + p.out_first + chunk;
#ifdef SEGMENTED
    out[at] = sum;
#else
#ifdef ROW_SCALE
    out[at] = pack_chunk(row_scale[row] * sum);
#else
    out[at] = pack_chunk(sum);
#endif
#endif
}

#ifdef MERGE
@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if index >= p.tasks * p.chunks {
        return;
    }
    let row = heavy[index / p.chunks]; // row, first partial sum, one past the last
    let chunk = index % p.chunks;
    var sum = Chunk();
    for (var s = row.y; s < row.z; s++) {
        sum += partials[s * p.chunks + chunk];
    }
    store(row.x, chunk, sum);
}
#else

// Message of the edge at position k of the columns bound, for one chunk of features.
fn message(k: u32, chunk: u32) -> Chunk {
    let column = columns[k];
    let value = unpack_chunk(x[column * p.x_stride + chunk]);
#ifdef WEIGHTED
#ifdef PERMUTED
    let w = weight[positions[k]];
#else
    let w = weight[k];
#endif
#ifdef COLUMN_SCALE
    return (w * column_scale[column]) * value;
#else
    return w * value;
#endif
#else
#ifdef COLUMN_SCALE
    return column_scale[column] * value;
#else
    return value;
#endif
#endif
}

// Where a task's result goes.
fn result_of(task: u32) -> u32 {
#ifdef SEGMENTED
    return task;
#else
    return task_list[task].z;
#endif
}

#ifdef FEATURE_PARALLEL
@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    if task >= p.tasks {
        return;
    }
    let edges = task_list[task].xy - p.edge_base;
    let row = result_of(task);
    for (var chunk = thread & (lanes - 1u); chunk < p.chunks; chunk += lanes) {
        var sum = Chunk();
        var k = edges.x;
        for (; k + 4u <= edges.y; k += 4u) {
            let a = message(k, chunk);
            let b = message(k + 1u, chunk);
            let c = message(k + 2u, chunk);
            let d = message(k + 3u, chunk);
            sum += a;
            sum += b;
            sum += c;
            sum += d;
        }
        for (; k < edges.y; k++) {
            sum += message(k, chunk);
        }
        store(row, chunk, sum);
    }
}
#endif

#ifdef NEIGHBOUR_PARALLEL
#include lanes
alias Sum = Chunk;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let found = task < p.tasks;
    var edges = vec2<u32>();
    if found {
        edges = task_list[task].xy - p.edge_base;
    }
    for (var chunk = 0u; chunk < p.chunks; chunk++) {
        var sum = Chunk();
        for (var k = edges.x + lane; k < edges.y; k += lanes) {
            sum += message(k, chunk);
        }
        sum = sum_over_lanes(sum, thread, lanes);
        if lane == 0u && found {
            store(result_of(task), chunk, sum);
        }
    }
}
#endif
#endif
