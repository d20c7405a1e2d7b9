// Heads side by side in a row, one thread a number of the output.
//
// EXTEND: out_ih = (x_ih, W_h^T x_ih), from C to C + D channels a head
// FOLD:   out_ih = y_ih + W_h t_ih of x_ih = (y_ih, t_ih), from C + D to C channels a head
// BLOCKS: out[h, c, d] = x[h, c][h, C + d]: of a product of all heads with all heads, those of a head with itself
// MEAN:   out_i = sum over h of x_ih / heads
// SPREAD: out_ih = x_i / heads
//
//   x, out [rows, heads * C or heads * (C + D)], of MEAN's output and SPREAD's input [rows, C]
//   BLOCKS: x [heads * C, heads * (C + D)], out [heads * C, D];  weight [heads * C, D]
//   the sums run in the order of the channels, attributes or heads
//
// Bytes: 4 for each number of input and output; EXTEND reads a row D times and FOLD its attributes C times, from the cache.
// Source: linear functions moved across sums, as for edge features in "Masked Label Prediction" (Shi et al., IJCAI 2021).

#param tasks: u32
#param heads: u32
#param channels: u32
#param attributes: u32
#param x_stride: u32
#param weight_stride: u32
#param out_stride: u32
#read x: array<f32>
#ifdef EXTEND
#read weight: array<f32>
#endif
#ifdef FOLD
#read weight: array<f32>
#endif
#write out: array<f32>

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if index >= p.tasks {
        return;
    }
#ifdef EXTEND
    let wide = p.channels + p.attributes;
    let row = index / (p.heads * wide);
    let column = index % (p.heads * wide);
    let head = column / wide;
    let c = column % wide;
    let first = row * p.x_stride + head * p.channels;
    var value = 0.0;
    if c < p.channels {
        value = x[first + c];
    } else {
        for (var i = 0u; i < p.channels; i++) {
            value += x[first + i] * weight[(head * p.channels + i) * p.weight_stride + c - p.channels];
        }
    }
#endif
#ifdef FOLD
    let wide = p.channels + p.attributes;
    let row = index / (p.heads * p.channels);
    let column = index % (p.heads * p.channels);
    let first = row * p.x_stride + column / p.channels * wide;
    var value = x[first + column % p.channels];
    for (var d = 0u; d < p.attributes; d++) {
        value += weight[column * p.weight_stride + d] * x[first + p.channels + d];
    }
#endif
#ifdef BLOCKS
    let row = index / p.attributes;
    let column = index % p.attributes;
    let head = row / p.channels;
    let value = x[row * p.x_stride + head * (p.channels + p.attributes) + p.channels + column];
#endif
#ifdef MEAN
    let row = index / p.channels;
    let column = index % p.channels;
    var value = 0.0;
    for (var head = 0u; head < p.heads; head++) {
        value += x[row * p.x_stride + head * p.channels + column];
    }
    value /= f32(p.heads);
#endif
#ifdef SPREAD
    let row = index / (p.heads * p.channels);
    let column = index % (p.heads * p.channels);
    let value = x[row * p.x_stride + column % p.channels] / f32(p.heads);
#endif
    out[row * p.out_stride + column] = value;
}
