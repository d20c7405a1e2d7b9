// The step between numbers of 32 and of 16 bits.
//
// NARROW: out = x rounded, x [rows, cols] of f32 and out of halves; without, the other way round and exact. Rows of the
// two are padded differently: widths are counted in units of 4 numbers, single columns (SCALAR) in numbers. A thread
// does one unit; 256 threads a workgroup. 6 bytes are moved a number.

#include half

#param count: u32
#param units: u32
#param x_stride: u32
#param out_stride: u32
#ifdef NARROW
#ifdef SCALAR
#read x: array<f32>
#write out: array<u32>
#else
#read x: array<vec4<f32>>
#write out: array<vec2<u32>>
#endif
#else
#ifdef SCALAR
#read x: array<u32>
#write out: array<f32>
#else
#read x: array<vec2<u32>>
#write out: array<vec4<f32>>
#endif
#endif

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = group_index(group, groups) * WORKGROUP_SIZE + thread;
    if i >= p.count {
        return;
    }
    let row = i / p.units;
    let unit = i % p.units;
    let source_at = row * p.x_stride + unit;
    let target_at = row * p.out_stride + unit;
#ifdef NARROW
#ifdef SCALAR
    out[target_at] = half_bits(vec4<f32>(x[source_at])).x;
#else
    out[target_at] = pack_half(x[source_at]);
#endif
#else
#ifdef SCALAR
    out[target_at] = unpack_word(x[source_at]).x;
#else
    out[target_at] = unpack_half(x[source_at]);
#endif
#endif
}
