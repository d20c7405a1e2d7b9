//! Sums over lanes by exchange within subgroups, where the adapter has them and keeps threads in order.

use super::{Dispatch, variants::Flag};
#[cfg(not(target_arch = "wasm32"))]
use super::{
    WgpuBackend,
    variants::{Kernel, Variant},
};
#[cfg(not(target_arch = "wasm32"))]
use crate::backend::{BackendError, Memory};

/// Threads that share a row in functions row by row: `LANES` of the shaders.
pub(super) const ROW_LANES: usize = 16;
/// Threads of the probe: enough that they do not all run on one multiprocessor.
#[cfg(not(target_arch = "wasm32"))]
const PROBED_THREADS: usize = 256 * 64;

#[cfg(not(target_arch = "wasm32"))]
impl WgpuBackend {
    /// How many consecutive threads, at most, exchange values within a subgroup; 0 where there are no subgroups.
    ///
    /// WGSL leaves open which threads of a workgroup make up a subgroup, so a kernel tries it out. Other kernels may
    /// run with subgroups of another size, but of no less than the adapter's smallest.
    pub(super) fn probe_subgroups(&self) -> Result<u32, BackendError> {
        let smallest = self.device.adapter_info().subgroup_min_size;
        if !self.device.features().contains(wgpu::Features::SUBGROUP) || !smallest.is_power_of_two() {
            return Ok(0);
        }
        let lanes = self.allocate(PROBED_THREADS, "lanes of subgroups")?;
        let probe = Dispatch::new(Variant::new(Kernel::SubgroupProbe))
            .with(Flag::Subgroups, true)
            .param("size", smallest.min(128) as usize)
            .words("lanes", &lanes, 0, PROBED_THREADS);
        self.run(probe.threads(PROBED_THREADS))?;
        let seen = pollster::block_on(self.read(&lanes, PROBED_THREADS))?;
        Ok(seen.into_iter().min().unwrap_or(0))
    }
}

impl Dispatch<'_> {
    /// Switches to the variant that sums within subgroups, if the kernel has one and `subgroup_lanes` threads hold all
    /// that share a sum.
    pub(super) fn within_subgroups(self, subgroup_lanes: u32) -> Self {
        let lanes = self.value_of("lanes_log2").map_or(ROW_LANES, |log2| 1 << log2);
        let fits = self.has_choice(Flag::Subgroups) && lanes <= subgroup_lanes as usize;
        self.with(Flag::Subgroups, fits)
    }
}
