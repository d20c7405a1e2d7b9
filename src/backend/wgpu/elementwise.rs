use super::{
    Dispatch, WgpuBackend,
    graph::Array,
    slices::row_slices,
    variants::{Flag, Kernel, Variant},
};
use crate::backend::{
    BackendError, Buffer, DeviceGraph, Direction, Tensor,
    kernels::{DropoutMask, ElementwiseKernels, StepData, Unary, dropout_threshold},
};

impl Unary {
    fn flag(self) -> Flag {
        match self {
            Self::Relu => Flag::Relu,
            Self::LeakyRelu(_) => Flag::LeakyRelu,
            Self::Elu(_) => Flag::Elu,
            Self::Sigmoid => Flag::Sigmoid,
            Self::Tanh => Flag::Tanh,
            Self::Inverse => Flag::Inverse,
            Self::InverseSqrt => Flag::InverseSqrt,
        }
    }
}

impl WgpuBackend {
    /// Launches a flat kernel over `out` and the tensors of its shape in `inputs`, in slices where they do not fit; `more` adds what is particular,
    /// given the first row.
    pub(super) fn flat<'a>(
        &self,
        variant: Variant,
        inputs: &[(&'static str, &'a Tensor)],
        out: &'a Tensor,
        more: impl Fn(Dispatch<'a>, usize) -> Dispatch<'a>,
    ) -> Result<(), BackendError> {
        let variant = variant.with(Flag::Half, out.dtype().is_half());
        for rows in row_slices(out.rows(), &[out.row_words()], self.capabilities.max_binding_bytes) {
            let entries = rows.len() * out.stride();
            let mut dispatch =
                Dispatch::new(variant).param("entries", entries).rows("out", out, rows.start, rows.len());
            for (name, tensor) in inputs {
                dispatch = dispatch.rows(name, tensor, rows.start, rows.len());
            }
            self.run(more(dispatch, rows.start).threads(entries.div_ceil(4)))?;
        }
        Ok(())
    }

    pub(super) fn fill_words(&self, buffer: &Buffer, words: usize, value: u32) -> Result<(), BackendError> {
        for slice in row_slices(words, &[1], self.capabilities.max_binding_bytes) {
            let dispatch = Dispatch::new(Variant::new(Kernel::Fill))
                .param("entries", slice.len())
                .param("value", value as usize)
                .words("out", buffer, slice.start, slice.len());
            self.run(dispatch.threads(slice.len().div_ceil(4)))?;
        }
        Ok(())
    }
}

impl ElementwiseKernels for WgpuBackend {
    unsafe fn unary(&self, f: Unary, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::Unary).with(f.flag(), true);
        self.flat(variant, &[("x", x)], out, |d, _| d.float("parameter", f.parameter()))
    }

    unsafe fn unary_grad(&self, f: Unary, y: &Tensor, g: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::UnaryGrad).with(f.flag(), true);
        self.flat(variant, &[("y", y), ("g", g)], out, |d, _| d.float("parameter", f.parameter()))
    }

    unsafe fn unary_dropout(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        x: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::Unary).with(f.flag(), true).with(Flag::Masked, true);
        self.flat(variant, &[("x", x)], out, |d, first_row| {
            d.float("parameter", f.parameter()).mask_rows(mask, out, first_row)
        })
    }

    unsafe fn unary_dropout_grad(
        &self,
        f: Unary,
        mask: &DropoutMask<'_>,
        y: &Tensor,
        g: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::UnaryGrad).with(f.flag(), true).with(Flag::Masked, true);
        self.flat(variant, &[("y", y), ("g", g)], out, |d, first_row| {
            d.float("parameter", f.parameter()).float("share", 1.0 - mask.p).mask_rows(mask, out, first_row)
        })
    }

    unsafe fn add(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.flat(Variant::new(Kernel::Add), &[("a", a), ("b", b)], out, |d, _| d)
    }

    unsafe fn mul(&self, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.flat(Variant::new(Kernel::Mul), &[("a", a), ("b", b)], out, |d, _| d)
    }

    unsafe fn combine(&self, a: f32, x: &Tensor, y: Option<(f32, &Tensor)>, out: &Tensor) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::Combine).with(Flag::WithY, y.is_some());
        let mut inputs = vec![("x", x)];
        inputs.extend(y.map(|(_, y)| ("y", y)));
        let b = y.map_or(0.0, |(b, _)| b);
        self.flat(variant, &inputs, out, |d, _| d.float("a", a).float("b", b))
    }

    unsafe fn add_row(&self, x: &Tensor, row: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.flat(Variant::new(Kernel::AddRow), &[("x", x)], out, |d, _| {
            d.param("stride", out.stride()).param("row_end", row.stride()).tensor("row", row)
        })
    }

    unsafe fn add_assign(&self, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        self.flat(Variant::new(Kernel::AddAssign), &[("x", x)], out, |d, _| d)
    }

    unsafe fn scale_add(
        &self,
        offset: f32,
        factor: &Tensor,
        x: &Tensor,
        y: Option<&Tensor>,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::ScaleAdd).with(Flag::WithY, y.is_some());
        let mut inputs = vec![("x", x)];
        inputs.extend(y.map(|y| ("y", y)));
        self.flat(variant, &inputs, out, |d, _| d.float("offset", offset).tensor("factor", factor))
    }

    unsafe fn dropout(&self, mask: &DropoutMask<'_>, x: &Tensor, out: &Tensor) -> Result<(), BackendError> {
        let variant = Variant::new(Kernel::Dropout).with(Flag::Masked, true);
        self.flat(variant, &[("x", x)], out, |d, first_row| d.mask_rows(mask, out, first_row))
    }

    unsafe fn dropout_sparse(
        &self,
        mask: &DropoutMask<'_>,
        pattern: &DeviceGraph,
        values: &Tensor,
        out: &Tensor,
    ) -> Result<(), BackendError> {
        let resident = self.resident(pattern)?;
        let rows = resident.array(pattern, Direction::Forward, Array::Rows)?;
        let columns = resident.array(pattern, Direction::Forward, Array::Columns)?;
        for edges in row_slices(pattern.num_edges(), &[1], self.capabilities.max_binding_bytes) {
            let dispatch = Dispatch::new(Variant::new(Kernel::DropoutSparse))
                .param("entries", edges.len())
                .words("rows", rows.buffer(), edges.start, edges.len())
                .words("columns", columns.buffer(), edges.start, edges.len())
                .rows("values", values, edges.start, edges.len())
                .rows("out", out, edges.start, edges.len())
                .mask(mask);
            self.run(dispatch.threads(edges.len().div_ceil(4)))?;
        }
        Ok(())
    }
}

impl<'a> Dispatch<'a> {
    /// A mask of the rows of `out` from one on.
    fn mask_rows(self, mask: &DropoutMask<'a>, out: &Tensor, first_row: usize) -> Self {
        self.param("stride", out.stride()).param("first_row", first_row).mask(mask)
    }

    /// What a dropout mask consists of. The state is a buffer of its own that outlives the launch: it is bound by handle.
    pub(super) fn mask(self, mask: &DropoutMask<'a>) -> Self {
        self.param("layer", mask.layer as usize).keep(mask).state(mask.state)
    }

    /// Which hashes a dropout keeps, and what it multiplies them with.
    pub(super) fn keep(self, mask: &DropoutMask<'_>) -> Self {
        self.param("threshold", dropout_threshold(mask.p) as usize).float("scale", 1.0 / (1.0 - mask.p))
    }

    pub(super) fn state(self, state: &'a Buffer) -> Self {
        self.words("state", state, 0, size_of::<StepData>() / 4)
    }
}
