/// What splitmix64 adds to its state between two numbers: 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of Steele, Lea and Flood's SplitMix (OOPSLA 2014): a bijection of 64-bit numbers whose values look random.
///
/// As a function of a counter it gives random numbers in any order, so the threads that share a stream need not agree on anything.
pub const fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The key of one of the independent streams of a seed. Number `i` of the stream is `splitmix64(i ^ key)`.
pub(super) const fn key(seed: u64, stream: u64) -> u64 {
    splitmix64(seed.wrapping_mul(0x100_0000_01B3).wrapping_add(stream))
}

/// `floor(h * n / 2^64)`: spreads a random `h` over `0..n`, with a bias below `n / 2^64`.
pub(super) const fn mulhi(h: u64, n: u64) -> u64 {
    ((h as u128 * n as u128) >> 64) as u64
}

/// A small generator of random numbers: [`splitmix64`] of a counter that starts at the seed.
///
/// Fast, 8 bytes of state, good enough for initial weights, dropout seeds and test data; of no use for secrets.
///
/// ```
/// use hopwise::graph::generate::SplitMix;
///
/// let (mut a, mut b) = (SplitMix::new(7), SplitMix::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!((0.0..1.0).contains(&a.uniform()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// A generator that depends on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// One of many generators of the same seed whose numbers have nothing to do with each other.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self { state: key(seed, stream) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let bits = splitmix64(self.state);
        self.state = self.state.wrapping_add(GOLDEN);
        bits
    }

    /// A random integer in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        mulhi(self.next_u64(), u64::from(n)) as u32
    }

    /// Puts `items` in a random order, each equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u32 + 1) as usize);
        }
    }

    /// A random number in `[0, 1)`: one of the 2^24 multiples of 2^-24, each equally likely.
    pub fn uniform(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1u64 << 24) as f32)
    }

    /// A random number of the normal distribution with mean 0 and variance 1 (Box and Muller 1958), at most 8.6 in magnitude.
    ///
    /// Computed in 64 bits and rounded once, so that the mathematical libraries of two platforms hardly ever disagree.
    pub fn normal(&mut self) -> f32 {
        let mut unit = || ((self.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64); // in (0, 1]: the logarithm is finite
        let (radius, turn) = (unit(), unit());
        ((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_numbers_come_out() {
        let mut random = SplitMix::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_spread_over_their_range() {
        let seed = 11;
        let mut random = SplitMix::stream(seed, 0);
        let mut buckets = [0u32; 7];
        (0..70_000).for_each(|_| buckets[random.below(7) as usize] += 1);
        assert!(buckets.iter().all(|b| b.abs_diff(10_000) < 500), "seed {seed}: {buckets:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(mulhi(u64::MAX, 5), 4);

        let uniform: Vec<f32> = (0..100_000).map(|_| random.uniform()).collect();
        assert!(uniform.iter().all(|u| (0.0..1.0).contains(u)), "seed {seed}");
        let mean = uniform.iter().map(|&u| f64::from(u)).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "seed {seed}: mean {mean}");
    }

    #[test]
    fn every_order_is_equally_likely() {
        let seed = 13;
        let mut random = SplitMix::new(seed);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..60_000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *counts.entry(items).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five deviations of a binomial count, which is sqrt(60000 / 6 * 5 / 6) = 91.
        assert!(counts.values().all(|c| c.abs_diff(10_000) < 456), "seed {seed}: {counts:?}");
        random.shuffle::<u8>(&mut []);
    }

    #[test]
    fn normal_numbers_have_the_moments_of_a_normal_distribution() {
        let (seed, n) = (12, 200_000);
        let mut random = SplitMix::new(seed);
        let x: Vec<f64> = (0..n).map(|_| f64::from(random.normal())).collect();
        for (power, expected, tolerance) in [(1, 0.0, 0.01), (2, 1.0, 0.02), (3, 0.0, 0.05), (4, 3.0, 0.15)] {
            let moment = x.iter().map(|v| v.powi(power)).sum::<f64>() / f64::from(n);
            assert!((moment - expected).abs() < tolerance, "seed {seed}: moment {power} is {moment}");
        }
    }

    #[test]
    fn streams_of_a_seed_differ() {
        assert_ne!(SplitMix::stream(3, 0).next_u64(), SplitMix::stream(3, 1).next_u64());
        assert_ne!(key(0, 1), key(1, 0));
    }
}
