// The counter-based hash behind dropout: the same bits as `dropout_keeps` in src/backend/kernels/random.rs.
//
// With mix a bijection of 32-bit words: key = mix(mix(mix(mix(seed_low) ^ seed_high) ^ step) ^ layer),
// hash = mix(mix(key ^ row) ^ mix(mix(key ^ 0x9e3779b9) ^ column)). Entries whose hash is below p 2^32 are dropped.
//
// Any thread computes the hash of any entry: no mask is stored, no byte is moved.
// Source: the multipliers of mix are from "Hash Function Prospector" (Wellons, 2018).

struct StepData {
    seed_low: u32,
    seed_high: u32,
    step: u32,
    learning_rate: f32,
    bias_correction1: f32,
    bias_correction2_sqrt: f32,
    padding_0: u32,
    padding_1: u32,
}

fn mix_bits(word: u32) -> u32 {
    var x = word;
    x ^= x >> 16u;
    x *= 0x7feb352du;
    x ^= x >> 15u;
    x *= 0x846ca68bu;
    return x ^ (x >> 16u);
}

// The part of the hash that is the same for a whole tensor: one word for rows, one for columns.
fn dropout_key(seed_low: u32, seed_high: u32, step: u32, layer: u32) -> vec2<u32> {
    let row = mix_bits(mix_bits(mix_bits(mix_bits(seed_low) ^ seed_high) ^ step) ^ layer);
    return vec2<u32>(row, mix_bits(row ^ 0x9e3779b9u));
}

fn dropout_hash(key: vec2<u32>, row: u32, column: u32) -> u32 {
    return mix_bits(mix_bits(key.x ^ row) ^ mix_bits(key.y ^ column));
}
