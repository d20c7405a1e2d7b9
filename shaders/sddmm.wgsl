// One number an edge: out_k (+)= row_scale_i * column_scale_j * <a_i, b_j> for the edge k from j to i.
//
//   rows, columns [edges]   from `edge_base` on
//   a [num_dst, a_stride], from row `row_base` on;  b [num_src, b_stride]
//   row_scale [num_dst], column_scale [num_src];  out [edges]
//
// `lanes` threads an edge, across the features, merged in a fixed tree; consecutive edges share a row and a workgroup.
// Bytes an edge: 8 (row, column) + 8 F (both rows; a's mostly from the cache) + 4 (out), + 8 (scales).
// Source: SDDMM after "Sampled Dense Matrix Multiplication for High-Performance Machine Learning" (Nisa et al., HiPC 2018).

#param edges: u32
#param first_edge: u32
#param row_base: u32
#param features: u32
#param a_stride: u32
#param b_stride: u32
#param lanes_log2: u32
#read rows: array<u32>
#read columns: array<u32>
#read a: array<f32>
#read b: array<f32>
#ifdef ROW_SCALE
#read row_scale: array<f32>
#endif
#ifdef COLUMN_SCALE
#read column_scale: array<f32>
#endif
#write out: array<f32>

#include lanes
alias Sum = f32;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let k = p.first_edge + min(task, p.edges - 1u);
    let i = rows[k] - p.row_base;
    let j = columns[k];
    var sum = 0.0;
    for (var f = lane; f < p.features; f += lanes) {
        sum += a[i * p.a_stride + f] * b[j * p.b_stride + f];
    }
    sum = sum_over_lanes(sum, thread, lanes);
    if lane == 0u && task < p.edges {
        var value = sum;
#ifdef ROW_SCALE
        value *= row_scale[i];
#endif
#ifdef COLUMN_SCALE
        value *= column_scale[j];
#endif
#ifdef ACCUMULATE
        value += out[k];
#endif
        out[k] = value;
    }
}
