use crate::{
    backend::{BackendError, DeviceGraph, Tensor, row_stride},
    plan::ReducePlan,
};

/// A number that the neighbours of a node are reduced to, feature by feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Statistic {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The variance `mean(x^2) - mean(x)^2`.
    Var,
    /// The deviation `sqrt(var)` where `var` is above [`Statistic::SMALLEST_VARIANCE`], else 0.
    Std,
    /// The product, 1 for a row without edges. Not beside others.
    Product,
    /// `sum_k softmax_k(t x_k) x_k` of the row's edges `k`, `t` the temperature: between the mean (`t = 0`) and the
    /// maximum. Not beside others.
    Softmax,
}

impl Statistic {
    /// Variances up to this count as 0 in [`Statistic::Std`], and have no gradient there: the slope of the root is
    /// unbounded.
    pub const SMALLEST_VARIANCE: f32 = 1e-5;

    /// Whether it can only be computed by itself.
    pub fn is_alone(self) -> bool {
        matches!(self, Self::Product | Self::Softmax)
    }
}

/// What a set of statistics is made of: what a kernel carries along the edges, and what a gradient needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingredients {
    /// Sums.
    pub sums: bool,
    /// Sums of squares, beside the sums.
    pub squares: bool,
    /// The smallest entry.
    pub minimum: bool,
    /// The largest entry.
    pub maximum: bool,
    /// The product of the entries that are not 0, and the number of zeros.
    pub product: bool,
    /// Sums with the weights of a softmax.
    pub softmax: bool,
}

impl Ingredients {
    /// What `statistics` need.
    pub fn of(statistics: &[Statistic]) -> Self {
        let any = |wanted: &[Statistic]| statistics.iter().any(|s| wanted.contains(s));
        Self {
            sums: any(&[Statistic::Sum, Statistic::Mean, Statistic::Var, Statistic::Std]),
            squares: any(&[Statistic::Var, Statistic::Std]),
            minimum: any(&[Statistic::Min]),
            maximum: any(&[Statistic::Max]),
            product: any(&[Statistic::Product]),
            softmax: any(&[Statistic::Softmax]),
        }
    }

    /// Columns of [`Reduce::kept`]; 0 if the gradient needs nothing.
    pub fn kept_cols(self, features: usize) -> usize {
        let alone = 2 * usize::from(self.product) + usize::from(self.softmax);
        let width = row_stride(features);
        (usize::from(self.squares) + self.extremes() + alone) * width + self.extremes() * width.div_ceil(4)
    }

    /// Whether the gradient of the output is what every edge hands on, without [`ReduceCoefficients`].
    pub fn are_direct(statistics: &[Statistic]) -> bool {
        matches!(statistics, [Statistic::Sum | Statistic::Min | Statistic::Max])
    }

    /// Columns of [`ReduceCoefficients::coefficients`].
    pub fn coefficient_cols(self, features: usize) -> usize {
        let sides = usize::from(self.sums) + usize::from(self.squares);
        let alone = 2 * usize::from(self.product) + 3 * usize::from(self.softmax);
        (sides + self.extremes() + alone) * row_stride(features)
    }

    /// Whether a neighbour's own entry is in its gradient.
    pub fn reads_x(self) -> bool {
        self.squares || self.product || self.softmax
    }

    /// Whether the output is in the gradient.
    pub fn reads_out(self) -> bool {
        self.squares || self.softmax
    }

    /// How many of minimum and maximum there are.
    pub(crate) fn extremes(self) -> usize {
        usize::from(self.minimum) + usize::from(self.maximum)
    }
}

/// `out_i = [s_1, s_2, ...]`, each a [`Statistic`] over `x_j` of the edges from `j` to `i`, side by side in the order
/// asked for. Every row of `x` is read once an edge, however many statistics there are.
///
/// A row without edges gives 0 throughout, the product 1. Of equal entries, the minimum and the maximum are the first
/// in edge order. A NaN among the neighbours makes every statistic of its feature NaN, the first NaN being the
/// argument; compilers for GPUs may assume that there are none, and minimum and maximum may then be some other
/// neighbour's.
#[derive(Debug)]
pub struct Reduce<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// What is computed; no statistic is named twice.
    pub statistics: &'a [Statistic],
    /// `[num_src, features]`.
    pub x: &'a Tensor,
    /// `[num_dst, statistics * features]`.
    pub out: &'a Tensor,
    /// The temperature of [`Statistic::Softmax`], `[1, 1]`; there if that is asked for.
    pub temperature: Option<&'a Tensor>,
    /// What the gradient needs, `[num_dst, parts * row_stride(features)]`, each part as wide as a padded row: the mean
    /// where there are squares; the positions in edge order of the minimum and of the maximum, 32-bit integers that
    /// stand in the place of floats, [`NO_EDGE`](crate::graph::NO_EDGE) in rows without edges; of a product, that of
    /// the entries that are not 0, and the number of zeros; of a softmax, `log(sum_k exp(t x_k))`. Behind all parts is
    /// room for the low bytes of the arguments, four to a word: a backend may write them, to pass over most edges by
    /// reading a quarter of the bytes.
    pub kept: Option<&'a Tensor>,
    /// How the work is laid out.
    pub plan: &'a ReducePlan,
}

/// The gradient of [`Reduce`], destination by destination: an edge from `j` to `i` at position `k` contributes
/// `a_i + b_i x_j`, and `g_i` of the minimum and the maximum where `k` is their argument, to the gradient of `x_j`:
///
/// `a = g_sum + g_mean / d - b * mean`, `b = (2 g_var + g_std / std) / d`, `d` the in-degree; `std = 0` contributes
/// nothing.
///
/// A product sends `c / x_j` where `x_j` is not 0, else `d`: `c = g * out`, and `d = g *` the product of the others if
/// there is no other zero. A softmax sends `g`, `log(sum_k exp(t x_k))` and `out`.
#[derive(Debug)]
pub struct ReduceCoefficients<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// As in [`Reduce`].
    pub statistics: &'a [Statistic],
    /// The gradient of the output, `[num_dst, statistics * features]`.
    pub g: &'a Tensor,
    /// The output, of the same shape; there if [`Ingredients::reads_out`].
    pub out: Option<&'a Tensor>,
    /// As in [`Reduce`]; there if anything is kept.
    pub kept: Option<&'a Tensor>,
    /// `[num_dst, parts * row_stride(features)]`, each part as wide as a padded row: `a` if there are sums, `b` if
    /// there are squares, the gradient of the minimum, that of the maximum; or `c` and `d`; or the three of a softmax.
    pub coefficients: &'a Tensor,
}

/// `grad_x_j = sum over edges k from j to i of a_i + b_i x_j + e_i`, over the transpose; `e_i` is the gradient of the
/// minimum and of the maximum of `i`, each where `k` is the argument.
///
/// Of a product, the sum of `c_i / x_j` or `d_i`. Of a softmax with the weights `w_k = exp(t x_j - logsumexp_i)`, the
/// sum of `g_i w_k (1 + t (x_j - out_i))`, and `slope_j = sum g_i w_k (x_j - out_i)^2`, which adds up to the gradient
/// of `t`.
#[derive(Debug)]
pub struct ReduceGradient<'a> {
    /// The graph.
    pub graph: &'a DeviceGraph,
    /// As in [`Reduce`].
    pub statistics: &'a [Statistic],
    /// `[num_src, features]`; there if [`Ingredients::reads_x`].
    pub x: Option<&'a Tensor>,
    /// See [`ReduceCoefficients`]; the gradient of the output itself, `[num_dst, features]`, where
    /// [`Ingredients::are_direct`].
    pub coefficients: &'a Tensor,
    /// As in [`Reduce`]; there if anything is kept.
    pub kept: Option<&'a Tensor>,
    /// As in [`Reduce`].
    pub temperature: Option<&'a Tensor>,
    /// `[num_src, features]`.
    pub grad_x: &'a Tensor,
    /// `[num_src, features]`, if the gradient of the temperature is wanted.
    pub slope: Option<&'a Tensor>,
    /// How the work is laid out.
    pub plan: &'a ReducePlan,
}

/// Statistics over neighbours.
pub trait ReduceKernels {
    /// Runs [`Reduce`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports; [`BackendError::TooLarge`] where even four columns of `x` pass the binding limit.
    unsafe fn reduce(&self, args: &Reduce<'_>) -> Result<(), BackendError>;

    /// Runs [`ReduceCoefficients`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn reduce_coefficients(&self, args: &ReduceCoefficients<'_>) -> Result<(), BackendError>;

    /// Runs [`ReduceGradient`].
    ///
    /// # Safety
    /// All tensors and graphs are of this device, and their shapes fit.
    ///
    /// # Errors
    /// As [`ReduceKernels::reduce`], of the coefficients.
    unsafe fn reduce_grad(&self, args: &ReduceGradient<'_>) -> Result<(), BackendError>;
}
