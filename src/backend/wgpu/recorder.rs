//! Recording launches, and the caches of pipelines and bind groups.

use std::{collections::HashMap, sync::Arc};

use super::{
    WgpuBackend,
    shader::Binding,
    variants::{Flag, Variant},
};
use crate::backend::{BackendError, Buffer, Tensor};

/// Bytes of one buffer of parameters.
const PARAMS_CHUNK: u64 = 1 << 16;
/// Bind groups kept; a training step needs about a hundred.
const MAX_BIND_GROUPS: usize = 1 << 14;

/// A kernel launch: a variant, its parameters and bindings by name, and how many workgroups.
#[derive(Clone, Debug)]
pub(super) struct Dispatch<'a> {
    variant: Variant,
    params: Vec<(&'static str, u32)>,
    bindings: Vec<(&'static str, &'a Buffer, u64, u64)>,
    workgroups: u64,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(variant: Variant) -> Self {
        Self { variant, params: Vec::with_capacity(10), bindings: Vec::with_capacity(8), workgroups: 0 }
    }

    /// Switches a flag of the variant on if `on`.
    pub(super) fn with(mut self, flag: Flag, on: bool) -> Self {
        self.variant = self.variant.with(flag, on);
        self
    }

    pub(super) fn param(mut self, name: &'static str, value: usize) -> Self {
        self.params.push((name, value as u32));
        self
    }

    pub(super) fn float(mut self, name: &'static str, value: f32) -> Self {
        self.params.push((name, value.to_bits()));
        self
    }

    /// Binds words `first .. first + len` of a buffer; `first` is a multiple of 64.
    pub(super) fn words(mut self, name: &'static str, buffer: &'a Buffer, first: usize, len: usize) -> Self {
        debug_assert_eq!(first % 64, 0, "bindings start at multiples of 256 bytes");
        // Kernels read whole quads, and a binding must not be empty; buffers are large enough for both.
        let bytes = (len as u64 * 4).next_multiple_of(16).max(16);
        self.bindings.push((name, buffer, first as u64 * 4, bytes));
        self
    }

    /// Binds all of a tensor.
    pub(super) fn tensor(self, name: &'static str, tensor: &'a Tensor) -> Self {
        self.words(name, tensor.buffer(), 0, tensor.words())
    }

    /// Binds rows `first .. first + rows` of a tensor; `first` is a multiple of 64.
    pub(super) fn rows(self, name: &'static str, tensor: &'a Tensor, first: usize, rows: usize) -> Self {
        self.words(name, tensor.buffer(), first * tensor.row_words(), rows * tensor.row_words())
    }

    /// Binds rows of a tensor if there is one, and switches the flag that says so.
    pub(super) fn maybe_rows(
        self,
        flag: Flag,
        name: &'static str,
        tensor: Option<&'a Tensor>,
        first: usize,
        rows: usize,
    ) -> Self {
        match tensor {
            Some(t) => self.with(flag, true).rows(name, t, first, rows),
            None => self,
        }
    }

    /// The value of a parameter, if the launch has it.
    pub(super) fn value_of(&self, name: &str) -> Option<u32> {
        // What is particular to a launch stands behind what it shares with others.
        self.params.iter().rev().find(|(n, _)| *n == name).map(|&(_, word)| word)
    }

    /// Whether the kernel exists with `flag` and without.
    pub(super) fn has_choice(&self, flag: Flag) -> bool {
        self.variant.has_choice(flag)
    }

    /// Launches as many workgroups of 256 as `threads` need.
    pub(super) fn threads(self, threads: usize) -> Self {
        self.workgroups((threads as u64).div_ceil(256))
    }

    pub(super) fn workgroups(mut self, workgroups: u64) -> Self {
        self.workgroups = workgroups;
        self
    }
}

#[derive(Debug)]
struct Pipeline {
    raw: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    params: Vec<String>,
    bindings: Vec<Binding>,
}

#[derive(Debug, Hash, PartialEq, Eq)]
struct BindGroupKey {
    variant: Variant,
    params_at: u64,
    buffers: Vec<(u64, u64, u64)>,
}

/// The commands recorded since the last submission, and what is kept between them.
#[derive(Debug)]
pub(super) struct Recorder {
    runtime_checks: bool,
    params_align: u64,
    /// Workgroups that a dimension of a launch may have.
    max_workgroups: u64,
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    pipelines: HashMap<Variant, Arc<Pipeline>>,
    bind_groups: HashMap<BindGroupKey, wgpu::BindGroup>,
    /// Parameters of all launches since the last submission, one after the other: they take the same places in every training step, so that
    /// its bind groups are found again.
    params: Vec<u8>,
    params_buffers: Vec<wgpu::Buffer>,
}

impl Recorder {
    pub(super) fn new(runtime_checks: bool, limits: &wgpu::Limits) -> Self {
        Self {
            runtime_checks,
            params_align: u64::from(limits.min_uniform_buffer_offset_alignment).max(64),
            max_workgroups: u64::from(limits.max_compute_workgroups_per_dimension),
            encoder: None,
            pass: None,
            pipelines: HashMap::new(),
            bind_groups: HashMap::new(),
            params: Vec::new(),
            params_buffers: Vec::new(),
        }
    }

    pub(super) fn forget_bind_groups(&mut self) {
        self.bind_groups.clear();
    }

    pub(super) fn dispatch(&mut self, backend: &WgpuBackend, dispatch: Dispatch<'_>) -> Result<(), BackendError> {
        if dispatch.workgroups == 0 {
            return Ok(());
        }
        let limit = self.max_workgroups;
        let (x, y) = fold(dispatch.workgroups, limit).ok_or_else(|| BackendError::TooLarge {
            what: format!("a launch of {} workgroups", dispatch.workgroups),
            requested: dispatch.workgroups,
            limit: limit * limit,
            remedy: "use a smaller graph or hidden size",
        })?;
        let pipeline = self.pipeline(backend, dispatch.variant)?;
        let params_at = self.push_params(backend, &pipeline, &dispatch)?;
        let group = self.bind_group(backend, &pipeline, &dispatch, params_at)?;
        let pass = self.pass(&backend.device);
        pass.set_pipeline(&pipeline.raw);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(x as u32, y as u32, 1);
        Ok(())
    }

    pub(super) fn copy(&mut self, device: &wgpu::Device, from: &wgpu::Buffer, to: &wgpu::Buffer, bytes: u64) {
        self.pass = None;
        self.encoder(device).copy_buffer_to_buffer(from, 0, to, 0, bytes);
    }

    /// The clock into the first two words of `to`.
    pub(super) fn read_clock(
        &mut self,
        device: &wgpu::Device,
        queries: &wgpu::QuerySet,
        resolved: &wgpu::Buffer,
        to: &wgpu::Buffer,
    ) {
        self.pass = None;
        let encoder = self.encoder(device);
        encoder.write_timestamp(queries, 0);
        encoder.resolve_query_set(queries, 0..1, resolved, 0);
        encoder.copy_buffer_to_buffer(resolved, 0, to, 0, u64::from(wgpu::QUERY_SIZE));
    }

    pub(super) fn submit(&mut self, backend: &WgpuBackend) -> Result<(), BackendError> {
        self.pass = None;
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        let params = std::mem::take(&mut self.params);
        let out_of_memory = || BackendError::OutOfMemory {
            what: "a submission".into(),
            requested: params.len() as u64,
            in_use: backend.pool.stats().in_use,
        };
        backend.watch.scoped(&backend.device, out_of_memory, || {
            for (buffer, bytes) in self.params_buffers.iter().zip(params.chunks(PARAMS_CHUNK as usize)) {
                backend.queue.write_buffer(buffer, 0, bytes);
            }
            backend.queue.submit([encoder.finish()]);
        })?;
        // Keep the memory for the next step.
        self.params = params;
        self.params.clear();
        Ok(())
    }

    fn encoder(&mut self, device: &wgpu::Device) -> &mut wgpu::CommandEncoder {
        self.encoder.get_or_insert_with(|| {
            device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("hopwise") })
        })
    }

    fn pass(&mut self, device: &wgpu::Device) -> &mut wgpu::ComputePass<'static> {
        if self.pass.is_none() {
            let descriptor = wgpu::ComputePassDescriptor { label: Some("hopwise"), timestamp_writes: None };
            self.pass = Some(self.encoder(device).begin_compute_pass(&descriptor).forget_lifetime());
        }
        self.pass.as_mut().expect("it was just begun")
    }

    fn pipeline(&mut self, backend: &WgpuBackend, variant: Variant) -> Result<Arc<Pipeline>, BackendError> {
        if let Some(pipeline) = self.pipelines.get(&variant) {
            return Ok(pipeline.clone());
        }
        let label = variant.label();
        let shader = variant.shader();
        let source = wgpu::ShaderSource::Wgsl(shader.wgsl.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(&label), source };
        let device = &backend.device;
        let pipeline = backend.watch.scoped(
            device,
            || out_of_memory(&label),
            || {
                let module = if self.runtime_checks {
                    device.create_shader_module(descriptor)
                } else {
                    // SAFETY: the shaders are this crate's own. Every index they use comes from a validated `Graph`, or is bounded by a parameter that
                    // the host takes from the shapes of the bound tensors; their loops end.
                    unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) }
                };
                device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                    label: Some(&label),
                    layout: None,
                    module: &module,
                    entry_point: Some("main"),
                    compilation_options: wgpu::PipelineCompilationOptions {
                        zero_initialize_workgroup_memory: false,
                        ..Default::default()
                    },
                    cache: None,
                })
            },
        )?;
        let layout = pipeline.get_bind_group_layout(0);
        let pipeline = Arc::new(Pipeline { raw: pipeline, layout, params: shader.params, bindings: shader.bindings });
        self.pipelines.insert(variant, pipeline.clone());
        Ok(pipeline)
    }

    /// Appends the parameters in the order of the shader and returns where they start.
    fn push_params(
        &mut self,
        backend: &WgpuBackend,
        pipeline: &Pipeline,
        dispatch: &Dispatch<'_>,
    ) -> Result<u64, BackendError> {
        let mut at = (self.params.len() as u64).next_multiple_of(self.params_align);
        let bytes = pipeline.params.len() as u64 * 4;
        // Parameters do not straddle two buffers.
        if at % PARAMS_CHUNK + bytes > PARAMS_CHUNK {
            at = at.next_multiple_of(PARAMS_CHUNK);
        }
        self.params.resize(at as usize, 0);
        for name in &pipeline.params {
            let word = dispatch.value_of(name).ok_or_else(|| incomplete(dispatch, "parameter", name))?;
            self.params.extend_from_slice(&word.to_le_bytes());
        }
        while self.params_buffers.len() as u64 * PARAMS_CHUNK < self.params.len() as u64 {
            let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
            let buffer = backend.create_buffer(PARAMS_CHUNK, usage, "kernel parameters")?;
            self.params_buffers.push(buffer.raw);
        }
        Ok(at)
    }

    fn bind_group(
        &mut self,
        backend: &WgpuBackend,
        pipeline: &Pipeline,
        dispatch: &Dispatch<'_>,
        params_at: u64,
    ) -> Result<wgpu::BindGroup, BackendError> {
        let mut buffers = Vec::with_capacity(pipeline.bindings.len());
        let mut bound = Vec::with_capacity(pipeline.bindings.len());
        for Binding { name, written } in &pipeline.bindings {
            let binding = dispatch.bindings.iter().find(|(n, ..)| n == name);
            let &(_, buffer, offset, bytes) = binding.ok_or_else(|| incomplete(dispatch, "binding", name))?;
            if *written && dispatch.bindings.iter().any(|(other, b, ..)| other != name && b.same(buffer)) {
                return Err(BackendError::Aliased(dispatch.variant.file()));
            }
            let gpu = backend.gpu(buffer)?;
            let bytes = bytes.min(gpu.raw.size().saturating_sub(offset));
            let limit = backend.capabilities.max_binding_bytes;
            if bytes > limit {
                return Err(BackendError::TooLarge {
                    what: format!("`{name}` of {}", dispatch.variant.label()),
                    requested: bytes,
                    limit,
                    remedy: "use fewer features, sample the graph, or use the cpu backend",
                });
            }
            buffers.push((gpu.id, offset, bytes));
            bound.push(&gpu.raw);
        }
        let key = BindGroupKey { variant: dispatch.variant, params_at, buffers };
        if let Some(group) = self.bind_groups.get(&key) {
            return Ok(group.clone());
        }
        let slice = |buffer, offset, bytes| {
            wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size: wgpu::BufferSize::new(bytes) })
        };
        let params = &self.params_buffers[(params_at / PARAMS_CHUNK) as usize];
        let params_bytes = (pipeline.params.len() as u64 * 4).next_multiple_of(16);
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: slice(
                params,
                params_at % PARAMS_CHUNK,
                params_bytes.min(PARAMS_CHUNK - params_at % PARAMS_CHUNK),
            ),
        }];
        for (i, (raw, (_, offset, bytes))) in bound.iter().zip(&key.buffers).enumerate() {
            entries.push(wgpu::BindGroupEntry { binding: i as u32 + 1, resource: slice(raw, *offset, *bytes) });
        }
        let label = dispatch.variant.label();
        let descriptor = wgpu::BindGroupDescriptor { label: Some(&label), layout: &pipeline.layout, entries: &entries };
        let group = backend.watch.scoped(
            &backend.device,
            || out_of_memory(&label),
            || backend.device.create_bind_group(&descriptor),
        )?;
        if self.bind_groups.len() >= MAX_BIND_GROUPS {
            self.bind_groups.clear();
        }
        self.bind_groups.insert(key, group.clone());
        Ok(group)
    }
}

fn out_of_memory(label: &str) -> BackendError {
    BackendError::OutOfMemory { what: format!("the kernel {label}"), requested: 0, in_use: 0 }
}

fn incomplete(dispatch: &Dispatch<'_>, what: &str, name: &str) -> BackendError {
    BackendError::Driver(format!("{} was launched without its {what} `{name}`", dispatch.variant.label()))
}

/// Folds a number of workgroups over two dimensions of at most `limit`.
fn fold(workgroups: u64, limit: u64) -> Option<(u64, u64)> {
    let y = workgroups.div_ceil(limit);
    (y <= limit).then(|| (workgroups.div_ceil(y), y))
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn launches_are_folded_without_waste() {
        assert_eq!(fold(65_535, 65_535), Some((65_535, 1)));
        for n in [65_536, 1_000_000, 65_535 * 65_535] {
            let (x, y) = fold(n, 65_535).unwrap();
            assert!(x <= 65_535 && y <= 65_535 && x * y >= n && x * y - n < y, "{n}: {x} x {y}");
        }
        assert_eq!(fold(65_535 * 65_535 + 1, 65_535), None);
    }
}
