// Adam and AdamW: w -= rate / c1 * m / (sqrt(v) / c2 + epsilon), a thread a number; the step's own numbers are in device memory.
//
//   w, g, m, v [count] floats
//
// With a `scale`, gradients are those of a loss that was multiplied by it; see src/backend/kernels/optim.rs. find_overflow looks for
// numbers that are not finite (4 bytes a number), update_scale is one thread that decides about the step and the next scale.
//
// Bytes a number of Adam: 28. Source: "Adam: A Method for Stochastic Optimization" (Kingma, Ba, ICLR 2015); "Decoupled Weight Decay
// Regularization" (Loshchilov, Hutter, ICLR 2019).
#include "random.cuh"

struct LossScale {
    float scale;
    float inverse;
    u32 good_steps;
    u32 updates;
    u32 overflow;
    u32 skip;
    float bias_correction1;
    float bias_correction2_sqrt;
};

struct AdamArgs {
    const StepData* state;
    float* w;
    const float* g;
    float* m;
    float* v;
    const LossScale* scale;
    u64 count;
    float beta1;
    float beta2;
    float epsilon;
    float weight_decay;
    u32 decoupled;
    u32 padding;
};

KERNEL(adam, AdamArgs, THREADS) {
    const u64 at = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.count) {
        return;
    }
    const float learning_rate = p.state->learning_rate;
    float correction1 = p.state->bias_correction1;
    float correction2_sqrt = p.state->bias_correction2_sqrt;
    float w = p.w[at];
    float g = p.g[at];
    if (p.scale) {
        if (p.scale->skip) {
            return;
        }
        g *= p.scale->inverse;
        correction1 = p.scale->bias_correction1;
        correction2_sqrt = p.scale->bias_correction2_sqrt;
    }
    const float rate = learning_rate / correction1;
    if (p.decoupled) {
        w -= learning_rate * p.weight_decay * w;
    } else {
        g += p.weight_decay * w;
    }
    const float m = p.beta1 * p.m[at] + (1.0f - p.beta1) * g;
    const float v = p.beta2 * p.v[at] + (1.0f - p.beta2) * g * g;
    p.m[at] = m;
    p.v[at] = v;
    p.w[at] = w - rate * m / (sqrtf(v) / correction2_sqrt + p.epsilon);
}

struct OverflowArgs {
    const float* g;
    LossScale* scale;
    u64 count;
    u64 stride;
    u64 cols;
};

KERNEL(find_overflow, OverflowArgs, THREADS) {
    const u64 at = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (at >= p.count || at % p.stride >= p.cols) {
        return;
    }
    // Every thread that finds one writes the same number.
    if (!(fabsf(p.g[at]) <= 3.4028234664e38f)) {
        p.scale->overflow = 1;
    }
}

struct ScaleArgs {
    LossScale* scale;
    float ln_beta1;
    float ln_beta2;
    float largest;
    u32 growth_interval;
};

KERNEL(update_scale, ScaleArgs, THREADS) {
    if (blockIdx.x != 0 || threadIdx.x != 0) {
        return;
    }
    LossScale s = *p.scale;
    s.inverse = 1.0f / s.scale;
    s.skip = s.overflow;
    s.overflow = 0;
    if (s.skip) {
        s.scale = fmaxf(0.5f * s.scale, 1.0f);
        s.good_steps = 0;
    } else {
        s.updates++;
        s.good_steps++;
        s.bias_correction1 = -expm1f((float)s.updates * p.ln_beta1);
        s.bias_correction2_sqrt = sqrtf(-expm1f((float)s.updates * p.ln_beta2));
        if (s.good_steps >= p.growth_interval) {
            s.scale = fminf(2.0f * s.scale, p.largest);
            s.good_steps = 0;
        }
    }
    *p.scale = s;
}
