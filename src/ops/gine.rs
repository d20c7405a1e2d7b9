use std::ops::Range;

use super::{OpError, Tape, Var, error::expect, linear::Product};
use crate::backend::{
    DeviceGraph, Direction, Indices, Tensor,
    kernels::{Gemm, GineBackward, GineForward},
    row_stride,
};

/// Bytes that projected edge features may take at a time.
const SLICE_BYTES: u64 = 64 << 20;

/// `out_i = sum over edges k from j to i of max(x_j + W a_k + b, 0)`; `x` is `[num_src, features]`, `attr` `[edges, attributes]` in edge order,
/// `weight` `[features, attributes]`, `bias` `[1, features]`.
///
/// The projected attributes never exist as a whole: they are made for a slice of rows at a time, and made again for the gradient, which runs over the
/// transpose (Hu et al., "Strategies for Pre-training Graph Neural Networks", ICLR 2020).
///
/// # Errors
/// If the shapes do not fit, or what the device reports.
pub fn gine(
    tape: &Tape,
    graph: &DeviceGraph,
    x: &Var,
    attr: &Var,
    weight: &Var,
    bias: Option<&Var>,
) -> Result<Var, OpError> {
    const OP: &str = "gine";
    let ([_, features], [_, attributes]) = (x.shape(), attr.shape());
    expect(OP, "x", x.tensor(), [graph.num_src(), features])?;
    expect(OP, "the edge attributes", attr.tensor(), [graph.num_edges(), attributes])?;
    expect(OP, "the weight", weight.tensor(), [features, attributes])?;
    if let Some(bias) = bias {
        expect(OP, "the bias", bias.tensor(), [1, features])?;
    }
    let edges = Edges {
        graph: graph.clone(),
        attr: attr.tensor().clone(),
        weight: weight.tensor().clone(),
        bias: bias.map(|b| b.tensor().clone()),
    };
    let out = x.tensor().with_shape(graph.num_dst(), features, "sums of edge messages")?;
    for rows in edges.slices(Direction::Forward) {
        let slice = edges.project(Direction::Forward, &rows)?;
        tape.device().gine(&GineForward { graph, rows, x: x.tensor(), e: &slice.projected, out: &out })?;
    }

    let kept_x = x.tensor().clone();
    let mut inputs = vec![x, attr, weight];
    inputs.extend(bias);
    let has_bias = bias.is_some();
    tape.record(out, &inputs, move |g, sink| {
        let device = g.device().clone();
        let grad_x = kept_x.like("gradient of GINE's input")?;
        let grad_attr = edges.attr.like("gradient of edge attributes")?;
        let grad_weight = edges.weight.like("gradient of GINE's edge weight")?;
        let grad_bias = Tensor::full(&device, 1, g.cols(), 0.0, "gradient of GINE's edge bias")?;
        device.fill(grad_weight.buffer(), grad_weight.words(), 0)?;
        for rows in edges.slices(Direction::Transposed) {
            let slice = edges.project(Direction::Transposed, &rows)?;
            device.gine_grad(&GineBackward {
                graph: &edges.graph,
                rows,
                x: &kept_x,
                e: &slice.projected,
                g,
                grad_x: &grad_x,
            })?;
            let product = Product { g: &slice.projected, x: &slice.attr, weight: &edges.weight };
            if let (true, Some(positions)) = (sink.wants(1), &slice.positions) {
                device.scatter_rows(&product.grad_x()?, positions, &grad_attr)?;
            }
            product.add_grad_weight(&grad_weight, true)?;
            if has_bias {
                device.column_sums(&slice.projected, &grad_bias, true)?;
            }
        }
        sink.give(0, grad_x)?;
        if sink.wants(1) {
            sink.give(1, grad_attr)?;
        }
        sink.give(2, grad_weight)?;
        if has_bias {
            sink.give(3, grad_bias)?;
        }
        Ok(())
    })
}

/// Edge attributes and their projection.
struct Edges {
    graph: DeviceGraph,
    attr: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
}

/// The edges of a range of rows.
struct EdgeSlice {
    /// Where they stand in edge order, if not one after the other from the start.
    positions: Option<Indices>,
    attr: Tensor,
    projected: Tensor,
}

impl Edges {
    /// Ranges of rows whose projected attributes stay within bounds; a single row may pass them.
    fn slices(&self, direction: Direction) -> Vec<Range<u32>> {
        let row_bytes = row_stride(self.weight.rows()) as u64 * 4;
        let limit = SLICE_BYTES.min(self.attr.device().capabilities().max_binding_bytes);
        let edges = (limit / row_bytes).max(1);
        let offsets = self.graph.offsets(direction);
        let rows = offsets.len() - 1;
        let (mut slices, mut first) = (Vec::new(), 0);
        while first < rows {
            let last_edge = u64::from(offsets[first]) + edges;
            let fitting = offsets[first..].partition_point(|&o| u64::from(o) <= last_edge);
            let end = (first + fitting - 1).max(first + 1);
            slices.push(first as u32..end as u32);
            first = end;
        }
        slices
    }

    fn project(&self, direction: Direction, rows: &Range<u32>) -> Result<EdgeSlice, OpError> {
        let offsets = self.graph.offsets(direction);
        let edges = offsets[rows.start as usize] as usize..offsets[rows.end as usize] as usize;
        let device = self.attr.device();
        let all = edges.len() == self.attr.rows();
        let positions = match direction {
            Direction::Forward if all => None,
            Direction::Forward => Some(Indices::new(
                device,
                &(edges.start as u32..edges.end as u32).collect::<Vec<_>>(),
                "edges of a slice",
            )?),
            // Made once for the graph, so that a step that needs a single slice uploads nothing.
            Direction::Transposed if all => Some(self.graph.positions_by_source()?),
            Direction::Transposed => {
                Some(Indices::new(device, &self.graph.host().transpose().positions[edges.clone()], "edges of a slice")?)
            }
        };
        let attr = match &positions {
            None => self.attr.clone(),
            Some(positions) => {
                let attr = Tensor::uninit(device, edges.len(), self.attr.cols(), "attributes of a slice")?;
                device.gather_rows(&self.attr, positions, 0.0, &attr)?;
                attr
            }
        };
        let projected = Tensor::uninit(device, edges.len(), self.weight.rows(), "projected attributes")?;
        device.gemm(&Gemm {
            a: &attr,
            transpose_a: false,
            b: &self.weight,
            transpose_b: true,
            bias: self.bias.as_ref(),
            out: &projected,
            accumulate: false,
        })?;
        Ok(EdgeSlice { positions, attr, projected })
    }
}
