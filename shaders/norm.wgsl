// Batch and layer normalisation. h is the normalised x, h = (x - mean) * inverse_deviation.
//
// COLUMNS:      out = h weight + bias, with the mean and deviation of each column (Ioffe, Szegedy, "Batch
//               Normalization", ICML 2015). 4 numbers a thread, padding included.
// COLUMNS_GRAD: out = weight inverse_deviation g, and SUMS: g - (g_sum + h inverse_deviation product_sum) / rows in the
//               place of g, where the statistics are those of x itself
// ROWS:         out = h weight + bias, with the mean and deviation of each row (Ba, Kiros, Hinton, "Layer
//               Normalization", 2016). 16 threads a row, merged in a fixed tree.
// ROWS_GRAD:    grad_x = inverse_deviation (v - mean(v) - h mean(v h)), v = g weight; KEEP: scaled = g h, whose column
//               sums are the gradient of the weight
//
//   x, g, out, grad_x, scaled [rows, cols];  weight, bias, mean, inverse_deviation, g_sum, product_sum [1, cols]
//
// Bytes a number: COLUMNS and ROWS 8, COLUMNS_GRAD 8 or 12, ROWS_GRAD 12 or 16; ROWS reads its row 3 times and
// ROWS_GRAD 4 times, from the cache.

#ifdef COLUMNS
#param entries: u32
#param stride: u32
#read x: array<vec4<f32>>
#read mean: array<f32>
#read inverse_deviation: array<f32>
#ifdef WEIGHTED
#read weight: array<f32>
#read bias: array<f32>
#endif
#write out: array<vec4<f32>>
#endif
#ifdef COLUMNS_GRAD
#param entries: u32
#param stride: u32
#read g: array<vec4<f32>>
#read inverse_deviation: array<f32>
#ifdef WEIGHTED
#read weight: array<f32>
#endif
#ifdef SUMS
#param share: f32
#read x: array<vec4<f32>>
#read mean: array<f32>
#read g_sum: array<f32>
#read product_sum: array<f32>
#endif
#write out: array<vec4<f32>>
#endif

#ifdef ROWS
#param rows: u32
#param cols: u32
#param stride: u32
#param epsilon: f32
#read x: array<f32>
#ifdef WEIGHTED
#read weight: array<f32>
#read bias: array<f32>
#endif
#write out: array<f32>
#include lanes
alias Sum = f32;
#endif
#ifdef ROWS_GRAD
#param rows: u32
#param cols: u32
#param stride: u32
#param epsilon: f32
#read x: array<f32>
#read g: array<f32>
#ifdef WEIGHTED
#read weight: array<f32>
#endif
#write grad_x: array<f32>
#ifdef KEEP
#write scaled: array<f32>
#endif
#include lanes
alias Sum = f32;
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
#ifdef COLUMNS
    let q = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if q * 4u >= p.entries {
        return;
    }
    let value = x[q];
    var result: vec4<f32>;
    for (var c = 0u; c < 4u; c++) {
        // The stride is 1 or a multiple of 4: a quad lies within a row or is four rows.
        let column = select(q * 4u % p.stride + c, 0u, p.stride == 1u);
        result[c] = (value[c] - mean[column]) * inverse_deviation[column];
#ifdef WEIGHTED
        result[c] = result[c] * weight[column] + bias[column];
#endif
    }
    out[q] = result;
#endif
#ifdef COLUMNS_GRAD
    let q = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if q * 4u >= p.entries {
        return;
    }
    var result = g[q];
    for (var c = 0u; c < 4u; c++) {
        let column = select(q * 4u % p.stride + c, 0u, p.stride == 1u);
        var scale = inverse_deviation[column];
#ifdef SUMS
        let along = (x[q][c] - mean[column]) * scale * scale * product_sum[column];
        result[c] -= (g_sum[column] + along) * p.share;
#endif
#ifdef WEIGHTED
        scale *= weight[column];
#endif
        result[c] *= scale;
    }
    out[q] = result;
#endif
#ifdef ROWS
    let task = group_index(group, groups) * (WORKGROUP_SIZE / LANES) + thread / LANES;
    let lane = thread % LANES;
    // Threads past the last row repeat it, so that all meet at the barriers, and write nothing.
    let first = min(task, p.rows - 1u) * p.stride;
    var sum = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        sum += x[first + c];
    }
    let mean = sum_over_lanes(sum, thread, LANES) / f32(p.cols);
    var square = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        square += (x[first + c] - mean) * (x[first + c] - mean);
    }
    let scale = 1.0 / sqrt(sum_over_lanes(square, thread, LANES) / f32(p.cols) + p.epsilon);
    if task >= p.rows {
        return;
    }
    for (var c = lane; c < p.cols; c += LANES) {
        let h = (x[first + c] - mean) * scale;
#ifdef WEIGHTED
        out[first + c] = h * weight[c] + bias[c];
#else
        out[first + c] = h;
#endif
    }
#endif
#ifdef ROWS_GRAD
    let task = group_index(group, groups) * (WORKGROUP_SIZE / LANES) + thread / LANES;
    let lane = thread % LANES;
    let first = min(task, p.rows - 1u) * p.stride;
    var sum = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        sum += x[first + c];
    }
    let mean = sum_over_lanes(sum, thread, LANES) / f32(p.cols);
    var square = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        square += (x[first + c] - mean) * (x[first + c] - mean);
    }
    let scale = 1.0 / sqrt(sum_over_lanes(square, thread, LANES) / f32(p.cols) + p.epsilon);
    var v_sum = 0.0;
    var product_sum = 0.0;
    for (var c = lane; c < p.cols; c += LANES) {
        var v = g[first + c];
#ifdef WEIGHTED
        v *= weight[c];
#endif
        v_sum += v;
        product_sum += v * (x[first + c] - mean) * scale;
    }
    let v_mean = sum_over_lanes(v_sum, thread, LANES) / f32(p.cols);
    let product_mean = sum_over_lanes(product_sum, thread, LANES) / f32(p.cols);
    if task >= p.rows {
        return;
    }
    for (var c = lane; c < p.cols; c += LANES) {
        let h = (x[first + c] - mean) * scale;
        var v = g[first + c];
#ifdef KEEP
        scaled[first + c] = v * h;
#endif
#ifdef WEIGHTED
        v *= weight[c];
#endif
        grad_x[first + c] = scale * (v - v_mean - h * product_mean);
    }
#endif
}
