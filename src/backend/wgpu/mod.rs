//! WGSL compute shaders through wgpu: Vulkan, Metal, DX12 and the browser's WebGPU.
//!
//! Commands are recorded and handed over in one submission when something is read or written; pipelines and bind groups are made once and kept;
//! buffers come from a pool. Matrices that do not fit a binding are processed in ranges of rows, or in panels of columns where rows are
//! gathered.

mod adapter;
mod attention;
mod blocks;
mod cast;
mod elementwise;
mod errors;
mod gat;
mod gate;
mod gather;
mod gatv2;
mod gine;
mod graph;
mod heads;
mod linear;
mod loss;
mod norm;
mod optim;
mod recorder;
mod reduce;
mod rows;
mod sddmm;
mod shader;
mod slices;
mod softmax;
mod spmm;
mod subgroups;
mod topology;
mod transformer;
mod variants;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

#[cfg(not(target_arch = "wasm32"))]
pub use adapter::adapters;
use errors::ErrorWatch;
use recorder::{Dispatch, Recorder};
pub use variants::all_shaders;
pub use wgpu;

use super::{
    Backend, BackendError, Buffer, DType, DeviceInfo, DeviceKind, Memory, MemoryStats, ReadFuture,
    kernels::Family,
    mark::WORDS,
    pool::{Pool, Pooled},
};
use crate::plan::Capabilities;

/// Which adapter to take, and how.
#[derive(Clone, Debug)]
pub struct WgpuOptions {
    /// Refuse drivers that run shaders on the processor.
    pub hardware_only: bool,
    /// A part of the adapter's name; any adapter if left out.
    pub adapter: Option<String>,
    /// Keep the bounds checks that naga writes into shaders. Graphs and shapes are validated before a kernel runs, so they only cost time;
    /// on by default where debug assertions are. The browser always checks.
    pub runtime_checks: bool,
    /// Sum over the threads that share a row within subgroups, where the device has them: faster, and the same bits.
    pub subgroups: bool,
}

impl Default for WgpuOptions {
    fn default() -> Self {
        Self { hardware_only: false, adapter: None, runtime_checks: cfg!(debug_assertions), subgroups: true }
    }
}

/// A wgpu device.
#[derive(Debug)]
pub struct WgpuBackend {
    info: DeviceInfo,
    capabilities: Capabilities,
    device: wgpu::Device,
    queue: wgpu::Queue,
    watch: ErrorWatch,
    pool: Arc<Pool<GpuBuffer>>,
    staging: Arc<Pool<GpuBuffer>>,
    recorder: Mutex<Recorder>,
    /// Consecutive threads that exchange values within a subgroup; 0 where kernels must do without.
    subgroup_lanes: u32,
}

/// What reading the clock between commands takes.
const CLOCK_FEATURES: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

/// A buffer and the number that caches know it by.
#[derive(Debug)]
struct GpuBuffer {
    raw: wgpu::Buffer,
    id: u64,
}

/// Ends a mapping, pending or done.
struct Unmap<'a>(&'a wgpu::Buffer);

impl Drop for Unmap<'_> {
    fn drop(&mut self) {
        self.0.unmap();
    }
}

impl WgpuBackend {
    /// Opens the adapter that the options ask for, with all the limits it offers.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if no adapter fits or it refuses a device.
    pub async fn new(options: &WgpuOptions) -> Result<Self, BackendError> {
        let adapter = adapter::choose(options).await?;
        let subgroups = if options.subgroups { wgpu::Features::SUBGROUP } else { wgpu::Features::empty() };
        let wanted = subgroups | CLOCK_FEATURES;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("hopwise"),
            required_limits: adapter.limits(),
            required_features: adapter.features() & wanted,
            ..Default::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| BackendError::Unavailable {
            backend: "wgpu",
            reason: error.to_string(),
            remedy: "close other programs that use the GPU, or use the cpu backend",
        })?;
        let watch = ErrorWatch::owning(&device);
        Self::open(device, queue, adapter::describe(&adapter.get_info(), adapter.features()), watch, options)
    }

    /// Runs on a device of the application's own. Its limits decide how matrices are cut, and subgroups are used where it
    /// was requested with `wgpu::Features::SUBGROUP`; its error handlers are left alone.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the device grants less than WebGPU's default limits.
    pub fn from_device(device: wgpu::Device, queue: wgpu::Queue, options: &WgpuOptions) -> Result<Self, BackendError> {
        let info = adapter::describe(&device.adapter_info(), device.features());
        Self::open(device, queue, info, ErrorWatch::default(), options)
    }

    fn open(
        device: wgpu::Device,
        queue: wgpu::Queue,
        info: DeviceInfo,
        watch: ErrorWatch,
        options: &WgpuOptions,
    ) -> Result<Self, BackendError> {
        let limits = device.limits();
        if limits.max_compute_invocations_per_workgroup < 256 || limits.max_storage_buffers_per_shader_stage < 8 {
            return Err(BackendError::Unavailable {
                backend: "wgpu",
                reason: format!(
                    "{} grants {} threads a workgroup and {} storage buffers, 256 and 8 are needed",
                    info.name,
                    limits.max_compute_invocations_per_workgroup,
                    limits.max_storage_buffers_per_shader_stage
                ),
                remedy: "request the device with WebGPU's default limits, or use the cpu backend",
            });
        }
        let capabilities = Capabilities {
            // Shaders index with 32 bits, and slices start and end at multiples of 256 bytes.
            max_binding_bytes: limits.max_storage_buffer_binding_size.min(1 << 32) & !255,
            max_buffer_bytes: limits.max_buffer_size & !255,
            workgroup_size: 256,
            // No interface tells the number of multiprocessors: a software driver has a few threads, a large GPU some hundred workgroups in flight.
            concurrent_workgroups: if info.kind == DeviceKind::Cpu { 16 } else { 512 },
        };
        #[cfg_attr(target_arch = "wasm32", expect(unused_mut, reason = "browsers offer no subgroups through wgpu"))]
        let mut backend = Self {
            subgroup_lanes: 0,
            recorder: Mutex::new(Recorder::new(options.runtime_checks, &limits)),
            info,
            capabilities,
            device,
            queue,
            watch,
            pool: Pool::new(),
            staging: Pool::new(),
        };
        #[cfg(not(target_arch = "wasm32"))]
        if options.subgroups {
            backend.subgroup_lanes = backend.probe_subgroups()?;
        }
        tracing::debug!(
            name = backend.info.name,
            driver = backend.info.driver,
            subgroup_lanes = backend.subgroup_lanes,
            "opened a wgpu device"
        );
        Ok(backend)
    }

    /// How many consecutive threads exchange values within a subgroup, 0 where kernels do without: a power of two.
    pub fn subgroup_lanes(&self) -> u32 {
        self.subgroup_lanes
    }

    /// The device, for applications that draw what was computed.
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    /// The queue that commands go to.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// The buffer behind a tensor's memory, for an application's own bindings; call [`Memory::flush`] before submitting commands that use it.
    pub fn raw_buffer<'a>(&self, buffer: &'a Buffer) -> Option<&'a wgpu::Buffer> {
        buffer.downcast_ref::<Pooled<GpuBuffer>>().map(|pooled| &pooled.raw)
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records one kernel launch.
    fn run(&self, dispatch: Dispatch<'_>) -> Result<(), BackendError> {
        self.watch.check()?;
        self.recorder().dispatch(self, dispatch.within_subgroups(self.subgroup_lanes))
    }

    fn gpu<'a>(&self, buffer: &'a Buffer) -> Result<&'a GpuBuffer, BackendError> {
        buffer.downcast_ref::<Pooled<GpuBuffer>>().map(|b| &**b).ok_or(BackendError::WrongDevice("a wgpu kernel"))
    }

    fn create_buffer(&self, bytes: u64, usage: wgpu::BufferUsages, label: &str) -> Result<GpuBuffer, BackendError> {
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size: bytes, usage, mapped_at_creation: false };
        let out_of_memory =
            || BackendError::OutOfMemory { what: label.into(), requested: bytes, in_use: self.pool.stats().in_use };
        let raw = self.watch.scoped(&self.device, out_of_memory, || self.device.create_buffer(&descriptor))?;
        // Numbered across devices, so that a buffer of another one is never taken for one of this.
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Ok(GpuBuffer { raw, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) })
    }

    /// A buffer from the pool; memory kept for other sizes is freed before giving up.
    fn pooled(&self, bytes: u64, label: &'static str) -> Result<Pooled<GpuBuffer>, BackendError> {
        use wgpu::BufferUsages as Usage;
        let make = || self.create_buffer(bytes, Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST, label);
        match self.pool.take(bytes, make) {
            Err(BackendError::OutOfMemory { .. }) => {
                self.flush()?;
                self.recorder().forget_bind_groups();
                self.pool.trim();
                self.staging.trim();
                // What the last submission used is only freed when the device is seen to be done with it.
                #[cfg(not(target_arch = "wasm32"))]
                {
                    _ = self.device.poll(wgpu::PollType::wait_indefinitely());
                }
                self.pool.take(bytes, make)
            }
            other => other,
        }
    }
}

impl Backend for WgpuBackend {
    fn takes(&self, family: Family, dtype: DType, aligned: bool) -> bool {
        // A bf16 would double the variants again.
        dtype == DType::F16 && aligned && matches!(family, Family::Elementwise | Family::Spmm)
    }
}

impl Memory for WgpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn allocate(&self, words: usize, label: &'static str) -> Result<Buffer, BackendError> {
        self.watch.check()?;
        let bytes = words as u64 * 4;
        let limit = self.capabilities.max_buffer_bytes;
        if bytes > limit {
            return Err(BackendError::TooLarge {
                what: label.into(),
                requested: bytes,
                limit,
                remedy: "use fewer features or a smaller hidden size, sample the graph, or use the cpu backend",
            });
        }
        // Kernels read whole quads, so the size stays a multiple of 16 bytes even at the limit.
        let class = Pool::<GpuBuffer>::size_class(bytes);
        let bytes = if class <= limit { class } else { bytes.next_multiple_of(256) };
        Ok(Buffer::new(self.pooled(bytes, label)?))
    }

    fn write(&self, buffer: &Buffer, words: &[u32]) -> Result<(), BackendError> {
        // What was recorded before may still read the old contents.
        self.flush()?;
        let out_of_memory = || BackendError::OutOfMemory {
            what: "staging memory of an upload".into(),
            requested: words.len() as u64 * 4,
            in_use: self.pool.stats().in_use,
        };
        let raw = &self.gpu(buffer)?.raw;
        self.watch.scoped(&self.device, out_of_memory, || {
            self.queue.write_buffer(raw, 0, bytemuck::cast_slice(words));
        })
    }

    fn fill(&self, buffer: &Buffer, words: usize, value: u32) -> Result<(), BackendError> {
        self.fill_words(buffer, words, value)
    }

    fn read<'a>(&'a self, buffer: &Buffer, words: usize) -> ReadFuture<'a> {
        let buffer = buffer.clone();
        Box::pin(async move {
            if words == 0 {
                return Ok(Vec::new());
            }
            let bytes = words as u64 * 4;
            let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
            let class = Pool::<GpuBuffer>::size_class(bytes).min(self.capabilities.max_buffer_bytes.max(bytes));
            let staging = self.staging.take(class, || self.create_buffer(class, usage, "readback"))?;
            let source = self.gpu(&buffer)?;
            self.recorder().copy(&self.device, &source.raw, &staging.raw, bytes);
            self.flush()?;

            let (sender, receiver) = futures::channel::oneshot::channel();
            staging.raw.map_async(wgpu::MapMode::Read, ..bytes, move |result| _ = sender.send(result));
            // However this ends, the buffer must not return to its pool mapped.
            let _mapping = Unmap(&staging.raw);
            #[cfg(not(target_arch = "wasm32"))]
            if let Err(error) = self.device.poll(wgpu::PollType::wait_indefinitely()) {
                self.watch.check()?;
                return Err(BackendError::Driver(error.to_string()));
            }
            let mapped = receiver.await;
            self.watch.check()?;
            match mapped {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(BackendError::Driver(error.to_string())),
                Err(_) => return Err(BackendError::Driver("the readback was dropped".into())),
            }
            let view = staging.raw.get_mapped_range(..bytes).map_err(|e| BackendError::Driver(e.to_string()))?;
            let words = bytemuck::pod_collect_to_vec(&view[..]);
            Ok(words)
        })
    }

    fn flush(&self) -> Result<(), BackendError> {
        self.watch.check()?;
        self.recorder().submit(self)
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn reset_peak(&self) {
        self.pool.reset_peak();
    }

    fn read_clock(&self) -> Result<Option<(Buffer, f64)>, BackendError> {
        if !self.device.features().contains(CLOCK_FEATURES) {
            return Ok(None);
        }
        let ticks = self.allocate(WORDS, "a mark")?;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = self.create_buffer(wgpu::QUERY_SIZE.into(), usage, "a mark")?;
        let queries = self.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("a mark"),
            ty: wgpu::QueryType::Timestamp,
            count: 1,
        });
        self.recorder().read_clock(&self.device, &queries, &resolved.raw, &self.gpu(&ticks)?.raw);
        Ok(Some((ticks, f64::from(self.queue.get_timestamp_period()) * 1e-9)))
    }
}
