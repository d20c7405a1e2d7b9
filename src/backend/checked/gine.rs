use super::{Check, Checked};
use crate::backend::{
    BackendError, Device, DeviceGraph, Direction,
    kernels::{Family, GineBackward, GineForward},
};

impl Device {
    /// Runs [`GineForward`].
    ///
    /// # Errors
    /// If a shape does not fit the rows, or what the device reports.
    pub fn gine(&self, args: &GineForward<'_>) -> Checked {
        let check = self.check("gine");
        let features = args.x.cols();
        let edges = check.edges_of(args.graph, Direction::Forward, &args.rows)?;
        check.feature("x", args.x, [args.graph.num_src(), features])?;
        check.tensor("e", args.e, [edges, features])?;
        check.feature("the output", args.out, [args.graph.num_dst(), features])?;
        let wide = check.widen(Family::Gine, features > 1);
        let (x, out) = (wide.input(args.x)?, wide.update(args.out)?);
        let args = GineForward { x: &x, out: &out, rows: args.rows.clone(), ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the rows.
        unsafe { self.backend().gine(&args) }?;
        wide.store()
    }

    /// Runs [`GineBackward`].
    ///
    /// # Errors
    /// If a shape does not fit the rows, or what the device reports.
    pub fn gine_grad(&self, args: &GineBackward<'_>) -> Checked {
        let check = self.check("gine_grad");
        let features = args.x.cols();
        let edges = check.edges_of(args.graph, Direction::Transposed, &args.rows)?;
        check.feature("x", args.x, [args.graph.num_src(), features])?;
        check.tensor("e", args.e, [edges, features])?;
        check.feature("the gradient", args.g, [args.graph.num_dst(), features])?;
        check.feature("the output", args.grad_x, [args.graph.num_src(), features])?;
        let wide = check.widen(Family::Gine, features > 1);
        let (x, g, grad_x) = (wide.input(args.x)?, wide.input(args.g)?, wide.update(args.grad_x)?);
        let args = GineBackward { x: &x, g: &g, grad_x: &grad_x, rows: args.rows.clone(), ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built, and the rows.
        unsafe { self.backend().gine_grad(&args) }?;
        wide.store()
    }
}

impl Check<'_> {
    /// The number of edges of some rows, which must exist.
    fn edges_of(
        &self,
        graph: &DeviceGraph,
        direction: Direction,
        rows: &std::ops::Range<u32>,
    ) -> Result<usize, BackendError> {
        self.graph(graph)?;
        let offsets = graph.offsets(direction);
        if rows.start <= rows.end && (rows.end as usize) < offsets.len() {
            return Ok((offsets[rows.end as usize] - offsets[rows.start as usize]) as usize);
        }
        Err(BackendError::Shape {
            kernel: self.kernel,
            what: "the range of rows",
            got: [rows.start as usize, rows.end as usize],
            expected: [0, offsets.len() - 1],
        })
    }
}
