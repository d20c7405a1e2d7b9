// Functions entry by entry.
//
// FILL: out = value.  ADD: out = a + b.  MUL: out = a b.  ADD_ASSIGN: out += x.  ADD_ROW: out_rc = x_rc + row_c.
// COMBINE: out = a x (+ b y).  SCALE_ADD: out = (offset + factor) x (+ y), the factor a number on the device.
// UNARY: out = f(x), f one of relu, leaky relu, elu, sigmoid, tanh, 1 / x and 1 / sqrt(x), both 0 where x is not positive.
// UNARY_GRAD: out = g f'(x), from y = f(x).
// Either with MASKED: out = f(x) / (1 - p) and out = g / (1 - p) f'(x) where the mask of DROPOUT keeps an entry, else 0, y
// being the former.
// DROPOUT: out_rc = x_rc / (1 - p) where the hash of row and column is at least p 2^32, else 0 (random.wgsl).
// DROPOUT_SPARSE: the same of the entries of a sparse matrix, whose rows and columns are given.
//
//   x, y, a, b, g, out [rows, stride], flat and padding included, in halves with HALF;  row [1, cols];  factor [1, 1]
//   rows, columns, values, out [entries] of DROPOUT_SPARSE
//
// 4 numbers a thread, 256 threads a workgroup. Bytes an entry: FILL 4, UNARY, ADD_ROW and DROPOUT 8, UNARY_GRAD, ADD, MUL and ADD_ASSIGN
// 12, COMBINE and SCALE_ADD 8 or 12, DROPOUT_SPARSE 16 (its row and column numbers besides); of halves half of that.

#ifdef MASKED
#include random
#param stride: u32
#param first_row: u32
#param layer: u32
#param threshold: u32
#param scale: f32
#read state: StepData
#endif
#ifdef DROPOUT_SPARSE
#include random
#endif

#param entries: u32
#ifdef FILL
#param value: u32
#write out: array<vec4<u32>>
#endif

#ifdef UNARY
#param parameter: f32
#read x: array<Packed>
#write out: array<Packed>
#endif

#ifdef UNARY_GRAD
#param parameter: f32
#ifdef MASKED
#param share: f32
#endif
#read y: array<Packed>
#read g: array<Packed>
#write out: array<Packed>
#endif

#ifdef ADD
#read a: array<Packed>
#read b: array<Packed>
#write out: array<Packed>
#endif

#ifdef MUL
#read a: array<Packed>
#read b: array<Packed>
#write out: array<Packed>
#endif

#ifdef COMBINE
#param a: f32
#param b: f32
#read x: array<Packed>
#ifdef WITH_Y
#read y: array<Packed>
#endif
#write out: array<Packed>
#endif

#ifdef ADD_ROW
#param stride: u32
#param row_end: u32
#read x: array<Packed>
#read row: array<f32>
#write out: array<Packed>
#endif

#ifdef ADD_ASSIGN
#read x: array<Packed>
#write out: array<Packed>
#endif

#ifdef SCALE_ADD
#param offset: f32
#read factor: array<f32>
#read x: array<Packed>
#ifdef WITH_Y
#read y: array<Packed>
#endif
#write out: array<Packed>
#endif

#ifdef DROPOUT
#read x: array<Packed>
#write out: array<Packed>
#endif

#ifdef DROPOUT_SPARSE
#param layer: u32
#param threshold: u32
#param scale: f32
#read state: StepData
#read rows: array<u32>
#read columns: array<u32>
#read values: array<f32>
#write out: array<f32>
#endif

#ifdef RELU
// Not max(x, 0), which may turn NaN into 0 and hide it.
fn apply(x: vec4<f32>) -> vec4<f32> { return select(x, vec4<f32>(), x <= vec4<f32>()); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(), vec4<f32>(1.0), y > vec4<f32>()); }
#endif
#ifdef LEAKY_RELU
fn apply(x: vec4<f32>) -> vec4<f32> { return select(p.parameter * x, x, x > vec4<f32>()); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(p.parameter), vec4<f32>(1.0), y > vec4<f32>()); }
#endif
#ifdef ELU
fn apply(x: vec4<f32>) -> vec4<f32> { return select(p.parameter * (exp(min(x, vec4<f32>())) - 1.0), x, x > vec4<f32>()); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return select(y + p.parameter, vec4<f32>(1.0), y > vec4<f32>()); }
#endif
#ifdef SIGMOID
fn apply(x: vec4<f32>) -> vec4<f32> { return 1.0 / (1.0 + exp(-x)); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return y * (1.0 - y); }
#endif
#ifdef TANH
// Clamped, since some drivers compute tanh as a quotient of exponentials that overflow.
fn apply(x: vec4<f32>) -> vec4<f32> { return tanh(clamp(x, vec4<f32>(-15.0), vec4<f32>(15.0))); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return 1.0 - y * y; }
#endif
#ifdef INVERSE
fn apply(x: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(), 1.0 / max(x, vec4<f32>(1e-38)), x > vec4<f32>()); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return -y * y; }
#endif
#ifdef INVERSE_SQRT
fn apply(x: vec4<f32>) -> vec4<f32> { return select(vec4<f32>(), inverseSqrt(max(x, vec4<f32>(1e-38))), x > vec4<f32>()); }
fn derivative(y: vec4<f32>) -> vec4<f32> { return -0.5 * y * y * y; }
#endif

#ifdef MASKED
// What the mask multiplies four numbers with, 0 where it drops one.
fn factors_of(q: u32) -> vec4<f32> {
    let key = dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
    let entry = q * 4u;
    var factors: vec4<f32>;
    for (var c = 0u; c < 4u; c++) {
        // The stride is 1 or a multiple of 4, so that a quad lies within a row or is four rows.
        let row = p.first_row + select(entry / p.stride, entry + c, p.stride == 1u);
        let column = select(entry % p.stride + c, 0u, p.stride == 1u);
        factors[c] = select(0.0, p.scale, dropout_hash(key, row, column) >= p.threshold);
    }
    return factors;
}

// Not a product with 0: what is dropped is 0 even where it was infinite.
fn masked(values: vec4<f32>, factors: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(), values * factors, factors > vec4<f32>());
}
#endif

#ifdef FILL
alias Quad = vec4<u32>;
#else
alias Quad = vec4<f32>;
#endif

#ifndef DROPOUT_SPARSE
// Stores a quad. The last one may be cut: the output may be the first rows of a larger matrix, whose other rows are not to be touched.
fn store(q: u32, value: Quad) {
#ifdef HALF
    // Rows of halves are whole quads.
    out[q] = pack_chunk(value);
#else
    let left = p.entries - q * 4u;
    if left >= 4u {
        out[q] = value;
        return;
    }
    for (var c = 0u; c < left; c++) {
        out[q][c] = value[c];
    }
#endif
}
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let q = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if q * 4u >= p.entries {
        return;
    }
#ifdef FILL
    store(q, vec4<u32>(p.value));
#endif
#ifdef UNARY
#ifdef MASKED
    store(q, masked(apply(unpack_chunk(x[q])), factors_of(q)));
#else
    store(q, apply(unpack_chunk(x[q])));
#endif
#endif
#ifdef UNARY_GRAD
#ifdef MASKED
    store(q, masked(unpack_chunk(g[q]), factors_of(q)) * derivative(p.share * unpack_chunk(y[q])));
#else
    store(q, unpack_chunk(g[q]) * derivative(unpack_chunk(y[q])));
#endif
#endif
#ifdef ADD
    store(q, unpack_chunk(a[q]) + unpack_chunk(b[q]));
#endif
#ifdef MUL
    store(q, unpack_chunk(a[q]) * unpack_chunk(b[q]));
#endif
#ifdef COMBINE
#ifdef WITH_Y
    store(q, p.a * unpack_chunk(x[q]) + p.b * unpack_chunk(y[q]));
#else
    store(q, p.a * unpack_chunk(x[q]));
#endif
#endif
#ifdef ADD_ROW
    var added: vec4<f32>;
    for (var c = 0u; c < 4u; c++) {
        // The stride is 1 or a multiple of 4, as in DROPOUT below; rows of halves are padded further than the one added.
        added[c] = row[min(select(q * 4u % p.stride + c, 0u, p.stride == 1u), p.row_end - 1u)];
    }
    store(q, unpack_chunk(x[q]) + added);
#endif
#ifdef ADD_ASSIGN
    store(q, unpack_chunk(out[q]) + unpack_chunk(x[q]));
#endif
#ifdef SCALE_ADD
    let scaled = (p.offset + factor[0]) * unpack_chunk(x[q]);
#ifdef WITH_Y
    store(q, scaled + unpack_chunk(y[q]));
#else
    store(q, scaled);
#endif
#endif
#ifdef DROPOUT
    store(q, masked(unpack_chunk(x[q]), factors_of(q)));
#endif
#ifdef DROPOUT_SPARSE
    let key = dropout_key(state.seed_low, state.seed_high, state.step, p.layer);
    for (var c = 0u; c < 4u; c++) {
        let k = q * 4u + c;
        if k < p.entries {
            let kept = dropout_hash(key, rows[k], columns[k]) >= p.threshold;
            out[k] = select(0.0, values[k] * p.scale, kept);
        }
    }
#endif
}
