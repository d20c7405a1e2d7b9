// Parameter updates, as src/backend/kernels/optim.rs has them.
//
// ADAM: m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, w <- w - rate / c1 * m / (sqrt(v) / c2 + epsilon),
//   c1 and c2 being the step's corrections. Weight decay adds decay w to g, or (DECOUPLED, AdamW) takes rate decay w from
//   w. SCALED: g is that of a loss that was multiplied by a scale, and is divided by it; nothing happens where the step
//   is skipped. One number a thread.
// OVERFLOW: whether a number of g is not finite; one number a thread.
// SCALE: one thread halves the scale after an overflow and skips the step, or doubles it after `growth_interval` steps
//   without one.
//
//   g, w, m, v [rows, stride], flat and padding included; OVERFLOW looks at the `cols` columns that count
//
// Bytes a number: ADAM 28, OVERFLOW 4.
// Source: "Adam: A Method for Stochastic Optimization" (Kingma, Ba, ICLR 2015); "Decoupled Weight Decay Regularization"
// (Loshchilov, Hutter, ICLR 2019); "Mixed Precision Training" (Micikevicius et al., ICLR 2018).

#include random

struct LossScale {
    scale: f32,
    inverse: f32,
    good_steps: u32,
    updates: u32,
    overflow: atomic<u32>,
    skip: u32,
    bias_correction1: f32,
    bias_correction2_sqrt: f32,
}

#ifdef ADAM
#param entries: u32
#param beta1: f32
#param beta2: f32
#param epsilon: f32
#param weight_decay: f32
#read state: StepData
#ifdef SCALED
#write loss: LossScale
#endif
#read g: array<f32>
#write w: array<f32>
#write m: array<f32>
#write v: array<f32>
#endif

#ifdef OVERFLOW
#param entries: u32
#param stride: u32
#param cols: u32
#read g: array<f32>
#write loss: LossScale
#endif

#ifdef SCALE
#param ln_beta1: f32
#param ln_beta2: f32
#param growth_interval: u32
#param largest: f32
#write loss: LossScale

// 1 - exp(-y); the series keeps the digits that the difference would lose.
fn complement(y: f32) -> f32 {
    let series = y * (1.0 - y / 2.0 * (1.0 - y / 3.0 * (1.0 - y / 4.0 * (1.0 - y / 5.0 * (1.0 - y / 6.0 * (1.0 - y / 7.0))))));
    return select(1.0 - exp(-y), series, y < 0.5);
}
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = group_index(group, groups) * WORKGROUP_SIZE + thread;
#ifdef ADAM
    if at >= p.entries {
        return;
    }
    var weight = w[at];
    var grad = g[at];
    var correction1 = state.bias_correction1;
    var correction2_sqrt = state.bias_correction2_sqrt;
#ifdef SCALED
    if loss.skip != 0u {
        return;
    }
    grad *= loss.inverse;
    correction1 = loss.bias_correction1;
    correction2_sqrt = loss.bias_correction2_sqrt;
#endif
#ifdef DECOUPLED
    weight -= state.learning_rate * p.weight_decay * weight;
#else
    grad += p.weight_decay * weight;
#endif
    let first = p.beta1 * m[at] + (1.0 - p.beta1) * grad;
    let second = p.beta2 * v[at] + (1.0 - p.beta2) * grad * grad;
    m[at] = first;
    v[at] = second;
    w[at] = weight - state.learning_rate / correction1 * first / (sqrt(second) / correction2_sqrt + p.epsilon);
#endif
#ifdef OVERFLOW
    if at >= p.entries || at % p.stride >= p.cols {
        return;
    }
    // By bits: compilers may assume that numbers are finite.
    if (bitcast<u32>(g[at]) & 0x7f800000u) == 0x7f800000u {
        atomicStore(&loss.overflow, 1u);
    }
#endif
#ifdef SCALE
    if at > 0u {
        return;
    }
    let skip = atomicLoad(&loss.overflow);
    atomicStore(&loss.overflow, 0u);
    loss.skip = skip;
    loss.inverse = 1.0 / loss.scale;
    if skip != 0u {
        loss.scale = max(0.5 * loss.scale, 1.0);
        loss.good_steps = 0u;
        return;
    }
    loss.updates += 1u;
    loss.good_steps += 1u;
    loss.bias_correction1 = complement(-p.ln_beta1 * f32(loss.updates));
    loss.bias_correction2_sqrt = sqrt(complement(-p.ln_beta2 * f32(loss.updates)));
    if loss.good_steps >= p.growth_interval {
        loss.scale = min(2.0 * loss.scale, p.largest);
        loss.good_steps = 0u;
    }
#endif
}
