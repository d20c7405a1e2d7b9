use super::{Check, Checked};
use crate::{
    backend::{
        Device, Direction, Tensor,
        kernels::{Family, Ingredients, Reduce, ReduceCoefficients, ReduceGradient, Statistic},
    },
    plan::ReducePlan,
};

impl Device {
    /// Runs [`Reduce`].
    ///
    /// # Errors
    /// If no statistic is named or one twice, if a shape does not fit the graph, or what the device reports.
    pub fn reduce(&self, args: &Reduce<'_>) -> Checked {
        let check = self.check("reduce");
        check.graph(args.graph)?;
        check.statistics(args.statistics)?;
        let (rows, columns) = args.graph.dims(Direction::Forward);
        let features = args.x.cols();
        check.feature("x", args.x, [columns, features])?;
        check.feature("the output", args.out, [rows, args.statistics.len() * features])?;
        check.temperature(args.statistics, args.temperature)?;
        check.maybe("what is kept", args.kept, [rows, Ingredients::of(args.statistics).kept_cols(features)])?;
        check.reduce_plan(args.plan, features, args.statistics.len())?;
        let wide = check.widen(Family::Reduce, args.plan.chunk == 4);
        let (x, out) = (wide.input(args.x)?, wide.output(args.out)?);
        let args = Reduce { x: &x, out: &out, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().reduce(&args) }?;
        wide.store()
    }

    /// Runs [`ReduceCoefficients`].
    ///
    /// # Errors
    /// As [`Device::reduce`].
    pub fn reduce_coefficients(&self, args: &ReduceCoefficients<'_>) -> Checked {
        let check = self.check("reduce_coefficients");
        check.graph(args.graph)?;
        check.statistics(args.statistics)?;
        let rows = args.graph.num_dst();
        let features = args.g.cols() / args.statistics.len();
        let outputs = [rows, args.statistics.len() * features];
        check.feature("the gradient", args.g, outputs)?;
        let parts = Ingredients::of(args.statistics);
        check.needed_feature("the output", args.out, parts.reads_out(), outputs)?;
        let kept_cols = parts.kept_cols(features);
        check.needed("what is kept", args.kept, kept_cols > 0, [rows, kept_cols])?;
        check.tensor("the coefficients", args.coefficients, [rows, parts.coefficient_cols(features)])?;
        let wide = check.widen(Family::Reduce, features.is_multiple_of(4));
        let (g, out) = (wide.input(args.g)?, wide.maybe_input(args.out)?);
        let args = ReduceCoefficients { g: &g, out: out.as_deref(), ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().reduce_coefficients(&args) }
    }

    /// Runs [`ReduceGradient`].
    ///
    /// # Errors
    /// As [`Device::reduce`].
    pub fn reduce_grad(&self, args: &ReduceGradient<'_>) -> Checked {
        let check = self.check("reduce_grad");
        check.graph(args.graph)?;
        check.statistics(args.statistics)?;
        let (rows, columns) = args.graph.dims(Direction::Forward);
        let features = args.grad_x.cols();
        let parts = Ingredients::of(args.statistics);
        check.needed_feature("x", args.x, parts.reads_x(), [columns, features])?;
        check.feature("the output", args.grad_x, [columns, features])?;
        check.temperature(args.statistics, args.temperature)?;
        let softmax = args.statistics == [Statistic::Softmax];
        check.argument("a slope without a softmax", args.slope.is_some() && !softmax, "given", "none")?;
        check.maybe("the slope", args.slope, [columns, features])?;
        let direct = Ingredients::are_direct(args.statistics);
        let cols = if direct { features } else { parts.coefficient_cols(features) };
        if direct {
            check.feature("the coefficients", args.coefficients, [rows, cols])?;
        } else {
            check.tensor("the coefficients", args.coefficients, [rows, cols])?;
        }
        let kept_cols = parts.kept_cols(features);
        check.needed("what is kept", args.kept, kept_cols > 0, [rows, kept_cols])?;
        check.reduce_plan(args.plan, features, 1)?;
        let wide = check.widen(Family::Reduce, args.plan.chunk == 4);
        let (x, coefficients) = (wide.maybe_input(args.x)?, wide.input(args.coefficients)?);
        let grad_x = wide.output(args.grad_x)?;
        let args = ReduceGradient { x: x.as_deref(), coefficients: &coefficients, grad_x: &grad_x, ..*args };
        // SAFETY: every shape fits the graph, which was validated when it was built.
        unsafe { self.backend().reduce_grad(&args) }?;
        wide.store()
    }
}

impl Check<'_> {
    /// A set of statistics.
    fn statistics(&self, statistics: &[Statistic]) -> Checked {
        self.argument("the number of statistics", statistics.is_empty(), 0, "at least 1")?;
        let mut rest = statistics;
        while let Some((first, others)) = rest.split_first() {
            let twice = format_args!("{first:?} twice");
            self.argument("a statistic", others.contains(first), twice, "each at most once")?;
            rest = others;
        }
        let company = statistics.len() > 1 && statistics.iter().any(|s| s.is_alone());
        self.argument("a product or a softmax", company, "beside other statistics", "by itself")
    }

    /// The temperature that a softmax needs.
    fn temperature(&self, statistics: &[Statistic], temperature: Option<&Tensor>) -> Checked {
        self.needed("the temperature", temperature, statistics.contains(&Statistic::Softmax), [1, 1])
    }

    fn reduce_plan(&self, plan: &ReducePlan, features: usize, outputs: usize) -> Checked {
        let most = self.device.capabilities().workgroup_size;
        let wrong = !plan.lanes.is_power_of_two() || plan.lanes > most;
        self.argument("lanes a row", wrong, plan.lanes, format_args!("a power of two up to {most}"))?;
        self.argument("edges a segment", plan.segment == 0, 0, "at least 1")?;
        let chunk = ReducePlan::chunk(features, outputs);
        self.argument("numbers read at once", plan.chunk != chunk, plan.chunk, chunk)
    }
}
