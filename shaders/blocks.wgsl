// Blocks of columns, one thread a number of the output.
//
// COPY:   out[to_row + r, to_col + c] = x[from_row + r, from_col + c]
// SPREAD: out[r, b C + c] = weight[r, b] x[r, c] (+ y[r, b C + c])
// MERGE:  out[r, c] = sum over b of weight[r, b] x[r, b C + c] (+ y[r, c]), in the order of the blocks
//
//   COPY: `cols` is the width of the block, x and out [any rows, stride]
//   SPREAD: x [rows, C], y and out [rows, B C];  MERGE: x [rows, B C], y and out [rows, C];  weight [rows, B]
//
// Bytes a number of the output: COPY 8; SPREAD 4, + 4 (y), and 4 / B of x, which is read once a block, from the cache;
// MERGE 4 B + 4, + 4 (y). 4 more a block of a row for its weight.

#param tasks: u32
#param cols: u32
#param x_stride: u32
#param out_stride: u32
#ifdef COPY
#param from_row: u32
#param from_col: u32
#param to_row: u32
#param to_col: u32
#else
#param blocks: u32
#param weight_stride: u32
#read weight: array<f32>
#endif
#read x: array<f32>
#ifdef WITH_Y
#read y: array<f32>
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
#ifdef COPY
    let row = index / p.cols;
    let column = index % p.cols;
    out[(p.to_row + row) * p.out_stride + p.to_col + column] =
        x[(p.from_row + row) * p.x_stride + p.from_col + column];
#endif
#ifdef SPREAD
    let row = index / (p.blocks * p.cols);
    let column = index % (p.blocks * p.cols);
    let at = row * p.out_stride + column;
    var value = weight[row * p.weight_stride + column / p.cols] * x[row * p.x_stride + column % p.cols];
#ifdef WITH_Y
    value += y[at];
#endif
    out[at] = value;
#endif
#ifdef MERGE
    let row = index / p.cols;
    let column = index % p.cols;
    let at = row * p.out_stride + column;
    var value = 0.0;
    for (var b = 0u; b < p.blocks; b++) {
        value += weight[row * p.weight_stride + b] * x[row * p.x_stride + b * p.cols + column];
    }
#ifdef WITH_Y
    value += y[at];
#endif
    out[at] = value;
#endif
}
