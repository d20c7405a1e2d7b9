// Numbers of 16 bits, two to a word, the lower half first: f16, or bf16 where BF16 is set.
//
// Loads are exact. Stores round to nearest even by bits, since the rounding of pack2x16float is up to the driver; what
// is too large for an f16 becomes infinite. No optional feature is needed: the bytes moved are those of native f16.

#ifdef BF16
fn unpack_word(w: u32) -> vec2<f32> {
    return bitcast<vec2<f32>>(vec2<u32>(w << 16u, w & 0xffff0000u));
}

fn half_bits(x: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(x);
    let rounded = (bits + 0x7fffu + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u))) >> vec4<u32>(16u);
    let is_nan = (bits & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
    return select(rounded, vec4<u32>(0x7fc0u), is_nan);
}
#else
fn unpack_word(w: u32) -> vec2<f32> {
    return unpack2x16float(w);
}

fn half_bits(x: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(x);
    let size = bits & vec4<u32>(0x7fffffffu);
    // From 2^-14 on: a smaller exponent, and 13 bits that are rounded away.
    let normal = (size - 0x38000000u + 0xfffu + ((size >> vec4<u32>(13u)) & vec4<u32>(1u))) >> vec4<u32>(13u);
    // Below: whole multiples of 2^-24.
    let shift = min(126u - min(size >> vec4<u32>(23u), vec4<u32>(112u)), vec4<u32>(25u));
    let mantissa = (size & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
    let whole = mantissa >> shift;
    let rest = mantissa - (whole << shift);
    let middle = vec4<u32>(1u) << (shift - 1u);
    let odd = (whole & vec4<u32>(1u)) == vec4<u32>(1u);
    let up = (rest > middle) | ((rest == middle) & odd);
    var half = select(normal, whole + select(vec4<u32>(), vec4<u32>(1u), up), size < vec4<u32>(0x38800000u));
    // From halfway between the largest number and the next one on.
    half = select(half, vec4<u32>(0x7c00u), size >= vec4<u32>(0x477ff000u));
    half = select(half, vec4<u32>(0x7e00u), size > vec4<u32>(0x7f800000u));
    return half | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
}
#endif

fn unpack_half(words: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack_word(words.x), unpack_word(words.y));
}

fn pack_half(x: vec4<f32>) -> vec2<u32> {
    let bits = half_bits(x);
    return bits.xz | (bits.yw << vec2<u32>(16u));
}
