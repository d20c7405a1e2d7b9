use super::Capabilities;

/// The layout of a dense product `[m, k] x [k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmPlan {
    /// Columns that one thread computes: 4 (tiles of 64 x 64), or 1 (tiles of 64 x 16) where the product is narrow.
    pub columns_per_thread: u32,
    /// Parts that `k` is cut into, summed apart and merged in order.
    pub splits: u32,
    /// Length of a part.
    pub split_len: u32,
}

impl GemmPlan {
    /// Rows of a tile.
    pub const TILE_ROWS: u32 = 64;
    /// Threads along the columns of a tile.
    pub const COLUMN_THREADS: u32 = 16;
    /// Steps of `k` that are staged at once.
    pub const TILE_DEPTH: u32 = 16;
    /// A part of `k` is never shorter: merging must stay cheap beside it.
    const MIN_SPLIT: u32 = 512;

    /// Plans a product.
    pub fn new(m: usize, n: usize, k: usize, caps: &Capabilities) -> Self {
        let columns_per_thread = if n > 32 { 4 } else { 1 };
        let tiles =
            m.div_ceil(Self::TILE_ROWS as usize) * n.div_ceil((Self::COLUMN_THREADS * columns_per_thread) as usize);
        let wanted = (caps.concurrent_workgroups as usize).div_ceil(tiles.max(1));
        let splits = wanted.min(k / Self::MIN_SPLIT as usize).max(1);
        let split_len = (k.div_ceil(splits) as u32).next_multiple_of(Self::TILE_DEPTH).max(Self::TILE_DEPTH);
        Self { columns_per_thread, splits: (k as u32).div_ceil(split_len).max(1), split_len }
    }

    /// Columns of a tile.
    pub fn tile_columns(&self) -> u32 {
        Self::COLUMN_THREADS * self.columns_per_thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_thin_products_are_split_and_others_are_not() {
        let caps = Capabilities {
            max_binding_bytes: 1 << 27,
            max_buffer_bytes: 1 << 28,
            workgroup_size: 256,
            concurrent_workgroups: 64,
        };
        let gradient = GemmPlan::new(16, 16, 100_000, &caps);
        assert_eq!((gradient.columns_per_thread, gradient.splits), (1, 64));
        assert!(gradient.splits * gradient.split_len >= 100_000);
        assert_eq!(
            GemmPlan::new(100_000, 256, 128, &caps),
            GemmPlan { columns_per_thread: 4, splits: 1, split_len: 128 }
        );
        for (m, n, k) in [(0, 0, 0), (1, 1, 1), (64, 7, 513)] {
            let plan = GemmPlan::new(m, n, k, &caps);
            assert!(plan.splits >= 1 && plan.splits as usize * plan.split_len as usize >= k, "{plan:?}");
        }
    }
}
