//! Memory given back is kept by size and handed out again, so that a training step allocates nothing after its first run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::MemoryStats;

/// Free memory by size, and the account of what is out.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<Shelves<T>>);

#[derive(Debug)]
struct Shelves<T> {
    free: BTreeMap<u64, Vec<T>>,
    stats: MemoryStats,
}

/// A piece of memory that returns to its pool when dropped.
#[derive(Debug)]
pub(super) struct Pooled<T> {
    item: Option<T>,
    bytes: u64,
    home: Weak<Pool<T>>,
}

impl<T> Pool<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shelves { free: BTreeMap::new(), stats: MemoryStats::default() })))
    }

    /// The size that a request is rounded up to: an eighth of the next power of two, so that near sizes share memory and less than a quarter is lost.
    pub(super) fn size_class(bytes: u64) -> u64 {
        let step = (bytes.next_power_of_two() / 8).max(256);
        bytes.max(1).div_ceil(step) * step
    }

    /// Memory of exactly the size class `bytes`, new from `make` where none is kept.
    pub(super) fn take<E>(self: &Arc<Self>, bytes: u64, make: impl FnOnce() -> Result<T, E>) -> Result<Pooled<T>, E> {
        let kept = self.with(|s| s.free.get_mut(&bytes).and_then(Vec::pop));
        let fresh = kept.is_none();
        let item = match kept {
            Some(item) => item,
            None => make()?,
        };
        self.with(|s| {
            s.stats.in_use += bytes;
            s.stats.peak = s.stats.peak.max(s.stats.in_use);
            if fresh {
                s.stats.reserved += bytes;
                s.stats.allocations += 1;
            }
        });
        Ok(Pooled { item: Some(item), bytes, home: Arc::downgrade(self) })
    }

    /// Frees everything that is kept for reuse.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(super) fn trim(&self) {
        self.with(|s| {
            s.stats.reserved = s.stats.in_use;
            s.free.clear();
        });
    }

    /// Takes out everything that is kept for reuse: it counts as in use until it is dropped.
    #[cfg(feature = "cuda")]
    pub(super) fn take_free(self: &Arc<Self>) -> Vec<Pooled<T>> {
        self.with(|s| {
            let free = std::mem::take(&mut s.free);
            let items = free.into_iter().flat_map(|(bytes, items)| items.into_iter().map(move |item| (bytes, item)));
            let taken: Vec<_> =
                items.map(|(bytes, item)| Pooled { item: Some(item), bytes, home: Arc::downgrade(self) }).collect();
            s.stats.in_use += taken.iter().map(|t| t.bytes).sum::<u64>();
            s.stats.peak = s.stats.peak.max(s.stats.in_use);
            taken
        })
    }

    /// Lets the peak count from now on.
    pub(super) fn reset_peak(&self) {
        self.with(|s| s.stats.peak = s.stats.in_use);
    }

    pub(super) fn stats(&self) -> MemoryStats {
        self.with(|s| s.stats)
    }

    fn with<R>(&self, f: impl FnOnce(&mut Shelves<T>) -> R) -> R {
        // The shelves are consistent after every statement, so a panic elsewhere does not spoil them.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> std::ops::Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("the item leaves only on drop")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        let (Some(item), Some(home)) = (self.item.take(), self.home.upgrade()) else { return };
        home.with(|s| {
            s.stats.in_use -= self.bytes;
            s.free.entry(self.bytes).or_default().push(item);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let pool = Pool::<Vec<u8>>::new();
        let make = || Ok::<_, ()>(vec![0; 512]);
        let first = pool.take(512, make).unwrap();
        let second = pool.take(512, make).unwrap();
        drop(first);
        drop(pool.take(512, make).unwrap());
        assert_eq!(pool.stats(), MemoryStats { in_use: 512, peak: 1024, reserved: 1024, allocations: 2 });
        drop(second);
    }

    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    #[test]
    fn trimming_frees_what_is_not_in_use() {
        let pool = Pool::<Vec<u8>>::new();
        let make = || Ok::<_, ()>(vec![0; 512]);
        let (kept, free) = (pool.take(512, make).unwrap(), pool.take(512, make).unwrap());
        drop(free);
        pool.trim();
        assert_eq!(pool.stats().reserved, 512);
        drop(kept);
    }

    #[test]
    fn size_classes_lose_little() {
        for bytes in [1, 255, 256, 257, 5_000, 1 << 20, (1 << 20) + 1, 3_000_000_000] {
            let class = Pool::<()>::size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(256), "{bytes} -> {class}");
            assert!(class - bytes <= (bytes / 4).max(256), "{bytes} -> {class}");
        }
    }
}
