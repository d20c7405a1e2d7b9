// Softmax over the in-edges of each node, per column: the attention weights of a layer that keeps its scores.
//
//   offsets [num_dst + 1], from `first_row` on;  score, weight, grad, out [edges, stride], from `edge_base` on; `columns` of them count
//
// FORWARD:  out_k = exp(scale s_k - m_i) / sum over edges k' into i of exp(scale s_k' - m_i), m_i the largest of the row
// BACKWARD: out_k = scale w_k (g_k - sum over edges k' into i of w_k' g_k'), w the weights of the forward pass
//
// `lanes` threads a (row, column), across the edges, merged in a fixed tree. Bytes an edge and column: forward 16 (scores are read three times, mostly
// from the cache), backward 20.
// Source: attention coefficients of "Graph Attention Networks" (Velickovic et al., ICLR 2018).

#param rows: u32
#param columns: u32
#param stride: u32
#param edge_base: u32
#param lanes_log2: u32
#param scale: f32
#read offsets: array<u32>
#ifdef FORWARD
#read score: array<f32>
#endif
#ifdef BACKWARD
#read weight: array<f32>
#read grad: array<f32>
#endif
#write out: array<f32>

#include lanes
alias Sum = f32;

#ifdef FORWARD
#ifdef SUBGROUPS
fn max_over_lanes(value: f32, _thread: u32, lanes: u32) -> f32 {
    var largest = value;
    for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
        largest = max(largest, subgroupShuffleXor(largest, half));
    }
    return largest;
}
#else
fn max_over_lanes(value: f32, thread: u32, lanes: u32) -> f32 {
    let lane = thread & (lanes - 1u);
    workgroupBarrier();
    sums[thread] = value;
    for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if lane < half {
            sums[thread] = max(sums[thread], sums[thread + half]);
        }
    }
    workgroupBarrier();
    return sums[thread - lane];
}
#endif
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lanes = 1u << p.lanes_log2;
    let lane = thread & (lanes - 1u);
    let task = group_index(group, groups) * (WORKGROUP_SIZE >> p.lanes_log2) + (thread >> p.lanes_log2);
    let row = task / p.columns;
    let column = task % p.columns;
    // Threads past the last row have no edges, and meet the others at the barriers.
    var first = 0u;
    var end = 0u;
    if row < p.rows {
        first = offsets[row] - p.edge_base;
        end = offsets[row + 1u] - p.edge_base;
    }
#ifdef FORWARD
    var largest = -3.4e38;
    for (var k = first + lane; k < end; k += lanes) {
        largest = max(largest, p.scale * score[k * p.stride + column]);
    }
    largest = max_over_lanes(largest, thread, lanes);
    var sum = 0.0;
    for (var k = first + lane; k < end; k += lanes) {
        sum += exp(p.scale * score[k * p.stride + column] - largest);
    }
    sum = sum_over_lanes(sum, thread, lanes);
    for (var k = first + lane; k < end; k += lanes) {
        out[k * p.stride + column] = exp(p.scale * score[k * p.stride + column] - largest) / sum;
    }
#endif
#ifdef BACKWARD
    var dot = 0.0;
    for (var k = first + lane; k < end; k += lanes) {
        dot += weight[k * p.stride + column] * grad[k * p.stride + column];
    }
    dot = sum_over_lanes(dot, thread, lanes);
    for (var k = first + lane; k < end; k += lanes) {
        let at = k * p.stride + column;
        out[at] = p.scale * weight[at] * (grad[at] - dot);
    }
#endif
}
