//! Work on the host shared out among threads; the browser has one.

#[cfg(not(target_arch = "wasm32"))]
pub(super) use rayon::join;

#[cfg(target_arch = "wasm32")]
pub(super) fn join(left: impl FnOnce(), right: impl FnOnce()) {
    left();
    right();
}

/// `f` of every number below `count`, in order.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn map<T: Send>(count: usize, f: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    use rayon::prelude::*;
    (0..count).into_par_iter().map(f).collect()
}

#[cfg(target_arch = "wasm32")]
pub(super) fn map<T>(count: usize, f: impl Fn(usize) -> T) -> Vec<T> {
    (0..count).map(f).collect()
}

/// Calls `f` with every number below `count`.
pub(super) fn for_each(count: u64, f: impl Fn(u64) + Sync + Send) {
    #[cfg(not(target_arch = "wasm32"))]
    {
        use rayon::prelude::*;
        (0..count).into_par_iter().for_each(f);
    }
    #[cfg(target_arch = "wasm32")]
    (0..count).for_each(f);
}

/// Sorts, by all threads where that pays.
pub(super) fn sort<T: Ord + Send>(values: &mut [T]) {
    #[cfg(not(target_arch = "wasm32"))]
    if values.len() > 1 << 16 {
        use rayon::prelude::*;
        return values.par_sort_unstable();
    }
    values.sort_unstable();
}

/// Ranges of at most `len` numbers that cover those below `count`, and what `f` makes of each, in order.
pub(super) fn map_ranges<T: Send>(
    count: usize,
    len: usize,
    f: impl Fn(std::ops::Range<usize>) -> T + Sync + Send,
) -> Vec<T> {
    map(count.div_ceil(len), |piece| f(piece * len..count.min((piece + 1) * len)))
}
