// Functions row by row: a warp a row, lanes across the columns, merged in a fixed tree.
//
// row_dot:       out_r = <x_r, y_r> / divisor_r, 0 where the divisor is 0
// l2_normalize:  out_r = x_r / max(|x_r|, epsilon); its gradient (g_r - x_r <g_r, x_r> / |x_r|^2) / |x_r|, or g_r / epsilon
// argmax:        the column of the largest entry, the first of equals
// cross_entropy: losses_r = weight_r (log sum exp x_r - x_r,label), out_r = weight_r (softmax(x_r) - onehot(label))
// binary_cross_entropy, w = weight_r / cols: losses_r = w sum_c (max(x, 0) - x t + log(1 + exp(-|x|))), out = w (sigmoid(x) - t)
//
//   x, y, out [rows, stride] features; divisor, losses, weight [rows]; labels, winners [rows]
//
// Bytes a row: every operand once (again where a second pass over the row needs it, from the cache).
#include "common.cuh"

struct RowArgs {
    const feature* x;
    const feature* y;
    feature* out;
    const float* divisor;
    const float* weight;
    float* losses;
    const u32* labels;
    u32* winners;
    u64 stride;
    u64 out_stride;
    u32 rows;
    u32 cols;
    float epsilon;
    u32 padding;
};

#define LANE (threadIdx.x % WARP)
#define ROW ((u32)(((u64)blockIdx.x * THREADS + threadIdx.x) / WARP))

__device__ __forceinline__ float max_over_warp(float value) {
    for (u32 half = WARP / 2; half > 0; half /= 2) {
        value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, half));
    }
    return value;
}

__device__ __forceinline__ float dot_of_rows(const feature* a, const feature* b, u32 cols) {
    float sum = 0.0f;
    for (u32 c = LANE; c < cols; c += WARP) {
        sum = fmaf(to_float(a[c]), to_float(b[c]), sum);
    }
    return sum_over_lanes(sum, WARP);
}

// out_r = <x_r, y_r> / divisor_r, 0 where the divisor is 0; out is floats.
KERNEL(row_dot, RowArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    float sum = dot_of_rows(p.x + row * p.stride, p.y + row * p.stride, p.cols);
    if (p.divisor) {
        const float divisor = p.divisor[row];
        sum = divisor == 0.0f ? 0.0f : sum / divisor;
    }
    if (LANE == 0) {
        p.losses[row] = sum;
    }
}

// out_r = x_r / max(|x_r|, epsilon)
KERNEL(l2_normalize, RowArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    const float scale = 1.0f / fmaxf(sqrtf(dot_of_rows(x, x, p.cols)), p.epsilon);
    for (u32 c = LANE; c < p.cols; c += WARP) {
        p.out[row * p.out_stride + c] = to_feature(to_float(x[c]) * scale);
    }
}

// The gradient of that towards x, y being the gradient of its output.
KERNEL(l2_normalize_grad, RowArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    const feature* g = p.y + row * p.stride;
    const float norm = sqrtf(dot_of_rows(x, x, p.cols));
    const float scale = 1.0f / fmaxf(norm, p.epsilon);
    const float along = dot_of_rows(g, x, p.cols) * scale * scale * (norm > p.epsilon ? 1.0f : 0.0f);
    for (u32 c = LANE; c < p.cols; c += WARP) {
        p.out[row * p.out_stride + c] = to_feature((to_float(g[c]) - to_float(x[c]) * along) * scale);
    }
}

// The column of the largest entry, the first of equals. A NaN is never larger.
KERNEL(argmax, RowArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    // As a loop from the first column on: nothing is larger than a NaN that stands there.
    const float first = to_float(x[0]);
    float best = first;
    u32 winner = 0;
    for (u32 c = LANE; c < p.cols; c += WARP) {
        const float value = to_float(x[c]);
        if (value > best) {
            best = value;
            winner = c;
        }
    }
    for (u32 half = WARP / 2; half > 0; half /= 2) {
        const float other = __shfl_xor_sync(FULL_WARP, best, half);
        const u32 column = __shfl_xor_sync(FULL_WARP, winner, half);
        if (other > best || (other == best && column < winner)) {
            best = other;
            winner = column;
        }
    }
    if (LANE == 0) {
        p.winners[row] = winner;
    }
}

// losses_r = weight_r (log sum_c exp(x_rc) - x_r,label), out_rc = weight_r (softmax(x_r)_c - [c = label])
KERNEL(cross_entropy, RowArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const feature* x = p.x + row * p.stride;
    feature* grad = p.out + row * p.out_stride;
    const float weight = p.weight[row];
    if (weight == 0.0f) {
        for (u32 c = LANE; c < p.cols; c += WARP) {
            grad[c] = to_feature(0.0f);
        }
        if (LANE == 0) {
            p.losses[row] = 0.0f;
        }
        return;
    }
    float largest = -__int_as_float(0x7f800000);
    for (u32 c = LANE; c < p.cols; c += WARP) {
        largest = fmaxf(largest, to_float(x[c]));
    }
    largest = max_over_warp(largest);
    float sum = 0.0f;
    for (u32 c = LANE; c < p.cols; c += WARP) {
        sum += expf(to_float(x[c]) - largest);
    }
    sum = sum_over_lanes(sum, WARP);
    // Labels past the last class only stand in rows that were meant to weigh nothing.
    const u32 label = min(p.labels[row], p.cols - 1);
    for (u32 c = LANE; c < p.cols; c += WARP) {
        const float share = expf(to_float(x[c]) - largest) / sum;
        grad[c] = to_feature(weight * (share - (c == label ? 1.0f : 0.0f)));
    }
    if (LANE == 0) {
        p.losses[row] = weight * (logf(sum) + largest - to_float(x[label]));
    }
}

// With w = weight_r / C and targets t = y: losses_r = w sum_c (max(x, 0) - x t + log(1 + exp(-|x|))), out_rc = w (sigmoid(x) - t)
KERNEL(binary_cross_entropy, RowArgs, THREADS) {
    const u32 row = ROW;
    if (row >= p.rows) {
        return;
    }
    const float weight = p.weight[row] / (float)p.cols;
    float loss = 0.0f;
    for (u32 c = LANE; c < p.cols; c += WARP) {
        float grad = 0.0f;
        if (weight != 0.0f) {
            const float x = to_float(p.x[row * p.stride + c]);
            const float t = to_float(p.y[row * p.stride + c]);
            loss += fmaxf(x, 0.0f) - x * t + log1pf(expf(-fabsf(x)));
            grad = weight * (1.0f / (1.0f + expf(-x)) - t);
        }
        p.out[row * p.out_stride + c] = to_feature(grad);
    }
    loss = sum_over_lanes(loss, WARP);
    if (LANE == 0) {
        p.losses[row] = weight * loss;
    }
}
