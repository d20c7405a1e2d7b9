use super::{
    Dispatch, WgpuBackend,
    gather::chunks_of,
    graph::Array,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, DeviceGraph, Direction, Tensor,
    kernels::{GineBackward, GineForward, GineKernels},
};

impl GineKernels for WgpuBackend {
    unsafe fn gine(&self, args: &GineForward<'_>) -> Result<(), BackendError> {
        self.gine_launch(Kernel::GineForward, args.graph, Direction::Forward, &args.rows, args.x, |d| {
            d.tensor("e", args.e).tensor("out", args.out)
        })
    }

    unsafe fn gine_grad(&self, args: &GineBackward<'_>) -> Result<(), BackendError> {
        self.gine_launch(Kernel::GineBackward, args.graph, Direction::Transposed, &args.rows, args.x, |d| {
            d.tensor("e", args.e).tensor("g", args.g).tensor("grad_x", args.grad_x)
        })
    }
}

impl WgpuBackend {
    fn gine_launch<'a>(
        &self,
        kernel: Kernel,
        graph: &DeviceGraph,
        direction: Direction,
        rows: &std::ops::Range<u32>,
        x: &'a Tensor,
        bind: impl FnOnce(Dispatch<'a>) -> Dispatch<'a>,
    ) -> Result<(), BackendError> {
        let resident = self.resident(graph)?;
        let offsets = resident.array(graph, direction, Array::Offsets)?;
        let columns = resident.array(graph, direction, Array::Columns)?;
        let chunks = chunks_of(x);
        let lanes = chunks.next_power_of_two().min(64);
        let first_edge = graph.offsets(direction)[rows.start as usize] as usize;
        let dispatch = bind(Dispatch::new(Variant::new(kernel)))
            .with(Flag::Scalar, x.cols() == 1)
            .param("tasks", rows.len())
            .param("first_row", rows.start as usize)
            .param("first_edge", first_edge)
            .param("chunks", chunks)
            .param("lanes_log2", lanes.ilog2() as usize)
            .words("offsets", offsets.buffer(), 0, offsets.len())
            .words("columns", columns.buffer(), 0, columns.len())
            .tensor("x", x);
        self.run(dispatch.threads(rows.len() * lanes))
    }
}
