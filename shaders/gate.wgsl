// The gate between a node and its neighbours (Shi et al., "Masked Label Prediction", IJCAI 2021). 16 threads a row,
// merged in a fixed tree.
//
// FORWARD:  b_i = sigmoid(<w, (x_i, r_i, x_i - r_i)>), out_i = b_i r_i + (1 - b_i) x_i
// BACKWARD: z_i = <g_i, r_i - x_i> b_i (1 - b_i), grad_x_i = (1 - b_i) g_i + z_i (w_1 + w_3),
//           grad_r_i = b_i g_i + z_i (w_2 - w_3)
// WEIGHT:   out = (u, t, u - t) of x = u and r = t, [1, cols] each: one thread a number
//
//   x, r, g, out, grad_x, grad_r [rows, cols];  w [1, 3 cols];  b, z [rows, 1]
//
// Bytes a number: FORWARD 12, BACKWARD 20 (and 8 or 12 more from the cache).

#param rows: u32
#param cols: u32
#param stride: u32
#read x: array<f32>
#read r: array<f32>
#ifdef FORWARD
#read w: array<f32>
#write out: array<f32>
#write b: array<f32>
#endif
#ifdef BACKWARD
#read w: array<f32>
#read b: array<f32>
#read g: array<f32>
#write grad_x: array<f32>
#write grad_r: array<f32>
#write z: array<f32>
#endif

#ifdef WEIGHT
#write out: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let c = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if c < p.cols {
        out[c] = x[c];
        out[p.cols + c] = r[c];
        out[2u * p.cols + c] = x[c] - r[c];
    }
}
#else

#include lanes
alias Sum = f32;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let task = group_index(group, groups) * (WORKGROUP_SIZE / LANES) + thread / LANES;
    let lane = thread % LANES;
    // Threads past the last row repeat it, so that all meet at the barriers, and write nothing.
    let row = min(task, p.rows - 1u);
    let first = row * p.stride;
    var sum = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        let node = x[first + c];
        let root = r[first + c];
#ifdef FORWARD
        sum += w[c] * node + w[p.cols + c] * root + w[2u * p.cols + c] * (node - root);
#endif
#ifdef BACKWARD
        sum += g[first + c] * (root - node);
#endif
    }
    sum = sum_over_lanes(sum, thread, LANES);
    if task >= p.rows {
        return;
    }
#ifdef FORWARD
    let gate = 1.0 / (1.0 + exp(-sum));
    if lane == 0u {
        b[row] = gate;
    }
#endif
#ifdef BACKWARD
    let gate = b[row];
    let slope = sum * gate * (1.0 - gate);
    if lane == 0u {
        z[row] = slope;
    }
#endif
    for (var c = lane; c < p.cols; c += LANES) {
#ifdef FORWARD
        out[first + c] = gate * r[first + c] + (1.0 - gate) * x[first + c];
#endif
#ifdef BACKWARD
        let gradient = g[first + c];
        grad_x[first + c] = (1.0 - gate) * gradient + slope * (w[c] + w[2u * p.cols + c]);
        grad_r[first + c] = gate * gradient + slope * (w[p.cols + c] - w[2u * p.cols + c]);
#endif
    }
}
#endif
