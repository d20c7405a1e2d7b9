//! The processor: a plain Rust twin of every kernel. It is the oracle that the other backends are compared with, and the device of machines
//! without a GPU.
//!
//! Work is cut by rows and every row is summed in edge order by one thread, so the bits do not depend on the number of threads.

mod attention;
mod blocks;
mod cast;
mod elementwise;
mod gat;
mod gate;
mod gather;
mod gatv2;
mod gine;
mod heads;
mod linear;
mod loss;
mod norm;
mod optim;
mod reduce;
mod rows;
mod sddmm;
mod softmax;
mod spmm;
mod threads;
mod transformer;
mod vectors;

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

#[cfg(not(target_arch = "wasm32"))]
use super::mark::WORDS;
use super::{
    Backend, BackendError, Buffer, DeviceInfo, DeviceKind, Indices, Memory, MemoryStats, ReadFuture, Tensor,
    kernels::StepData,
    pool::{Pool, Pooled},
};
use crate::plan::Capabilities;

/// The memory of a buffer: floats, or words viewed as floats.
type Storage = RwLock<Vec<f32>>;

/// The processor as a device.
#[derive(Debug)]
pub struct CpuBackend {
    info: DeviceInfo,
    capabilities: Capabilities,
    pool: Arc<Pool<Storage>>,
    /// From when its clock counts.
    #[cfg(not(target_arch = "wasm32"))]
    opened: std::time::Instant,
}

impl CpuBackend {
    /// The processor, with the threads of rayon's global pool.
    pub fn new() -> Self {
        let threads = threads::count();
        Self {
            info: DeviceInfo {
                backend: "cpu",
                name: format!("{} ({threads} threads)", std::env::consts::ARCH),
                kind: DeviceKind::Cpu,
                driver: "plain Rust".into(),
                subgroup_sizes: None,
            },
            capabilities: Capabilities {
                max_binding_bytes: isize::MAX as u64,
                max_buffer_bytes: isize::MAX as u64,
                workgroup_size: 256,
                concurrent_workgroups: threads as u32,
            },
            pool: Pool::new(),
            #[cfg(not(target_arch = "wasm32"))]
            opened: std::time::Instant::now(),
        }
    }
}

impl Default for CpuBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for CpuBackend {}

impl Memory for CpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn allocate(&self, words: usize, label: &'static str) -> Result<Buffer, BackendError> {
        let bytes = Pool::<Storage>::size_class(words as u64 * 4);
        let make = || {
            let mut memory = Vec::new();
            let len = (bytes / 4) as usize;
            memory.try_reserve_exact(len).map_err(|_| BackendError::OutOfMemory {
                what: label.into(),
                requested: bytes,
                in_use: self.pool.stats().in_use,
            })?;
            memory.resize(len, 0.0);
            Ok(RwLock::new(memory))
        };
        self.pool.take(bytes, make).map(Buffer::new)
    }

    fn write(&self, buffer: &Buffer, words: &[u32]) -> Result<(), BackendError> {
        let mut memory = write(buffer, "write")?;
        let error = too_long(words.len(), &memory);
        memory.get_mut(..words.len()).ok_or(error)?.copy_from_slice(bytemuck::cast_slice(words));
        Ok(())
    }

    fn fill(&self, buffer: &Buffer, words: usize, value: u32) -> Result<(), BackendError> {
        let mut memory = write(buffer, "fill")?;
        let error = too_long(words, &memory);
        memory.get_mut(..words).ok_or(error)?.fill(f32::from_bits(value));
        Ok(())
    }

    fn read<'a>(&'a self, buffer: &Buffer, words: usize) -> ReadFuture<'a> {
        let copy = read(buffer, "read").and_then(|memory| {
            let part = memory.get(..words).ok_or_else(|| too_long(words, &memory))?;
            Ok(bytemuck::cast_slice(part).to_vec())
        });
        Box::pin(std::future::ready(copy))
    }

    fn flush(&self) -> Result<(), BackendError> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn reset_peak(&self) {
        self.pool.reset_peak();
    }

    fn read_clock(&self) -> Result<Option<(Buffer, f64)>, BackendError> {
        // What was enqueued is done: kernels return when they are. Browsers have no such clock in Rust's library.
        #[cfg(target_arch = "wasm32")]
        return Ok(None);
        #[cfg(not(target_arch = "wasm32"))]
        {
            let ticks = self.opened.elapsed().as_nanos() as u64;
            let buffer = self.allocate(WORDS, "a mark")?;
            self.write(&buffer, &[ticks as u32, (ticks >> 32) as u32])?;
            Ok(Some((buffer, 1e-9)))
        }
    }
}

fn storage<'a>(buffer: &'a Buffer, kernel: &'static str) -> Result<&'a Storage, BackendError> {
    buffer.downcast_ref::<Pooled<Storage>>().map(|pooled| &**pooled).ok_or(BackendError::WrongDevice(kernel))
}

/// Locks do not wait: a buffer that is both read and written by one kernel is an error, not a deadlock. A lock that a panic elsewhere has poisoned is as
/// good as another: every kernel overwrites what it writes.
fn read<'a>(buffer: &'a Buffer, kernel: &'static str) -> Result<RwLockReadGuard<'a, Vec<f32>>, BackendError> {
    match storage(buffer, kernel)?.try_read() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
        Err(TryLockError::WouldBlock) => Err(BackendError::Aliased(kernel)),
    }
}

fn write<'a>(buffer: &'a Buffer, kernel: &'static str) -> Result<RwLockWriteGuard<'a, Vec<f32>>, BackendError> {
    match storage(buffer, kernel)?.try_write() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
        Err(TryLockError::WouldBlock) => Err(BackendError::Aliased(kernel)),
    }
}

/// The error for more words than a buffer has.
fn too_long(words: usize, memory: &[f32]) -> BackendError {
    BackendError::TooLarge {
        what: "a transfer".into(),
        requested: words as u64 * 4,
        limit: memory.len() as u64 * 4,
        remedy: "allocate a buffer of that size",
    }
}

/// A locked tensor to read from.
struct Input<'a> {
    memory: RwLockReadGuard<'a, Vec<f32>>,
    cols: usize,
    stride: usize,
    words: usize,
}

impl<'a> Input<'a> {
    fn new(tensor: &'a Tensor, kernel: &'static str) -> Result<Self, BackendError> {
        let memory = read(tensor.buffer(), kernel)?;
        Ok(Self { memory, cols: tensor.cols(), stride: tensor.stride(), words: tensor.words() })
    }

    fn maybe(tensor: Option<&'a Tensor>, kernel: &'static str) -> Result<Option<Self>, BackendError> {
        tensor.map(|t| Self::new(t, kernel)).transpose()
    }

    /// Everything, padding included.
    fn all(&self) -> &[f32] {
        &self.memory[..self.words]
    }

    fn row(&self, r: usize) -> &[f32] {
        &self.memory[r * self.stride..r * self.stride + self.cols]
    }

    /// The entry of a single-column tensor.
    fn at(&self, r: usize) -> f32 {
        self.memory[r * self.stride]
    }
}

/// A locked tensor to write to.
struct Output<'a> {
    memory: RwLockWriteGuard<'a, Vec<f32>>,
    cols: usize,
    stride: usize,
    words: usize,
}

impl<'a> Output<'a> {
    fn new(tensor: &'a Tensor, kernel: &'static str) -> Result<Self, BackendError> {
        let memory = write(tensor.buffer(), kernel)?;
        Ok(Self { memory, cols: tensor.cols(), stride: tensor.stride(), words: tensor.words() })
    }

    /// Everything, padding included.
    fn all(&mut self) -> &mut [f32] {
        &mut self.memory[..self.words]
    }

    /// Calls `f(r, row)` for every row, `work` being the number of operations in all.
    fn for_each_row(&mut self, work: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
        let (cols, stride, words) = (self.cols, self.stride, self.words);
        threads::for_each_row(&mut self.memory[..words], stride, work, |r, row| f(r, &mut row[..cols]));
    }

    /// Calls `f(r, row, row of the other)` for every row of two tensors of as many rows, `work` being the number of operations in all.
    fn for_each_row_with(&mut self, other: &mut Self, work: usize, f: impl Fn(usize, &mut [f32], &mut [f32]) + Sync) {
        let (words, other_words, cols, other_cols) = (self.words, other.words, self.cols, other.cols);
        let (rows, others) = (&mut self.memory[..words], &mut other.memory[..other_words]);
        threads::for_each_row_of_two((rows, self.stride), (others, other.stride), work, |r, row, other| {
            f(r, &mut row[..cols], &mut other[..other_cols]);
        });
    }
}

fn words_of<'a>(indices: &'a Indices, kernel: &'static str) -> Result<RwLockReadGuard<'a, Vec<f32>>, BackendError> {
    read(indices.buffer(), kernel)
}

fn step_data(state: &Buffer, kernel: &'static str) -> Result<StepData, BackendError> {
    let memory = read(state, kernel)?;
    Ok(bytemuck::pod_read_unaligned(bytemuck::cast_slice(&memory[..size_of::<StepData>() / 4])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Device;

    #[test]
    fn reading_what_is_written_is_an_error_and_not_a_deadlock() {
        let device = Device::cpu();
        let x = Tensor::full(&device, 2, 3, 1.0, "x").unwrap();
        assert_eq!(device.add(&x, &x, &x), Err(BackendError::Aliased("add")));
    }
}
