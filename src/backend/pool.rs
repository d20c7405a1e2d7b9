//! Memory given back is kept by size and handed out again, so that a training step allocates nothing after its first run.

use std::{
    collections::BTreeMap,
    ops::RangeBounds,
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
    /// Nothing goes back to the system: commands that are being recorded name it.
    recording: bool,
}

impl<T> Shelves<T> {
    /// Takes out a free piece of one of these sizes: the smallest there is.
    fn take(&mut self, sizes: impl RangeBounds<u64>) -> Option<(u64, T)> {
        let (&size, items) = self.free.range_mut(sizes).find(|(_, items)| !items.is_empty())?;
        Some((size, items.pop()?))
    }
}

/// From this size on near sizes do not share what is new.
const LARGE: u64 = 4 << 20;

/// A piece of memory that returns to its pool when dropped.
#[derive(Debug)]
pub(super) struct Pooled<T> {
    item: Option<T>,
    bytes: u64,
    home: Weak<Pool<T>>,
}

impl<T> Pool<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shelves { free: BTreeMap::new(), stats: MemoryStats::default(), recording: false })))
    }

    /// The size that a request is rounded up to: an eighth of the next power of two, so that near sizes share memory and
    /// less than a quarter is lost; of large ones a hundred and twenty-eighth, so that less than a sixtieth is.
    pub(super) fn size_class(bytes: u64) -> u64 {
        let parts = if bytes < LARGE { 8 } else { 128 };
        rounded_to_parts(bytes, parts)
    }

    /// Memory of the size class `bytes`, or of another one within the same eighth of a power of two, new from `make` where
    /// none is kept: what is too small then goes back to the system, so that no more is kept than if all of an eighth
    /// were one class.
    pub(super) fn take<E>(self: &Arc<Self>, bytes: u64, make: impl FnOnce() -> Result<T, E>) -> Result<Pooled<T>, E> {
        let shared = rounded_to_parts(bytes, 8);
        let kept = self.with(|s| s.take(bytes..=shared));
        let fresh = kept.is_none();
        let (bytes, item) = match kept {
            Some(kept) => kept,
            None => (bytes, make()?),
        };
        let replaced = self.with(|s| {
            s.stats.in_use += bytes;
            s.stats.peak = s.stats.peak.max(s.stats.in_use);
            if !fresh {
                return None;
            }
            s.stats.reserved += bytes;
            s.stats.allocations += 1;
            let below = shared - shared.next_power_of_two() / 8;
            let (size, item) = if s.recording { None } else { s.take(below + 1..bytes) }?;
            s.stats.reserved -= size;
            Some(item)
        });
        drop(replaced);
        Ok(Pooled { item: Some(item), bytes, home: Arc::downgrade(self) })
    }

    /// Frees everything that is kept for reuse.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(super) fn trim(&self) {
        let freed = self.with(|s| {
            if s.recording {
                return BTreeMap::new();
            }
            s.stats.reserved = s.stats.in_use;
            std::mem::take(&mut s.free)
        });
        drop(freed);
    }

    /// Whether commands are being recorded that name memory of the pool.
    #[cfg(feature = "cuda")]
    pub(super) fn set_recording(&self, recording: bool) {
        self.with(|s| s.recording = recording);
    }

    /// Takes out the free pieces of these sizes and keys, all of them or, if one is not there, none: they count as in use
    /// until they are dropped.
    #[cfg(feature = "cuda")]
    pub(super) fn take_back<K: PartialEq>(
        self: &Arc<Self>,
        wanted: &[(u64, K)],
        key: impl Fn(&T) -> K,
    ) -> Option<Vec<Pooled<T>>> {
        self.with(|s| {
            let mut found = Vec::with_capacity(wanted.len());
            for (bytes, wanted) in wanted {
                let items = s.free.get_mut(bytes);
                let place = items.and_then(|items| {
                    let at = items.iter().position(|item| key(item) == *wanted)?;
                    Some(items.swap_remove(at))
                });
                match place {
                    Some(item) => found.push((*bytes, item)),
                    None => {
                        found.into_iter().for_each(|(bytes, item)| s.free.entry(bytes).or_default().push(item));
                        return None;
                    }
                }
            }
            s.stats.in_use += wanted.iter().map(|(bytes, _)| bytes).sum::<u64>();
            s.stats.peak = s.stats.peak.max(s.stats.in_use);
            let home = || Arc::downgrade(self);
            Some(found.into_iter().map(|(bytes, item)| Pooled { item: Some(item), bytes, home: home() }).collect())
        })
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

/// Rounds up to so many parts of the next power of two, or to 256 bytes.
fn rounded_to_parts(bytes: u64, parts: u64) -> u64 {
    let step = (bytes.next_power_of_two() / parts).max(256);
    bytes.max(1).div_ceil(step) * step
}

impl<T> Pooled<T> {
    /// Its size.
    #[cfg(feature = "cuda")]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
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

    /// Batches whose sizes vary a little.
    #[test]
    fn near_sizes_share_large_memory_and_the_largest_stays() {
        let pool = Pool::<Vec<u8>>::new();
        let take = |bytes: u64| pool.take(Pool::<()>::size_class(bytes), || Ok::<_, ()>(vec![])).unwrap();
        for bytes in [170_000_000, 173_407_232, 169_000_000, 180_000_000, 168_000_000, 175_000_000] {
            drop(take(bytes));
        }
        let largest = Pool::<()>::size_class(180_000_000);
        let stats = pool.stats();
        assert_eq!((stats.in_use, stats.reserved, stats.allocations), (0, largest, 3));
        // Of another eighth of a power of two.
        drop(take(150_000_000));
        assert_eq!(pool.stats().allocations, 4);
        // While commands are recorded nothing that they may name goes.
        #[cfg(feature = "cuda")]
        {
            pool.set_recording(true);
            drop(take(190_000_000));
            assert_eq!(
                pool.stats().reserved,
                largest + [150_000_000, 190_000_000].map(Pool::<()>::size_class).iter().sum::<u64>()
            );
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn memory_that_was_lent_comes_back_all_or_not_at_all() {
        let pool = Pool::<u32>::new();
        let take = |id| pool.take(512, || Ok::<_, ()>(id)).unwrap();
        drop([take(1), take(2), take(3)]);
        let held = take(0);
        let wanted = [1, 2, 3].map(|id| (512, id));
        assert!(pool.take_back(&wanted, |id| *id).is_none(), "one of them is held");
        drop(held);
        let back = pool.take_back(&wanted, |id| *id).unwrap();
        assert_eq!((back.len(), pool.stats().in_use, pool.stats().reserved), (3, 3 * 512, 3 * 512));
    }

    #[test]
    fn size_classes_lose_little() {
        for bytes in [1, 255, 256, 257, 5_000, 1 << 20, (1 << 20) + 1, 3_000_000_000] {
            let class = Pool::<()>::size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(256), "{bytes} -> {class}");
            let lost = if bytes < LARGE { bytes / 4 } else { bytes / 60 };
            assert!(class - bytes <= lost.max(256), "{bytes} -> {class}");
            assert_eq!(Pool::<()>::size_class(class), class, "{bytes} -> {class}");
        }
    }
}
