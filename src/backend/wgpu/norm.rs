use super::{
    WgpuBackend,
    slices::row_slices,
    subgroups::ROW_LANES,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, Tensor,
    kernels::{ColumnNorm, ColumnNormBackward, NormKernels, RowNorm, RowNormBackward},
};

impl NormKernels for WgpuBackend {
    unsafe fn column_moments(
        &self,
        x: &Tensor,
        center: &Tensor,
        weight: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let limit = self.capabilities.max_binding_bytes;
        for (i, rows) in row_slices(x.rows(), &[x.stride()], limit).into_iter().enumerate() {
            self.sum_columns(x, &rows, Some((center, weight)), out, i > 0)?;
        }
        Ok(())
    }

    unsafe fn column_norm(&self, args: &ColumnNorm<'_>) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::ColumnNorm).with(Flag::Weighted, args.affine.is_some());
        self.flat(variant, &[("x", args.x)], args.out, |mut d, _| {
            d = d.param("stride", args.out.stride()).tensor("mean", args.mean);
            if let Some([weight, bias]) = args.affine {
                d = d.tensor("weight", weight).tensor("bias", bias);
            }
            d.tensor("inverse_deviation", args.inverse_deviation)
        })
    }

    unsafe fn column_norm_grad(&self, args: &ColumnNormBackward<'_>) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::ColumnNormGrad).with(Flag::Sums, args.own.is_some());
        let mut inputs = vec![("g", args.g)];
        inputs.extend(args.own.map(|own| ("x", own.x)));
        self.flat(variant, &inputs, args.out, |mut d, _| {
            d = d.param("stride", args.out.stride()).tensor("inverse_deviation", args.inverse_deviation);
            if let Some(own) = args.own {
                d = d.float("share", 1.0 / args.g.rows() as f32).tensor("mean", own.mean);
                d = d.tensor("g_sum", own.g_sum).tensor("product_sum", own.product_sum);
            }
            d.maybe_rows(Flag::Weighted, "weight", args.weight, 0, 1)
        })
    }

    unsafe fn row_norm(&self, args: &RowNorm<'_>) -> Result<(), BackendError> {
        let [weight, bias] = args.affine.map_or([None; 2], |affine| affine.map(Some));
        self.by_rows(Kernel::RowNorm, args.x, ROW_LANES, |mut d, first, rows| {
            if let Some(bias) = bias {
                d = d.tensor("bias", bias);
            }
            d.maybe_rows(Flag::Weighted, "weight", weight, 0, 1)
                .float("epsilon", args.epsilon)
                .rows("x", args.x, first, rows)
                .rows("out", args.out, first, rows)
        })
    }

    unsafe fn row_norm_grad(&self, args: &RowNormBackward<'_>) -> Result<(), BackendError> {
        self.by_rows(Kernel::RowNormGrad, args.x, ROW_LANES, |d, first, rows| {
            d.maybe_rows(Flag::Weighted, "weight", args.weight, 0, 1)
                .maybe_rows(Flag::Keep, "scaled", args.scaled, first, rows)
                .float("epsilon", args.epsilon)
                .rows("x", args.x, first, rows)
                .rows("g", args.g, first, rows)
                .rows("grad_x", args.grad_x, first, rows)
        })
    }
}
