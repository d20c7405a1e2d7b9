// Adam and AdamW: w -= rate / c1 * m / (sqrt(v) / c2 + epsilon), a thread a number; the step's own numbers are in device memory.
//
//   w, g, m, v [count] floats
//
// Bytes a number: 28. Source: "Adam: A Method for Stochastic Optimization" (Kingma, Ba, ICLR 2015); "Decoupled Weight Decay
// Regularization" (Loshchilov, Hutter, ICLR 2019).
#include "random.cuh"

struct AdamArgs {
    const StepData* state;
    float* w;
    const float* g;
    float* m;
    float* v;
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
    const float rate = learning_rate / p.state->bias_correction1;
    float w = p.w[at];
    float g = p.g[at];
    if (p.decoupled) {
        w -= learning_rate * p.weight_decay * w;
    } else {
        g += p.weight_decay * w;
    }
    const float m = p.beta1 * p.m[at] + (1.0f - p.beta1) * g;
    const float v = p.beta2 * p.v[at] + (1.0f - p.beta2) * g * g;
    p.m[at] = m;
    p.v[at] = v;
    p.w[at] = w - rate * m / (sqrtf(v) / p.state->bias_correction2_sqrt + p.epsilon);
}
