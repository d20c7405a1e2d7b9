//! Numbers in 64 bits, each with a bound on what rounding may do to it in 32.
//!
//! The bound is carried along with the numbers (a running error analysis: Higham, "Accuracy and Stability of Numerical
//! Algorithms", 2002, section 3.3): an operation adds one unit of rounding of its result to what its operands bring.
//!
//! Roundings are as good as independent of each other, so that those of a sum pass six times the root of the sum of
//! their squares with odds of less than 1 in 10^7 (Hoeffding's inequality; Higham, Mary, "A New Approach to Probabilistic
//! Rounding Error Analysis", 2019). A sum that adds up `n` terms `t` in an order which has nothing to do with them rounds
//! partial sums whose squares add up to `n / 3 (sum of t)^2 + n / 6 (sum of t^2)`. The terms' own errors are independent
//! from channel to channel, say; from edge to edge they are not, since edges share nodes and the softmax: there they add up.

use std::ops::{Add, Mul, Sub};

use hopwise::Matrix;

/// Rows of numbers.
pub(crate) type Rows = Vec<Vec<Exact>>;

/// Half the distance of 1 and the next 32-bit number.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// A number, and by how many units of rounding a 32-bit computation of it may be off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exact {
    pub(crate) value: f64,
    pub(crate) units: f64,
}

impl Exact {
    pub(crate) fn of(value: f32) -> Self {
        Self { value: value.into(), units: 0.0 }
    }

    /// The error that rounding explains.
    pub(crate) fn bound(self) -> f64 {
        self.units * UNIT
    }

    pub(crate) fn rounded(value: f64, units: f64) -> Self {
        Self { value, units: units + value.abs() }
    }

    /// `exp(x)`; WGSL lets `exp2(x)` be off by `3 + 2 |x|` units in the last place, two of rounding each.
    pub(crate) fn exp(self) -> Self {
        let value = self.value.exp();
        Self { value, units: value * (self.units + 6.0 + 4.0 * std::f64::consts::LOG2_E * self.value.abs()) }
    }

    /// `1 / sqrt(x)`; WGSL lets it be off by 2 units in the last place.
    pub(crate) fn inverse_root(self) -> Self {
        let value = 1.0 / self.value.sqrt();
        Self { value, units: value * (4.0 + 0.5 * self.units / self.value) }
    }

    /// Times 1 if positive, else `slope`.
    pub(crate) fn leaky(self, slope: f64) -> Self {
        if self.value > 0.0 { self } else { Self::rounded(self.value * slope, self.units) }
    }

    /// The derivative of [`Exact::leaky`] at `self`: near 0 rounding may take one side for the other.
    pub(crate) fn leaky_slope(self, slope: f64) -> Self {
        let may_flip = self.value.abs() <= self.bound();
        let value = if self.value > 0.0 { 1.0 } else { slope };
        Self { value, units: if may_flip { (1.0 - slope) / UNIT } else { 0.0 } }
    }
}

impl Add for Exact {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::rounded(self.value + other.value, self.units + other.units)
    }
}

impl Sub for Exact {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::rounded(self.value - other.value, self.units + other.units)
    }
}

impl Mul for Exact {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let units = self.value.abs() * other.units + other.value.abs() * self.units + self.units * other.units * UNIT;
        Self::rounded(self.value * other.value, units)
    }
}

/// A sum in the making.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    value: f64,
    squares: f64,
    absolute: f64,
    units: f64,
    squared_units: f64,
    terms: f64,
}

/// How often the root of the sum of squares independent errors may come to.
const DEVIATIONS: f64 = 6.0;

impl Sum {
    pub(crate) fn add(&mut self, term: Exact) {
        self.value += term.value;
        self.squares += term.value * term.value;
        self.absolute += term.value.abs();
        self.units += term.units;
        self.squared_units += term.units * term.units;
        self.terms += 1.0;
    }

    fn roundings(self) -> f64 {
        let partial_sums = self.terms / 3.0 * self.value * self.value + self.terms / 6.0 * self.squares;
        (DEVIATIONS * partial_sums.sqrt()).min(self.terms * self.absolute)
    }

    /// Where the errors of terms add up.
    pub(crate) fn total(self) -> Exact {
        Exact { value: self.value, units: self.units + self.roundings() }
    }

    /// Where the errors of terms are independent.
    pub(crate) fn of_independent(self) -> Exact {
        let units = (DEVIATIONS * self.squared_units.sqrt()).min(self.units);
        Exact { value: self.value, units: units + self.roundings() }
    }
}

fn gathered(terms: impl IntoIterator<Item = Exact>) -> Sum {
    let mut sum = Sum::default();
    terms.into_iter().for_each(|term| sum.add(term));
    sum
}

/// A sum whose terms' errors add up, as from edge to edge.
pub(crate) fn over_edges(terms: impl IntoIterator<Item = Exact>) -> Exact {
    gathered(terms).total()
}

/// A sum whose terms' errors are independent, as from channel to channel.
pub(crate) fn over_channels(terms: impl IntoIterator<Item = Exact>) -> Exact {
    gathered(terms).of_independent()
}

/// The entry furthest beyond what rounding explains, if one is.
pub(crate) fn beyond_rounding(result: &Matrix, exact: &Rows) -> Option<String> {
    let error = |(got, exact): (f32, Exact)| (f64::from(got) - exact.value).abs();
    let pairs = result.data().iter().copied().zip(exact.iter().flatten().copied());
    // NaN is within no bound.
    let is_within = |pair: (f32, Exact)| error(pair) <= pair.1.bound();
    let beyond = pairs.filter(|&pair| !is_within(pair));
    let (got, exact) = beyond.max_by(|a, b| (error(*a) / a.1.bound()).total_cmp(&(error(*b) / b.1.bound())))?;
    Some(format!("has {got:e} for {:e}, which rounding leaves within {:.1e}", exact.value, exact.bound()))
}
