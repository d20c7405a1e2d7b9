use super::Checked;
use crate::backend::{
    Device,
    kernels::{Family, Spmm},
};

impl Device {
    /// Runs [`Spmm`].
    ///
    /// # Errors
    /// If a shape does not fit the graph, or what the device reports.
    pub fn spmm(&self, args: &Spmm<'_>) -> Checked {
        let check = self.check("spmm");
        check.graph(args.graph)?;
        let (rows, columns) = args.graph.dims(args.direction);
        let features = args.x.cols();
        check.feature("x", args.x, [columns, features])?;
        check.maybe("the edge weights", args.weight, [args.graph.num_edges(), 1])?;
        check.maybe("the row scale", args.row_scale, [rows, 1])?;
        check.maybe("the column scale", args.column_scale, [columns, 1])?;
        check.feature("the output", args.out, [rows, features])?;
        let (lanes, most) = (args.plan.lanes, self.capabilities().workgroup_size);
        let wrong = !lanes.is_power_of_two() || lanes > most;
        check.argument("lanes a row", wrong, lanes, format_args!("a power of two up to {most}"))?;
        check.argument("edges a segment", args.plan.segment == 0, 0, "at least 1")?;
        let wide = check.widen(Family::Spmm, features > 1);
        let (x, out) = (wide.input(args.x)?, wide.output(args.out)?);
        let args = Spmm { x: &x, out: &out, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().spmm(&args) }?;
        wide.store()
    }
}
