// Functions row by row. 16 threads a row, merged in a fixed tree; ARGMAX one thread a row.
//
// ROW_DOT: out_r = <a_r, b_r> / divisor_r, 0 where the divisor is 0.
// L2: out_r = x_r / max(|x_r|, epsilon). L2_GRAD: out_r = (g_r - x_r <g_r, x_r> / |x_r|^2) / |x_r|, or g_r / epsilon.
// ARGMAX: out_r = the column of the largest entry, the first of equals.
//
//   a, b, x, g, out of L2 and L2_GRAD [rows, stride], of which `cols` columns count;  divisor, other out [rows]
//
// Bytes a row of C columns: ROW_DOT 8 C + 4, + 4 (divisor), L2 8 C, L2_GRAD 12 C (and as much again from the cache),
// ARGMAX 4 C + 4.

#param rows: u32
#param cols: u32
#param stride: u32
#ifdef ROW_DOT
#read a: array<f32>
#read b: array<f32>
#ifdef DIVISOR
#read divisor: array<f32>
#endif
#write out: array<f32>
#endif
#ifdef L2
#param epsilon: f32
#read x: array<f32>
#write out: array<f32>
#endif
#ifdef L2_GRAD
#param epsilon: f32
#read x: array<f32>
#read g: array<f32>
#write out: array<f32>
#endif
#ifdef ARGMAX
#read x: array<f32>
#write out: array<u32>
#endif

#ifdef ARGMAX
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
    var best = 0u;
    for (var c = 1u; c < p.cols; c++) {
        if x[row * p.stride + c] > x[row * p.stride + best] {
            best = c;
        }
    }
    out[row] = best;
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
#ifdef ROW_DOT
    var dot = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        dot += a[first + c] * b[first + c];
    }
    dot = sum_over_lanes(dot, thread, LANES);
    if lane == 0u && task < p.rows {
#ifdef DIVISOR
        let d = divisor[row];
        out[row] = select(dot / select(d, 1.0, d == 0.0), 0.0, d == 0.0);
#else
        out[row] = dot;
#endif
    }
#endif
#ifdef L2
    var square = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        square += x[first + c] * x[first + c];
    }
    let scale = 1.0 / max(sqrt(sum_over_lanes(square, thread, LANES)), p.epsilon);
    if task < p.rows {
        for (var c = lane; c < p.cols; c += LANES) {
            out[first + c] = x[first + c] * scale;
        }
    }
#endif
#ifdef L2_GRAD
    var square = 0.0;
    var product = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        square += x[first + c] * x[first + c];
        product += g[first + c] * x[first + c];
    }
    let norm = sqrt(sum_over_lanes(square, thread, LANES));
    product = sum_over_lanes(product, thread, LANES);
    let scale = 1.0 / max(norm, p.epsilon);
    let along = select(0.0, product * scale * scale, norm > p.epsilon);
    if task < p.rows {
        for (var c = lane; c < p.cols; c += LANES) {
            out[first + c] = (g[first + c] - x[first + c] * along) * scale;
        }
    }
#endif
}
#endif
