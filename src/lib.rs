//! Graph neural networks on any GPU.
//!
//! Hopwise trains and runs graph neural networks on whole graphs. A model is written once; the device is picked at run time: a GPU
//! through [wgpu](https://wgpu.rs) (Vulkan, Metal, DX12, WebGPU), or the processor, where every kernel has a twin in plain Rust.
//!
//! Modules, from the bottom up:
//!
//! - [`Matrix`], [`SparseMatrix`]: matrices in host memory.
//! - [`graph`]: graphs in host memory: building and checking them, statistics, generators. No device code.
//! - [`data`]: reading data sets in the formats that people have, and the project's own container.
//! - [`plan`]: pure functions that choose how the work of a kernel is laid out, and say why.
//! - [`backend`]: devices, tensors, graphs on devices, and the kernels.
//! - [`ops`]: differentiable operations and the tape that records them.
//! - [`nn`]: layers, models, the optimiser, training, files of weights.
//!
//! # Example
//!
//! A club of 34 people splits in two. From one member of each side, and who is friends with whom, a graph convolutional network finds
//! the side of all others:
//!
//! ```
//! use hopwise::{
//!     SparseMatrix,
//!     backend::{Device, DeviceGraph},
//!     graph::{Graph, generate::karate},
//!     nn::{AdamOptions, FeatureInput, GnnBuilder, LayerKind, Targets, Trainer, accuracy},
//!     ops::ClassTargets,
//! };
//!
//! let device = Device::cpu(); // Device::auto().await takes a GPU where there is one
//! let (edges, sides) = karate();
//! let graph = DeviceGraph::new(&device, Graph::from_edges(&edges));
//! let features = FeatureInput::sparse(&device, &SparseMatrix::identity(34))?;
//! let targets = Targets::Classes(ClassTargets::new(&device, &sides, 2, &[0, 33])?);
//! let model = GnnBuilder::new(LayerKind::Gcn(Default::default())).build(&device, 34, 2, 0)?;
//! let options = AdamOptions { learning_rate: 0.01, weight_decay: 5e-4, ..Default::default() };
//! let mut trainer = Trainer::new(model, graph, features, targets, 0, options)?;
//! for _ in 0..200 {
//!     trainer.step()?;
//! }
//! let found = pollster::block_on(trainer.predict_classes())?;
//! let nodes: Vec<u32> = (0..34).collect();
//! assert!(accuracy(&found, &sides, &nodes) > 0.8);
//! # Ok::<(), hopwise::nn::NnError>(())
//! ```
//!
//! # What holds everywhere
//!
//! - Two runs on one device give the same bits. Sums run in a fixed order, and no kernel adds floats atomically.
//! - Dropout masks are a hash of seed, step, layer, row and column: the same on every device, and never stored.
//! - Wrong files and graphs, wrong shapes given to an operation, full memory and lost devices are error values. The kernels below the
//!   operations trust their caller.
//! - Operations enqueue and return; only reading back waits, and reading is `async`.
//! - Once warm, a training step takes no memory from the system.
//!
//! # Feature flags
//!
//! - `wgpu` (on by default): the WGSL backend, with `backend::wgpu` and `Device::wgpu`. Without it, [`Device::auto`](backend::Device::auto)
//!   is the processor.
//!
//! # Platforms
//!
//! Built and tested on Linux. Nothing in the code is tied to it: wgpu brings Metal on macOS and DX12 on Windows, and the tests write every
//! shader for both. For `wasm32-unknown-unknown` the library compiles; there the CPU backend has one thread, and what blocks or writes
//! files is left out. On the GPU the kernels need what WebGPU grants by default, no more.

pub mod backend;
pub mod data;
#[cfg(not(target_arch = "wasm32"))]
pub mod files;
pub mod graph;
mod matrix;
pub mod nn;
pub mod ops;
pub mod plan;

pub use matrix::{Matrix, MatrixError, SparseMatrix};
