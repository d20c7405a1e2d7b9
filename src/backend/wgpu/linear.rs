use std::ops::Range;

use super::{
    Dispatch, WgpuBackend,
    slices::row_slices,
    variants::{Flag, Kernel, Variant},
};
use crate::{
    backend::{
        BackendError, Tensor,
        kernels::{Gemm, LinearKernels},
    },
    plan::GemmPlan,
};

/// Rows that one workgroup of a column sum adds up.
const CHUNK_ROWS: usize = 1024;

impl LinearKernels for WgpuBackend {
    unsafe fn gemm(&self, args: &Gemm<'_>) -> Result<(), BackendError> {
        let (m, n, k) = args.dims();
        let limit = self.capabilities.max_binding_bytes;
        if args.transpose_a {
            // The rows of `a` (and of `b`) are steps of the sum: slices are added up.
            for (i, rows) in row_slices(k, &[args.a.stride(), args.b.stride()], limit).into_iter().enumerate() {
                let bias = args.bias.filter(|_| i == 0);
                let part = Gemm { bias, accumulate: args.accumulate || i > 0, ..*args };
                self.gemm_part(&part, m, n, 0, rows)?;
            }
            return Ok(());
        }
        for rows in row_slices(m, &[args.a.stride(), args.out.stride()], limit) {
            self.gemm_part(args, rows.len(), n, rows.start, 0..k)?;
        }
        Ok(())
    }

    unsafe fn column_sums(&self, x: &Tensor, out: &Tensor, accumulate: bool) -> Result<(), BackendError> {
        for (i, rows) in
            row_slices(x.rows(), &[x.stride()], self.capabilities.max_binding_bytes).into_iter().enumerate()
        {
            self.sum_columns(x, &rows, None, out, accumulate || i > 0)?;
        }
        Ok(())
    }

    unsafe fn transpose(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let dispatch = Dispatch::new(Variant::new(Kernel::Transpose))
            .param("rows", x.rows())
            .param("cols", x.cols())
            .param("x_stride", x.stride())
            .param("out_stride", out.stride())
            .tensor("x", x)
            .tensor("out", out);
        self.run(dispatch.threads(x.rows() * x.cols()))
    }
}

impl WgpuBackend {
    /// `m` rows of the product from `first_row` on, over the steps `depth` of the sum.
    fn gemm_part(
        &self,
        args: &Gemm<'_>,
        m: usize,
        n: usize,
        first_row: usize,
        depth: Range<usize>,
    ) -> Result<(), BackendError> {
        let k = depth.len();
        let plan = GemmPlan::new(m, n, k, &self.capabilities);
        let tiles = m.div_ceil(GemmPlan::TILE_ROWS as usize) * n.div_ceil(plan.tile_columns() as usize);
        let (a_rows, b_rows) = (
            if args.transpose_a { depth.clone() } else { first_row..first_row + m },
            if args.transpose_b { 0..n } else { depth.clone() },
        );
        let split = plan.splits > 1;
        let partials = if split {
            Some(Tensor::uninit_on(args.out, plan.splits as usize * m, n, "split sums of a product")?)
        } else {
            None
        };
        let mut product = Dispatch::new(Variant::new(Kernel::Gemm).constant(plan.columns_per_thread))
            .with(Flag::TransposeA, args.transpose_a)
            .with(Flag::TransposeB, args.transpose_b)
            .with(Flag::Accumulate, args.accumulate && !split)
            .param("m", m)
            .param("n", n)
            .param("k", k)
            .param("a_stride", args.a.stride())
            .param("b_stride", args.b.stride())
            .param("out_stride", args.out.stride())
            .param("split_len", plan.split_len as usize)
            .param("splits", plan.splits as usize)
            .rows("a", args.a, a_rows.start, a_rows.len())
            .rows("b", args.b, b_rows.start, b_rows.len());
        product = match &partials {
            Some(partials) => product.tensor("out", partials),
            None => product.maybe_rows(Flag::Bias, "bias", args.bias, 0, 1).rows("out", args.out, first_row, m),
        };
        self.run(product.workgroups(tiles as u64 * u64::from(plan.splits)))?;
        let Some(partials) = &partials else { return Ok(()) };
        let entries = m * args.out.stride();
        let merge = Dispatch::new(Variant::new(Kernel::MergeSplits))
            .with(Flag::Accumulate, args.accumulate)
            .param("entries", entries)
            .param("splits", plan.splits as usize)
            .param("out_stride", args.out.stride())
            .param("n", n)
            .tensor("partials", partials)
            .maybe_rows(Flag::Bias, "bias", args.bias, 0, 1)
            .rows("out", args.out, first_row, m);
        self.run(merge.threads(entries))
    }

    /// Adds up rows in chunks, and the sums again until one is left: the rows themselves, or with a center the squares
    /// of their deviations from it, or the deviations times a weight of the shape of `x`.
    pub(super) fn sum_columns(
        &self,
        x: &Tensor,
        rows: &Range<usize>,
        center: Option<(&Tensor, Option<&Tensor>)>,
        out: &Tensor,
        accumulate: bool,
    ) -> Result<(), BackendError> {
        let chunks = rows.len().div_ceil(CHUNK_ROWS).max(1);
        let partials = if chunks > 1 { Some(Tensor::uninit_on(x, chunks, x.cols(), "column sums")?) } else { None };
        let target = partials.as_ref().unwrap_or(out);
        let width = x.cols().next_power_of_two().min(256);
        let mut dispatch = Dispatch::new(Variant::new(Kernel::ColumnSums))
            .with(Flag::Accumulate, accumulate && chunks == 1)
            .param("rows", rows.len())
            .param("cols", x.cols())
            .param("x_stride", x.stride())
            .param("out_stride", target.stride())
            .param("chunk_rows", CHUNK_ROWS)
            .param("width_log2", width.ilog2() as usize)
            .rows("x", x, rows.start, rows.len())
            .tensor("out", target);
        if let Some((center, weight)) = center {
            dispatch = dispatch.with(Flag::Squares, weight.is_none()).tensor("center", center).maybe_rows(
                Flag::Weighted,
                "weight",
                weight,
                rows.start,
                rows.len(),
            );
        }
        self.run(dispatch.workgroups((chunks * x.cols().div_ceil(width)) as u64))?;
        match &partials {
            Some(partials) => self.sum_columns(partials, &(0..chunks), None, out, accumulate),
            None => Ok(()),
        }
    }
}
