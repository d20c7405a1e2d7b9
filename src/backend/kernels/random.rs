use bytemuck::{Pod, Zeroable};

use crate::backend::Buffer;

/// What changes from one training step to the next. It lives in device memory, so that recorded commands can be replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct StepData {
    /// The seed, low half.
    pub seed_low: u32,
    /// The seed, high half.
    pub seed_high: u32,
    /// The step, from 0.
    pub step: u32,
    /// The learning rate.
    pub learning_rate: f32,
    /// `1 - beta1^t` with `t` the number of optimiser steps, this one included.
    pub bias_correction1: f32,
    /// `sqrt(1 - beta2^t)`.
    pub bias_correction2_sqrt: f32,
    /// Keeps the size a multiple of 16 bytes.
    pub padding: [u32; 2],
}

/// Which entries a dropout keeps. The mask is a hash of (seed, step, layer, row, column), recomputed wherever it is needed; no backend
/// stores it, and all give the same bits.
#[derive(Clone, Copy, Debug)]
pub struct DropoutMask<'a> {
    /// A buffer that holds [`StepData`].
    pub state: &'a Buffer,
    /// Tells the dropouts of one step apart.
    pub layer: u32,
    /// The share of entries set to zero, in `0.0..1.0`.
    pub p: f32,
}

/// A hash is kept if it is at least this: `p * 2^32`.
pub fn dropout_threshold(p: f32) -> u32 {
    (f64::from(p) * 4_294_967_296.0) as u32
}

/// Whether dropout with probability `p` keeps the entry at (`row`, `column`).
pub fn dropout_keeps(state: &StepData, layer: u32, p: f32, row: u32, column: u32) -> bool {
    DropoutKey::new(state, layer).hash(row, column) >= dropout_threshold(p)
}

/// The part of the hash that is the same for a whole tensor.
#[derive(Clone, Copy)]
pub(crate) struct DropoutKey {
    row: u32,
    column: u32,
}

impl DropoutKey {
    pub(crate) fn new(state: &StepData, layer: u32) -> Self {
        let row = mix(mix(mix(mix(state.seed_low) ^ state.seed_high) ^ state.step) ^ layer);
        Self { row, column: mix(row ^ 0x9E37_79B9) }
    }

    /// Row and column are mixed apart before they meet, so that two rows whose hashes are close do not share a pattern.
    pub(crate) fn hash(self, row: u32, column: u32) -> u32 {
        mix(mix(self.row ^ row) ^ mix(self.column ^ column))
    }
}

/// A bijection of 32-bit words in which every input bit moves every output bit with odds close to one half; the multipliers were found by C. Wellons' search
/// for low bias ("Hash function prospector", 2018).
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7FEB_352D);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_kept_is_as_asked_and_steps_differ() {
        for p in [0.1f32, 0.5, 0.9] {
            let mut kept_twice = 0;
            let mut kept = 0;
            for i in 0..100_000u32 {
                let (row, column) = (i / 100, i % 100);
                let now = dropout_keeps(&StepData { seed_low: 7, step: 3, ..Default::default() }, 1, p, row, column);
                let next = dropout_keeps(&StepData { seed_low: 7, step: 4, ..Default::default() }, 1, p, row, column);
                kept += u32::from(now);
                kept_twice += u32::from(now && next);
            }
            // Five standard deviations of a binomial distribution.
            let near = |got: u32, q: f64| (f64::from(got) - 1e5 * q).abs() < 5.0 * (1e5 * q * (1.0 - q)).sqrt();
            let q = 1.0 - f64::from(p);
            assert!(near(kept, q), "p {p}: {kept}");
            assert!(near(kept_twice, q * q), "p {p}: {kept_twice}");
        }
    }

    #[test]
    fn nothing_is_dropped_at_zero() {
        assert!((0..1000).all(|i| dropout_keeps(&StepData::default(), 0, 0.0, i, i)));
    }
}
