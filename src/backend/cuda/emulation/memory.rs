use std::{
    alloc::{Layout, alloc, dealloc},
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use super::super::runtime::DevicePtr;
use crate::backend::BackendError;

/// The driver's alignment, and the bytes before and after an allocation that nobody may write to.
const ALIGNMENT: usize = 256;
const GUARD: usize = ALIGNMENT;
const GUARD_BYTE: u8 = 0xA5;
/// New and freed memory: NaN as floats, and past the end of everything as an index.
const POISON: u8 = 0xFF;

/// Memory of the process that stands for a device's.
#[derive(Debug, Default)]
pub(super) struct HostMemory {
    allocations: Mutex<BTreeMap<DevicePtr, Allocation>>,
}

#[derive(Debug)]
struct Allocation {
    bytes: usize,
    label: String,
}

impl Allocation {
    /// Of the memory with both guards.
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_next_multiple_of(ALIGNMENT)?.checked_add(2 * GUARD)?, ALIGNMENT).ok()
    }

    /// Where the bytes begin that the system gave.
    fn base(at: DevicePtr) -> *mut u8 {
        (at as usize - GUARD) as *mut u8
    }
}

impl HostMemory {
    pub(super) fn allocate(&self, bytes: u64, label: &str) -> Result<DevicePtr, BackendError> {
        let no_room = || BackendError::OutOfMemory { what: label.into(), requested: bytes, in_use: 0 };
        let size = usize::try_from(bytes).map_err(|_| no_room())?;
        let layout = Allocation::layout(size).ok_or_else(no_room)?;
        // SAFETY: the layout has the guards' bytes at least.
        let base = unsafe { alloc(layout) };
        if base.is_null() {
            return Err(no_room());
        }
        // SAFETY: all of this is in the new memory.
        let at = unsafe {
            base.write_bytes(GUARD_BYTE, layout.size());
            let at = base.add(GUARD);
            at.write_bytes(POISON, size);
            at as DevicePtr
        };
        self.lock().insert(at, Allocation { bytes: size, label: label.into() });
        Ok(at)
    }

    pub(super) fn free(&self, at: DevicePtr) {
        let Some(allocation) = self.lock().remove(&at) else { return };
        let layout = Allocation::layout(allocation.bytes).expect("it was allocated with it");
        let base = Allocation::base(at);
        // SAFETY: `allocate` got the memory with this layout, and nobody has freed it, as it was in the list.
        unsafe {
            base.write_bytes(POISON, layout.size());
            dealloc(base, layout);
        }
    }

    pub(super) fn upload(&self, to: DevicePtr, words: &[u32]) -> Result<(), BackendError> {
        self.check_range("upload", to, words.len() as u64 * 4)?;
        // SAFETY: the range is in one allocation.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), to as *mut u8, words.len() * 4) };
        Ok(())
    }

    pub(super) fn download(&self, from: DevicePtr, words: &mut [u32]) -> Result<(), BackendError> {
        self.check_range("download", from, words.len() as u64 * 4)?;
        // SAFETY: the range is in one allocation, and kernels only run inside of calls.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, words.as_mut_ptr().cast(), words.len() * 4) };
        Ok(())
    }

    pub(super) fn fill(&self, at: DevicePtr, words: usize, value: u32) -> Result<(), BackendError> {
        self.check_range("fill", at, words as u64 * 4)?;
        for word in 0..words {
            // SAFETY: the range is in one allocation.
            unsafe { (at as *mut u32).add(word).write_unaligned(value) };
        }
        Ok(())
    }

    /// # Errors
    /// [`BackendError::Driver`] if the bytes are not all in one allocation.
    pub(super) fn check_range(&self, what: &str, at: DevicePtr, bytes: u64) -> Result<(), BackendError> {
        if bytes == 0 {
            return Ok(());
        }
        let allocations = self.lock();
        let Some((start, allocation)) = allocations.range(..=at).next_back() else {
            return Err(BackendError::Driver(format!("{what}: {at:#x} is no memory of this device")));
        };
        let first = at - start;
        if first.checked_add(bytes).is_none_or(|end| end > allocation.bytes as u64) {
            return Err(BackendError::Driver(format!(
                "{what}: bytes {first} to {} of `{}`, which has {}",
                first.saturating_add(bytes),
                allocation.label,
                allocation.bytes
            )));
        }
        Ok(())
    }

    /// # Errors
    /// [`BackendError::Driver`] if something was written before or after an allocation; `kernel` ran last.
    pub(super) fn check(&self, kernel: &str) -> Result<(), BackendError> {
        for (&at, allocation) in self.lock().iter() {
            let layout = Allocation::layout(allocation.bytes).expect("it was allocated with it");
            let base = Allocation::base(at);
            // SAFETY: the bytes are in the allocation and were written when it was made.
            let (before, after) = unsafe {
                let end = GUARD + allocation.bytes;
                (
                    std::slice::from_raw_parts(base, GUARD),
                    std::slice::from_raw_parts(base.add(end), layout.size() - end),
                )
            };
            let place = match after.iter().position(|&b| b != GUARD_BYTE) {
                Some(past) => format!("{past} bytes past the end"),
                None => match before.iter().rposition(|&b| b != GUARD_BYTE) {
                    Some(first) => format!("{} bytes before the start", GUARD - first),
                    None => continue,
                },
            };
            return Err(BackendError::Driver(format!(
                "kernel {kernel} wrote {place} of `{}`, which has {} bytes",
                allocation.label, allocation.bytes
            )));
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<DevicePtr, Allocation>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let left: Vec<_> = self.lock().keys().copied().collect();
        for at in left {
            self.free(at);
        }
    }
}
