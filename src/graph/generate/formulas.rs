//! The ends of the `i`-th drawn edge, as closed formulas of `i`: any thread can draw any edge.
//!
//! Every function returns `(source, destination)` below `n`.

use super::random::{key, mulhi, splitmix64};

/// R-MAT (Chakrabarti, Zhan, Faloutsos 2004): the adjacency matrix is quartered once a bit of a node id, each time with the odds
/// 0.57, 0.19, 0.19, 0.05. A heavy tail of degrees.
pub(super) fn rmat(n: u64, seed: u64) -> impl Fn(u64) -> (u64, u64) + Sync {
    // The odds as thresholds of 16 random bits; a hash has bits for four levels.
    const FIRST: u64 = 37_356;
    const SECOND: u64 = FIRST + 12_452;
    const THIRD: u64 = SECOND + 12_452;
    let levels = (u64::BITS - (n - 1).leading_zeros()).max(1);
    let keys: [u64; 16] = std::array::from_fn(|stream| key(seed, stream as u64));
    move |i| {
        let (mut u, mut v, mut hash) = (0, 0, 0);
        for level in 0..levels {
            if level % 4 == 0 {
                hash = splitmix64(i ^ keys[level as usize / 4]);
            }
            let r = hash & 0xFFFF;
            hash >>= 16;
            u = u << 1 | u64::from(r >= SECOND);
            v = v << 1 | (u64::from(r >= FIRST) ^ u64::from(r >= SECOND) ^ u64::from(r >= THIRD));
        }
        ((u * n) >> levels, (v * n) >> levels)
    }
}

/// Blocks of `size` neighbouring ids; a share of `inside / 256` of the edges stays within its block. Locally dense.
pub(super) fn communities(n: u64, size: u64, inside: u64, seed: u64) -> impl Fn(u64) -> (u64, u64) + Sync {
    let keys: [u64; 4] = std::array::from_fn(|stream| key(seed, stream as u64));
    move |i| {
        let hash = |stream: usize| splitmix64(i ^ keys[stream]);
        let u = mulhi(hash(0), n);
        let base = u - u % size;
        let width = (base + size).min(n) - base;
        let v = if hash(1) & 0xFF < inside { base + hash(2) % width } else { mulhi(hash(3), n) };
        (u, v)
    }
}

/// Each end is, with odds one half, uniform or `floor(n t^2)` of a uniform `t`: skewed, but without empty rows.
pub(super) fn skewed(n: u64, seed: u64) -> impl Fn(u64) -> (u64, u64) + Sync {
    let keys: [u64; 3] = std::array::from_fn(|stream| key(seed, stream as u64));
    move |i| {
        let bits = splitmix64(i ^ keys[2]);
        let end = |stream: usize| {
            let hash = splitmix64(i ^ keys[stream]);
            let t = hash >> 32;
            mulhi(if bits >> stream & 1 == 1 { t * t } else { hash }, n)
        };
        (end(0), end(1))
    }
}

/// The `width x height` grid, node `y * width + x`: all steps to the right, then all steps down.
pub(super) fn grid(width: u64, height: u64) -> impl Fn(u64) -> (u64, u64) + Sync {
    let rights = (width - 1) * height;
    move |i| {
        if i < rights {
            let u = i / (width - 1) * width + i % (width - 1);
            (u, u + 1)
        } else {
            (i - rights, i - rights + width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_each_step_once() {
        let steps: Vec<_> = (0..7).map(grid(3, 2)).collect();
        assert_eq!(steps, [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]);
    }

    #[test]
    fn ends_are_nodes() {
        for n in [1, 2, 3, 1_000] {
            for i in 0..500 {
                for (u, v) in [rmat(n, 9)(i), communities(n, 128, 224, 9)(i), skewed(n, 9)(i)] {
                    assert!(u < n && v < n, "edge {i} of {n} nodes: {u} -> {v}");
                }
            }
        }
    }
}
