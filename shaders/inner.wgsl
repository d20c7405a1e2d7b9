// The product of two chunks added to a sum. What gradients subtract from <g, v>, and that product itself, are computed
// in this one way, and cancel to the bit where a row has one edge.

#ifdef SCALAR
fn add_inner(sum: f32, a: Chunk, b: Chunk) -> f32 { return fma(a, b, sum); }
#else
// The four products first, whose sum is small: that rounds less.
fn add_inner(sum: f32, a: Chunk, b: Chunk) -> f32 {
    return sum + fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, a.x * b.x)));
}
#endif
