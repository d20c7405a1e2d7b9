// The gate between a node and its neighbours: b_i = sigmoid(<w, (x_i, r_i, x_i - r_i)>), out_i = b_i r_i + (1 - b_i) x_i. Its gradients,
// with w in thirds: z_i = <g_i, r_i - x_i> b_i (1 - b_i), grad_x_i = (1 - b_i) g_i + z_i (w_1 + w_3), grad_r_i = b_i g_i + z_i (w_2 - w_3);
// grad_w = (u, t, u - t) of u = sum of z_i x_i and t = sum of z_i r_i.
//
//   x, r, g, out, grad_x, grad_r [rows, stride] features; weight [3 * cols], b, z [rows] floats; u, t [cols] floats
//
// A warp a row, lanes across the columns, merged in a fixed tree; of w a thread a column. Bytes a row of C columns, f those of a feature:
// 3 f C + 4 (x and r once more from the cache); backward 5 f C + 8 (g once more).
// Source: "Masked Label Prediction" (Shi et al., IJCAI 2021).
#include "common.cuh"

struct GateArgs {
    const feature* x;
    const feature* r;
    const float* weight;
    const feature* g;
    feature* out;
    feature* grad_x;
    feature* grad_r;
    float* b;
    float* z;
    const float* u;
    const float* t;
    float* grad_weight;
    u64 stride;
    u32 rows;
    u32 cols;
};

#define LANE (threadIdx.x % WARP)
#define ROW ((u32)(((u64)blockIdx.x * THREADS + threadIdx.x) / WARP))

KERNEL(gate_forward, GateArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    const feature* r = p.r + row * p.stride;
    feature* out = p.out + row * p.stride;
    const u64 cols = p.cols;
    float sum = 0.0f;
    for (u32 c = LANE; c < p.cols; c += WARP) {
        const float own = to_float(x[c]);
        const float other = to_float(r[c]);
        sum += p.weight[c] * own + p.weight[cols + c] * other + p.weight[2 * cols + c] * (own - other);
    }
    const float b = 1.0f / (1.0f + expf(-sum_over_lanes(sum, WARP)));
    for (u32 c = LANE; c < p.cols; c += WARP) {
        out[c] = to_feature(b * to_float(r[c]) + (1.0f - b) * to_float(x[c]));
    }
    if (LANE == 0) {
        p.b[row] = b;
    }
}

// z_i = <g_i, r_i - x_i> b_i (1 - b_i), grad_x_i = (1 - b_i) g_i + z_i (w_1 + w_3), grad_r_i = b_i g_i + z_i (w_2 - w_3)
KERNEL(gate_backward, GateArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    const feature* r = p.r + row * p.stride;
    const feature* g = p.g + row * p.stride;
    const u64 cols = p.cols;
    const float b = p.b[row];
    float sum = 0.0f;
    for (u32 c = LANE; c < p.cols; c += WARP) {
        sum = fmaf(to_float(g[c]), to_float(r[c]) - to_float(x[c]), sum);
    }
    const float z = sum_over_lanes(sum, WARP) * b * (1.0f - b);
    for (u32 c = LANE; c < p.cols; c += WARP) {
        const float upstream = to_float(g[c]);
        const float difference = p.weight[2 * cols + c];
        p.grad_x[row * p.stride + c] = to_feature((1.0f - b) * upstream + z * (p.weight[c] + difference));
        p.grad_r[row * p.stride + c] = to_feature(b * upstream + z * (p.weight[cols + c] - difference));
    }
    if (LANE == 0) {
        p.z[row] = z;
    }
}

// (u, t, u - t), a thread a column.
KERNEL(gate_weight, GateArgs, THREADS) {
    const u32 c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= p.cols) {
        return;
    }
    const u64 cols = p.cols;
    p.grad_weight[c] = p.u[c];
    p.grad_weight[cols + c] = p.t[c];
    p.grad_weight[2 * cols + c] = p.u[c] - p.t[c];
}
