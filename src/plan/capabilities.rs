/// What a plan may use on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The largest range of a buffer that one kernel can see, in bytes.
    pub max_binding_bytes: u64,
    /// The largest buffer, in bytes.
    pub max_buffer_bytes: u64,
    /// Threads of a workgroup.
    pub workgroup_size: u32,
    /// Workgroups that fill the device: an estimate that only speed depends on.
    pub concurrent_workgroups: u32,
}
