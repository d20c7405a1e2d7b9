use super::{Conv, ConvInput, Initializer, Linear, Module, NnError, Parameter, Visitor};
use crate::{
    backend::{DeviceGraph, Direction, kernels::Unary},
    ops::{self, SpmmInput, Tape, Var},
};

/// How [`ChebConv`] normalises the graph's Laplacian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Laplacian {
    /// `I - D^(-1/2) A D^(-1/2)`.
    Symmetric,
    /// `I - D^(-1) A`.
    RandomWalk,
}

/// `out = sum_k T_k W_k^T + b` with Chebyshev polynomials of the scaled Laplacian `L^`: `T_0 = x`, `T_1 = L^ x`, `T_k = 2 L^ T_(k-1) - T_(k-2)`
/// (Defferrard, Bresson, Vandergheynst, "Convolutional Neural Networks on Graphs with Fast Localized Spectral Filtering", NeurIPS 2016).
///
/// With the largest eigenvalue taken as 2, `L^` is minus the normalised adjacency without self loops; degrees are the sums of weights *out of* a node.
#[derive(Debug)]
pub struct ChebConv {
    /// One product a term, without biases.
    pub lins: Vec<Linear>,
    /// `[out]`.
    pub bias: Parameter,
    normalization: Laplacian,
}

impl ChebConv {
    /// `terms` products with Glorot's weights, and a bias of zeros.
    ///
    /// # Errors
    /// If there are no terms, or the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        out_width: usize,
        terms: usize,
        normalization: Laplacian,
    ) -> Result<Self, NnError> {
        if terms == 0 {
            let expected = "at least 1".into();
            return Err(NnError::Argument { what: "the number of Chebyshev terms", got: "0".into(), expected });
        }
        let lins = (0..terms).map(|_| Linear::glorot(init, in_width, out_width)).collect::<Result<_, _>>()?;
        Ok(Self { lins, bias: init.constant(&[out_width], 0.0)?, normalization })
    }
}

/// The normalised adjacency without loops: minus `L^`.
struct Adjacency {
    graph: DeviceGraph,
    weight: Option<Var>,
    row_scale: Option<Var>,
    column_scale: Var,
}

impl Adjacency {
    fn new(tape: &Tape, input: &ConvInput<'_>, normalization: Laplacian) -> Result<Self, NnError> {
        let derived = input.graph.without_self_loops()?;
        let graph = derived.graph().clone();
        let weight = match input.edge_weight {
            Some(weight) => Some(ops::gather_edges(tape, weight, &derived, 0.0)?),
            None => None,
        };
        let degree = ops::degree(tape, &graph, weight.as_ref(), Direction::Transposed)?;
        let (row_scale, column_scale) = match normalization {
            Laplacian::Symmetric => {
                let root = ops::activation(tape, &degree, Unary::InverseSqrt)?;
                (Some(root.clone()), root)
            }
            Laplacian::RandomWalk => (None, ops::activation(tape, &degree, Unary::Inverse)?),
        };
        Ok(Self { graph, weight, row_scale, column_scale })
    }

    fn apply(&self, tape: &Tape, x: &Var) -> Result<Var, NnError> {
        let input = SpmmInput {
            weight: self.weight.as_ref(),
            row_scale: self.row_scale.as_ref(),
            column_scale: Some(&self.column_scale),
            ..Default::default()
        };
        Ok(ops::spmm(tape, &self.graph, x, input)?)
    }
}

impl Conv for ChebConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("ChebConv", true, false)?;
        input.refuse_destinations("ChebConv")?;
        // Polynomials of a matrix commute with the products, so the sum runs over y_k = x W_k^T, which sparse features allow and which are mostly narrower:
        // b_k = y_k + 2 L^ b_(k+1) - b_(k+2), out = y_0 + L^ b_1 - b_2 (Clenshaw, 1955), with L^ = -S.
        let products = self.lins.iter().map(|lin| lin.forward(tape, input.x)).collect::<Result<Vec<_>, _>>()?;
        let adjacency = if products.len() > 1 { Some(Adjacency::new(tape, input, self.normalization)?) } else { None };
        let (mut next, mut after): (Option<Var>, Option<Var>) = (None, None);
        for (k, y) in products.into_iter().enumerate().rev() {
            let mut b = y;
            if let (Some(adjacency), Some(next)) = (&adjacency, &next) {
                let factor = if k == 0 { -1.0 } else { -2.0 };
                b = ops::combine(tape, factor, &adjacency.apply(tape, next)?, Some((1.0, &b)))?;
            }
            if let Some(after) = &after {
                b = ops::combine(tape, 1.0, &b, Some((-1.0, after)))?;
            }
            after = next.replace(b);
        }
        let out = next.expect("there is at least one term");
        Ok(ops::add_row(tape, &out, &self.bias.on(tape))?)
    }
}

impl Module for ChebConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.parameter("bias", &self.bias);
        for (k, lin) in self.lins.iter().enumerate() {
            visitor.module(&format!("lins.{k}"), lin);
        }
    }
}
