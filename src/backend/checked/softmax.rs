use super::Checked;
use crate::backend::{Device, DeviceGraph, Tensor};

impl Device {
    /// Runs [`SoftmaxKernels::edge_softmax`](crate::backend::kernels::SoftmaxKernels::edge_softmax).
    ///
    /// # Errors
    /// If there is not one row an edge, or what the device reports.
    pub fn edge_softmax(&self, graph: &DeviceGraph, score: &Tensor, scale: f32, out: &Tensor) -> Checked {
        let check = self.check("edge_softmax");
        check.graph(graph)?;
        check.alike([graph.num_edges(), score.cols().max(1)], &[("the scores", score), ("the output", out)])?;
        // SAFETY: there is one row an edge, and at least one column.
        unsafe { self.backend().edge_softmax(graph, score, scale, out) }
    }

    /// Runs [`SoftmaxKernels::edge_softmax_grad`](crate::backend::kernels::SoftmaxKernels::edge_softmax_grad).
    ///
    /// # Errors
    /// If there is not one row an edge, or what the device reports.
    pub fn edge_softmax_grad(
        &self,
        graph: &DeviceGraph,
        weight: &Tensor,
        grad: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Checked {
        let check = self.check("edge_softmax_grad");
        check.graph(graph)?;
        let tensors = [("the weights", weight), ("the gradient", grad), ("the output", out)];
        check.alike([graph.num_edges(), weight.cols().max(1)], &tensors)?;
        // SAFETY: there is one row an edge, and at least one column.
        unsafe { self.backend().edge_softmax_grad(graph, weight, grad, scale, out) }
    }
}
