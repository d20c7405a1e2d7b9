use std::ops::Range;

use super::{CpuBackend, Input, Output};
use crate::backend::{BackendError, DeviceGraph, Tensor, kernels::SoftmaxKernels};

impl SoftmaxKernels for CpuBackend {
    unsafe fn edge_softmax(
        &self,
        graph: &DeviceGraph,
        score: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "edge_softmax";
        let score = Input::new(score, KERNEL)?;
        let mut out = Output::new(out, KERNEL)?;
        let (cols, stride) = (out.cols, out.stride);
        for_each_row(graph, |edges| {
            for c in 0..cols {
                let largest = edges.clone().map(|k| scale * score.row(k)[c]).fold(f32::NEG_INFINITY, f32::max);
                let sum: f32 = edges.clone().map(|k| (scale * score.row(k)[c] - largest).exp()).sum();
                for k in edges.clone() {
                    out.memory[k * stride + c] = (scale * score.row(k)[c] - largest).exp() / sum;
                }
            }
        });
        Ok(())
    }

    unsafe fn edge_softmax_grad(
        &self,
        graph: &DeviceGraph,
        weight: &Tensor,
        grad: &Tensor,
        scale: f32,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        const KERNEL: &str = "edge_softmax_grad";
        let (weight, grad) = (Input::new(weight, KERNEL)?, Input::new(grad, KERNEL)?);
        let mut out = Output::new(out, KERNEL)?;
        let (cols, stride) = (out.cols, out.stride);
        for_each_row(graph, |edges| {
            for c in 0..cols {
                let dot: f32 = edges.clone().map(|k| weight.row(k)[c] * grad.row(k)[c]).sum();
                for k in edges.clone() {
                    out.memory[k * stride + c] = scale * weight.row(k)[c] * (grad.row(k)[c] - dot);
                }
            }
        });
        Ok(())
    }
}

/// Calls `f` with the range of edges of each destination.
fn for_each_row(graph: &DeviceGraph, mut f: impl FnMut(Range<usize>)) {
    graph.host().offsets().windows(2).for_each(|w| f(w[0] as usize..w[1] as usize));
}
