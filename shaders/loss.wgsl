// Losses with their gradients in one pass over the rows, one thread a row. Rows of weight 0 count for nothing.
//
// CROSS_ENTROPY: losses_r = weight_r (log sum exp x_r - x_r,label), grad_r = weight_r (softmax(x_r) - onehot(label)).
// BINARY_CROSS_ENTROPY: losses_r = weight_r / cols * sum_c (max(x, 0) - x t + log(1 + exp(-|x|))),
//   grad_r = weight_r / cols * (sigmoid(x) - t).
//
//   x, grad, targets [rows, stride], of which `cols` columns count;  labels, weight, losses [rows]
//
// Bytes a row of C columns: CROSS_ENTROPY 8 C + 12 (x is read 3 times, twice from the cache), BINARY_CROSS_ENTROPY
// 12 C + 8; of weight 0 4 C + 8.

#param rows: u32
#param cols: u32
#param stride: u32
#read x: array<f32>
#ifdef CROSS_ENTROPY
#read labels: array<u32>
#endif
#ifdef BINARY_CROSS_ENTROPY
#read targets: array<f32>
#endif
#read weight: array<f32>
#write losses: array<f32>
#write grad: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if row >= p.rows {
        return;
    }
    let first = row * p.stride;
    if weight[row] == 0.0 {
        losses[row] = 0.0;
        for (var c = 0u; c < p.cols; c++) {
            grad[first + c] = 0.0;
        }
        return;
    }
#ifdef CROSS_ENTROPY
    let w = weight[row];
    // Labels past the last class only stand in rows that were meant to weigh nothing.
    let label = min(labels[row], p.cols - 1u);
    var largest = x[first];
    for (var c = 1u; c < p.cols; c++) {
        largest = max(largest, x[first + c]);
    }
    var sum = 0.0;
    for (var c = 0u; c < p.cols; c++) {
        sum += exp(x[first + c] - largest);
    }
    losses[row] = w * (log(sum) + largest - x[first + label]);
    for (var c = 0u; c < p.cols; c++) {
        grad[first + c] = w * (exp(x[first + c] - largest) / sum - select(0.0, 1.0, c == label));
    }
#endif
#ifdef BINARY_CROSS_ENTROPY
    let w = weight[row] / f32(p.cols);
    var loss = 0.0;
    for (var c = 0u; c < p.cols; c++) {
        let v = x[first + c];
        let t = targets[first + c];
        loss += max(v, 0.0) - v * t + log(1.0 + exp(-abs(v)));
        grad[first + c] = w * (1.0 / (1.0 + exp(-v)) - t);
    }
    losses[row] = w * loss;
#endif
}
