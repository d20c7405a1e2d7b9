// One step of Adam or AdamW (DECOUPLED) for one parameter, one number a thread; 28 bytes a number, g, w, m, v [entries]. See src/backend/kernels/optim.rs for the formula.

#include random

#param entries: u32
#param beta1: f32
#param beta2: f32
#param epsilon: f32
#param weight_decay: f32
#read state: StepData
#read g: array<f32>
#write w: array<f32>
#write m: array<f32>
#write v: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let at = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if at >= p.entries {
        return;
    }
    var weight = w[at];
    var grad = g[at];
#ifdef DECOUPLED
    weight -= state.learning_rate * p.weight_decay * weight;
#else
    grad += p.weight_decay * weight;
#endif
    let first = p.beta1 * m[at] + (1.0 - p.beta1) * grad;
    let second = p.beta2 * v[at] + (1.0 - p.beta2) * grad * grad;
    m[at] = first;
    v[at] = second;
    w[at] = weight - state.learning_rate / state.bias_correction1 * first
        / (sqrt(second) / state.bias_correction2_sqrt + p.epsilon);
}
