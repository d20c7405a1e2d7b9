//! Devices: one object-safe trait, the kernels' arguments, and the implementations.
//!
//! - [`Device`] and [`Tensor`] are what an application holds; the device is picked at run time.
//! - [`Backend`] is what an implementation provides: memory, and one trait a kernel family in [`kernels`].
//! - [`cpu`] has the plain Rust twin of every kernel; the `wgpu` module runs WGSL on Vulkan, Metal, DX12 and WebGPU, the `cuda` module CUDA C++ on NVIDIA GPUs.
//!
//! Operations enqueue and return; only reading back waits.

mod checked;
pub mod cpu;
#[cfg(all(feature = "cuda", not(target_arch = "wasm32")))]
pub mod cuda;
mod device;
mod dtype;
mod error;
mod graph;
pub mod kernels;
mod mark;
mod pool;
mod tensor;
#[cfg(feature = "wgpu")]
pub mod wgpu;

pub use device::{Backend, Buffer, Device, DeviceInfo, DeviceKind, Memory, MemoryStats, ReadFuture, Recording, Replay};
pub use dtype::DType;
pub use error::BackendError;
pub use graph::{DegreeFunction, DeviceGraph, Direction, LoopedGraph};
pub use kernels::dropout_keeps;
pub use mark::Mark;
pub use tensor::{Indices, Tensor, row_stride};
