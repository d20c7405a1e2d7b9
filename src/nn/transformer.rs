use super::{Conv, ConvInput, Initializer, Linear, Module, NnError, Visitor};
use crate::ops::{self, AttentionInput, Tape, Var};

/// The variants of a transformer layer.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TransformerOptions {
    /// Number of heads.
    pub heads: usize,
    /// Put heads side by side instead of taking their mean.
    pub concat: bool,
    /// Let a gate choose between a node and its neighbours instead of adding them.
    pub beta: bool,
    /// The share of attention weights that training sets to zero.
    pub dropout: f32,
    /// Attributes of an edge, 0 for none.
    pub edge_width: usize,
    /// Biases of all linear functions but that of edges.
    pub bias: bool,
    /// Add a linear function of the node itself.
    pub root_weight: bool,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        Self { heads: 1, concat: true, beta: false, dropout: 0.0, edge_width: 0, bias: true, root_weight: true }
    }
}

/// `out_i = h_i + r_i` with `h_ih = sum_j a_jih (W_v x_j + W_e e_ji)_h`, `a` the softmax over the neighbours of `<W_q
/// x_i, W_k x_j + W_e e_ji>_h / sqrt(channels)`, and `r_i = W_s x_i`; with `beta`, `out_i = b_i r_i + (1 - b_i) h_i`
/// and `b_i = sigmoid(w (h_i, r_i, h_i - r_i))` (Shi et al., "Masked Label Prediction: Unified Message Passing Model
/// for Semi-Supervised Classification", IJCAI 2021).
#[derive(Debug)]
pub struct TransformerConv {
    /// Keys, of the neighbours.
    pub lin_key: Linear,
    /// Queries, of the node itself.
    pub lin_query: Linear,
    /// Values, of the neighbours.
    pub lin_value: Linear,
    /// From edge attributes to what is added to keys and values.
    pub lin_edge: Option<Linear>,
    /// Of the node itself.
    pub lin_skip: Option<Linear>,
    /// The gate.
    pub lin_beta: Option<Linear>,
    options: TransformerOptions,
}

impl TransformerConv {
    /// Heads of `channels` channels each, with PyTorch's initialisation.
    ///
    /// # Errors
    /// [`NnError::Argument`] for no heads or a gate without a root weight; if the device has no room.
    pub fn new(
        init: &mut Initializer<'_>,
        in_width: usize,
        channels: usize,
        options: TransformerOptions,
    ) -> Result<Self, NnError> {
        let refuse = |what, got: &str, expected: &str| {
            Err(NnError::Argument { what, got: got.to_owned(), expected: expected.to_owned() })
        };
        if options.heads == 0 || channels == 0 {
            return refuse("the number of heads or channels", "0", "at least 1");
        }
        if options.beta && !options.root_weight {
            return refuse("a gate", "asked for without a root weight", "one between a node and its neighbours");
        }
        let all = options.heads * channels;
        let out_width = if options.concat { all } else { channels };
        let bias = options.bias;
        let mut linear = |wanted: bool, from, to, bias| -> Result<Option<Linear>, NnError> {
            if wanted { Linear::new(init, from, to, bias).map(Some) } else { Ok(None) }
        };
        Ok(Self {
            lin_edge: linear(options.edge_width > 0, options.edge_width, all, false)?,
            lin_skip: linear(options.root_weight, in_width, out_width, bias)?,
            lin_beta: linear(options.beta, 3 * out_width, 1, false)?,
            lin_key: Linear::new(init, in_width, all, bias)?,
            lin_query: Linear::new(init, in_width, all, bias)?,
            lin_value: Linear::new(init, in_width, all, bias)?,
            options,
        })
    }
}

impl Conv for TransformerConv {
    fn forward(&self, tape: &Tape, input: &ConvInput<'_>) -> Result<Var, NnError> {
        input.refuse_edge_data("TransformerConv", false, self.lin_edge.is_some())?;
        let weight = self.lin_edge.as_ref().map(|lin| lin.weight.on(tape));
        let edges = match (&weight, input.edge_attr) {
            (None, _) => None,
            (Some(weight), Some(attr)) => Some((attr, weight)),
            (Some(_), None) => {
                return Err(NnError::Argument {
                    what: "TransformerConv",
                    got: "given no edge attributes".into(),
                    expected: "edge attributes".into(),
                });
            }
        };
        // Recorded before attention, so that its gradient towards the input follows that of attention, and is not there
        // meanwhile.
        let root = match &self.lin_skip {
            Some(lin_skip) => Some(input.of_destinations(tape, None, |x| lin_skip.forward(tape, x))?),
            None => None,
        };
        let query = input.of_destinations(tape, None, |x| self.lin_query.forward(tape, x))?;
        let key = self.lin_key.forward(tape, input.x)?;
        let value = self.lin_value.forward(tape, input.x)?;
        let attention = AttentionInput { heads: self.options.heads, edges, dropout: self.options.dropout };
        let mut out = ops::transformer(tape, input.graph, &query, &key, &value, attention)?;
        // Those of one head are their mean.
        if !self.options.concat && self.options.heads > 1 {
            out = ops::mean_heads(tape, &out, self.options.heads)?;
        }
        let Some(root) = root else { return Ok(out) };
        Ok(match &self.lin_beta {
            Some(lin_beta) => ops::gate(tape, &out, &root, &lin_beta.weight.on(tape))?,
            None => ops::add(tape, &out, &root)?,
        })
    }
}

impl Module for TransformerConv {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.module("lin_key", &self.lin_key);
        visitor.module("lin_query", &self.lin_query);
        visitor.module("lin_value", &self.lin_value);
        for (name, lin) in [("lin_edge", &self.lin_edge), ("lin_skip", &self.lin_skip), ("lin_beta", &self.lin_beta)] {
            if let Some(lin) = lin {
                visitor.module(name, lin);
            }
        }
    }
}
