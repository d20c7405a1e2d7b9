use super::Checked;
use crate::backend::{
    Device, Direction,
    kernels::{Family, Sddmm},
};

impl Device {
    /// Runs [`Sddmm`].
    ///
    /// # Errors
    /// If a shape does not fit the graph, or what the device reports.
    pub fn sddmm(&self, args: &Sddmm<'_>) -> Checked {
        let check = self.check("sddmm");
        check.graph(args.graph)?;
        let (rows, columns) = args.graph.dims(Direction::Forward);
        check.feature("a", args.a, [rows, args.b.cols()])?;
        check.feature("b", args.b, [columns, args.b.cols()])?;
        check.maybe("the row scale", args.row_scale, [rows, 1])?;
        check.maybe("the column scale", args.column_scale, [columns, 1])?;
        check.tensor("the output", args.out, [args.graph.num_edges(), 1])?;
        let wide = check.widen(Family::Sddmm, args.b.cols() > 1);
        let (a, b) = (wide.input(args.a)?, wide.input(args.b)?);
        let args = Sddmm { a: &a, b: &b, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().sddmm(&args) }
    }
}
