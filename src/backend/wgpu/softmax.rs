use super::{
    Dispatch, WgpuBackend,
    graph::Array,
    slices::{align_down, edge_slices},
    variants::{Kernel, Variant},
};
use crate::backend::{BackendError, DeviceGraph, Direction, Tensor, kernels::SoftmaxKernels};

impl SoftmaxKernels for WgpuBackend {
    unsafe fn edge_softmax(
        &self,
        graph: &DeviceGraph,
        score: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        self.edge_softmax_launch(Kernel::EdgeSoftmax, graph, &[("score", score)], scale, out)
    }

    unsafe fn edge_softmax_grad(
        &self,
        graph: &DeviceGraph,
        weight: &Tensor,
        grad: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let inputs = [("weight", weight), ("grad", grad)];
        self.edge_softmax_launch(Kernel::EdgeSoftmaxGrad, graph, &inputs, scale, out)
    }
}

impl WgpuBackend {
    fn edge_softmax_launch(
        &self,
        kernel: Kernel,
        graph: &DeviceGraph,
        inputs: &[(&'static str, &Tensor)],
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let array = self.resident(graph)?.array(graph, Direction::Forward, Array::Offsets)?;
        let offsets = graph.offsets(Direction::Forward);
        let mean_degree = graph.num_edges().div_ceil(graph.num_dst().max(1));
        let lanes = mean_degree.next_power_of_two().clamp(1, 64);
        // The slices are of edges that fit a binding: rows of `stride` numbers count as so many edges.
        let limit = self.capabilities.max_binding_bytes / out.stride() as u64;
        for rows in edge_slices(offsets, &[1], limit) {
            let edges = align_down(offsets[rows.start] as usize)..offsets[rows.end] as usize;
            let mut dispatch = Dispatch::new(Variant::new(kernel))
                .param("rows", rows.len())
                .param("columns", out.cols())
                .param("stride", out.stride())
                .param("edge_base", edges.start)
                .param("lanes_log2", lanes.ilog2() as usize)
                .float("scale", scale)
                .words("offsets", array.buffer(), rows.start, rows.len() + 1)
                .rows("out", out, edges.start, edges.len());
            for (name, tensor) in inputs {
                dispatch = dispatch.rows(name, tensor, edges.start, edges.len());
            }
            self.run(dispatch.threads(rows.len() * out.cols() * lanes))?;
        }
        Ok(())
    }
}
