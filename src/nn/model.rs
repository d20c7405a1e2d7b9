use std::path::Path;

use super::{
    CLASSIFIER_KEY, ChebConv, Conv, ConvInput, Features, GatConv, GatOptions, GatV2Conv, GcnConv, GcnOptions, GinConv,
    Initializer, Laplacian, Linear, Module, NnError, Norm, PnaConv, PnaOptions, SageConv, SageOptions, SgConv,
    TransformerConv, TransformerOptions, Visitor, checkpoint, jumping::JumpingHead, norm::Normalization,
};
use crate::{
    backend::{DType, Device, DeviceGraph, kernels::Unary},
    ops::{self, Tape, Var},
};

/// The layer that a [`Gnn`] stacks.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum LayerKind {
    /// [`GcnConv`].
    Gcn(GcnOptions),
    /// [`SageConv`].
    Sage(SageOptions),
    /// [`GinConv`], its inner network as wide as the layer.
    Gin,
    /// [`SgConv`] of so many rounds.
    Sg(u32),
    /// [`ChebConv`] of so many terms.
    Cheb(usize, Laplacian),
    /// [`GatConv`]: the hidden width is that of all heads side by side; the last layer has one head.
    Gat(GatOptions),
    /// [`GatV2Conv`], likewise.
    GatV2(GatOptions),
    /// [`TransformerConv`], likewise.
    Transformer(TransformerOptions),
    /// [`PnaConv`]; the last layer has one tower.
    Pna(PnaOptions),
}

/// What a [`Gnn`] is to be.
///
/// ```
/// use hopwise::{backend::Device, nn::{GnnBuilder, LayerKind, Module}};
///
/// let device = Device::cpu();
/// let model = GnnBuilder::new(LayerKind::Gcn(Default::default())).hidden(16).layers(2).dropout(0.5).build(&device, 34, 2, 0)?;
/// assert_eq!(model.parameters()[0].0, "convs.0.bias");
/// # Ok::<(), hopwise::nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GnnBuilder {
    kind: LayerKind,
    hidden: usize,
    layers: usize,
    dropout: f32,
    activation: Unary,
    #[serde(default)]
    dtype: DType,
    #[serde(default)]
    norm: Norm,
    #[serde(default)]
    residual: bool,
    #[serde(default)]
    jumping: bool,
    #[serde(default)]
    input_layer: bool,
}

impl GnnBuilder {
    /// Two layers, 16 hidden features, ReLU between layers, dropout 0.5 before each.
    pub fn new(kind: LayerKind) -> Self {
        Self {
            kind,
            hidden: 16,
            layers: 2,
            dropout: 0.5,
            activation: Unary::Relu,
            dtype: DType::F32,
            norm: Norm::None,
            residual: false,
            jumping: false,
            input_layer: false,
        }
    }

    /// SAGE-RI, "residual inception": GraphSAGE with batch normalisation, residual connections and a network over the
    /// outputs of all layers; leaky ReLU of slope 0.01, dropout 0.1 (Kaler et al., "Accelerating Training and Inference
    /// of Graph Neural Networks with Fast Sampling and Pipelining", MLSys 2022).
    pub fn sage_ri() -> Self {
        // The norm takes any bias out again.
        let kind = LayerKind::Sage(SageOptions { bias: false, ..Default::default() });
        let builder = Self::new(kind).activation(Unary::LeakyRelu(0.01));
        builder.norm(Norm::Batch).residual(true).jumping(true).dropout(0.1)
    }

    /// Width between the layers.
    #[must_use]
    pub fn hidden(self, hidden: usize) -> Self {
        Self { hidden, ..self }
    }

    /// Number of layers.
    #[must_use]
    pub fn layers(self, layers: usize) -> Self {
        Self { layers, ..self }
    }

    /// Share of each layer's input that training drops.
    #[must_use]
    pub fn dropout(self, dropout: f32) -> Self {
        Self { dropout, ..self }
    }

    /// The function between layers.
    #[must_use]
    pub fn activation(self, activation: Unary) -> Self {
        Self { activation, ..self }
    }

    /// How features are stored between and within layers; weights stay in 32 bits, and so do sums and losses.
    #[must_use]
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// What normalises hidden features, before the activation.
    #[must_use]
    pub fn norm(self, norm: Norm) -> Self {
        Self { norm, ..self }
    }

    /// Hidden layers add their input to their output; features go through a linear function first.
    #[must_use]
    pub fn residual(self, residual: bool) -> Self {
        Self { residual, ..self }
    }

    /// All layers are hidden ones, and a network of two linear layers, the first with the norm and the activation, makes
    /// the outputs of the model's input beside the outputs of all layers (Xu et al., "Representation Learning on Graphs
    /// with Jumping Knowledge Networks", ICML 2018).
    #[must_use]
    pub fn jumping(self, jumping: bool) -> Self {
        Self { jumping, ..self }
    }

    /// A linear layer to the hidden width before the first convolution, for those whose cost grows with the square of
    /// their input's width, as PNA's does.
    #[must_use]
    pub fn input_layer(self, input_layer: bool) -> Self {
        Self { input_layer, ..self }
    }

    /// A model with initial weights that depend on the seed alone.
    ///
    /// # Errors
    /// If a number has no meaning, or what the device reports.
    pub fn build(self, device: &Device, in_width: usize, out_width: usize, seed: u64) -> Result<Gnn, NnError> {
        let layers = self.layers.saturating_sub(usize::from(!self.jumping));
        self.build_layers(&mut Initializer::new(device, seed), in_width, out_width, layers)
    }

    /// A model whose outputs are `[nodes, hidden]` features for what follows: all of its layers are hidden ones.
    pub(super) fn build_encoder(self, init: &mut Initializer<'_>, in_width: usize) -> Result<Gnn, NnError> {
        self.build_layers(init, in_width, self.hidden, self.layers)
    }

    /// A model whose first `hidden_layers` layers are hidden ones.
    fn build_layers(
        self,
        init: &mut Initializer<'_>,
        in_width: usize,
        out_width: usize,
        hidden_layers: usize,
    ) -> Result<Gnn, NnError> {
        for (what, value) in [
            ("the number of layers", self.layers),
            ("the hidden size", self.hidden),
            ("the number of input features", in_width),
            ("the number of outputs", out_width),
        ] {
            if value == 0 {
                return Err(NnError::Argument { what, got: "0".into(), expected: "at least 1".into() });
            }
        }
        if !(0.0..1.0).contains(&self.dropout) {
            let expected = "at least 0 and below 1".into();
            return Err(NnError::Argument { what: "dropout", got: self.dropout.to_string(), expected });
        }
        let is_hidden = |i: usize| i < hidden_layers;
        let lin_in = if self.input_layer { Some(Linear::new(init, in_width, self.hidden, true)?) } else { None };
        let first = if self.input_layer { self.hidden } else { in_width };
        let convs = (0..self.layers)
            .map(|i| {
                let from = if i == 0 { first } else { self.hidden };
                let to = if is_hidden(i) { self.hidden } else { out_width };
                Ok(match self.kind {
                    LayerKind::Gcn(options) => Box::new(GcnConv::new(init, from, to, options)?) as Box<dyn Conv>,
                    LayerKind::Sage(options) => Box::new(SageConv::new(init, from, to, options)?),
                    LayerKind::Gin => Box::new(GinConv::new(init, from, self.hidden, to)?),
                    LayerKind::Sg(hops) => Box::new(SgConv::new(init, from, to, hops)?),
                    LayerKind::Cheb(terms, normalization) => {
                        Box::new(ChebConv::new(init, from, to, terms, normalization)?)
                    }
                    LayerKind::Gat(options) => {
                        let (heads, concat) = self.heads(options.heads, is_hidden(i))?;
                        Box::new(GatConv::new(init, from, to / heads, GatOptions { heads, concat, ..options })?)
                    }
                    LayerKind::GatV2(options) => {
                        let (heads, concat) = self.heads(options.heads, is_hidden(i))?;
                        Box::new(GatV2Conv::new(init, from, to / heads, GatOptions { heads, concat, ..options })?)
                    }
                    LayerKind::Transformer(options) => {
                        let (heads, concat) = self.heads(options.heads, is_hidden(i))?;
                        let options = TransformerOptions { heads, concat, ..options };
                        Box::new(TransformerConv::new(init, from, to / heads, options)?)
                    }
                    LayerKind::Pna(options) => {
                        let towers = if is_hidden(i) { options.towers } else { 1 };
                        Box::new(PnaConv::new(init, from, to, PnaOptions { towers, ..options })?)
                    }
                })
            })
            .collect::<Result<_, NnError>>()?;
        let norms = (0..hidden_layers).map(|_| Normalization::new(init, self.norm, self.hidden));
        let norms = norms.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let residuals = (0..hidden_layers)
            .map(|i| {
                let of_features = self.residual && i == 0 && !self.input_layer;
                of_features.then(|| Linear::new(init, first, self.hidden, true)).transpose()
            })
            .collect::<Result<_, _>>()?;
        let widths = [first, self.layers * self.hidden, out_width];
        let jumping = if self.jumping { Some(JumpingHead::new(init, widths, self.norm)?) } else { None };
        Ok(Gnn { lin_in, convs, norms, residuals, jumping, builder: self, hidden_layers, in_width, out_width })
    }

    /// Heads of a layer, and whether they stand side by side: the layer of the outputs has one.
    fn heads(&self, heads: usize, is_hidden: bool) -> Result<(usize, bool), NnError> {
        if !is_hidden {
            return Ok((1, false));
        }
        if heads == 0 || !self.hidden.is_multiple_of(heads) {
            return Err(NnError::Argument {
                what: "the number of heads",
                got: heads.to_string(),
                expected: format!("a divisor of the hidden size {}", self.hidden),
            });
        }
        Ok((heads, true))
    }
}

/// Under which key of the metadata [`Gnn::save`] describes the model.
const BUILDER_KEY: &str = "builder";

/// What a file of weights tells about its model.
#[derive(Clone, Debug)]
pub struct StoredModel {
    /// The builder that made the model. For files that only hold weights, as PyTorch Geometric's, layers and widths are read off names and shapes,
    /// and the rest is the default: mean aggregation, GCN's loops and normalisation, the symmetric Laplacian, ReLU, no dropout.
    pub builder: GnnBuilder,
    /// Features a node.
    pub in_width: usize,
    /// Outputs a node.
    pub out_width: usize,
    /// What was written beside the weights.
    pub metadata: checkpoint::Metadata,
}

impl GnnBuilder {
    /// Reads the model off the names and shapes of a file of weights, be it from here or from a PyTorch Geometric model.
    ///
    /// # Errors
    /// [`NnError::File`] if the file cannot be read, [`NnError::OtherModel`] if the names are not those of a model that [`GnnBuilder`] makes.
    pub fn from_weights(path: &Path) -> Result<StoredModel, NnError> {
        let (shapes, metadata) = checkpoint::shapes(path)?;
        let other = |reason: String| NnError::OtherModel { path: path.display().to_string(), reason };
        if metadata.contains_key(CLASSIFIER_KEY) {
            return Err(other("it labels graphs, not nodes (GraphClassifier::load reads it)".into()));
        }
        if let Some(json) = metadata.get(BUILDER_KEY) {
            let (builder, in_width, out_width) = serde_json::from_str(json)
                .map_err(|error| other(format!("its description is of another version ({error})")))?;
            return Ok(StoredModel { builder, in_width, out_width, metadata });
        }
        let numbers = shapes.keys().filter_map(|k| k.strip_prefix("convs.")?.split('.').next()?.parse::<usize>().ok());
        let layers = numbers.max().map_or(0, |last| last.saturating_add(1));
        let matrix = |name: String| match shapes.get(&name).map(Vec::as_slice) {
            Some(&[rows, cols]) => Ok((rows, cols)),
            _ => Err(other(format!("it has no matrix {name}"))),
        };
        // The matrices that say how wide a layer's input and output are.
        let (kind, first, last) = if shapes.contains_key("convs.0.lin_l.weight") && !shapes.contains_key("convs.0.att")
        {
            let options = SageOptions {
                root_weight: shapes.contains_key("convs.0.lin_r.weight"),
                bias: shapes.contains_key("convs.0.lin_l.bias"),
                ..Default::default()
            };
            (LayerKind::Sage(options), "lin_l", "lin_l")
        } else if shapes.contains_key("convs.0.nn.0.weight") {
            (LayerKind::Gin, "nn.0", "nn.2")
        } else if shapes.contains_key("convs.0.lins.0.weight") {
            let terms = (0..).take_while(|k| shapes.contains_key(&format!("convs.0.lins.{k}.weight"))).count();
            (LayerKind::Cheb(terms, Laplacian::Symmetric), "lins.0", "lins.0")
        } else if shapes.contains_key("convs.0.lin.weight") && !shapes.contains_key("convs.0.att_src") {
            let options = GcnOptions { bias: shapes.contains_key("convs.0.bias"), ..Default::default() };
            (LayerKind::Gcn(options), "lin", "lin")
        } else {
            return Err(other(
                "its names are none of a GCN, GraphSAGE, GIN or ChebNet (convs.0.lin.weight and so on)".into(),
            ));
        };
        let (in_side, in_width) = matrix(format!("convs.0.{first}.weight"))?;
        let (out_width, out_side) = matrix(format!("convs.{}.{last}.weight", layers - 1))?;
        let hidden = if layers > 1 { in_side } else { out_side };
        let builder = Self::new(kind).layers(layers).hidden(hidden).dropout(0.0);
        Ok(StoredModel { builder, in_width, out_width, metadata })
    }

    /// The share that dropout takes.
    pub(super) fn dropout_share(&self) -> f32 {
        self.dropout
    }

    /// Whether the layers have a use for edge weights.
    pub fn takes_edge_weights(&self) -> bool {
        matches!(self.kind, LayerKind::Gcn(_) | LayerKind::Sg(_) | LayerKind::Cheb(..))
    }
}

/// Convolutions one after the other. A hidden layer is dropout, convolution, norm, activation, and the residual
/// connection; the layer of the outputs is dropout and convolution.
#[derive(Debug)]
pub struct Gnn {
    lin_in: Option<Linear>,
    convs: Vec<Box<dyn Conv>>,
    /// One a hidden layer, or none.
    norms: Vec<Normalization>,
    /// One a hidden layer: what its input goes through where it is features.
    residuals: Vec<Option<Linear>>,
    jumping: Option<JumpingHead>,
    builder: GnnBuilder,
    /// So many layers, the first, have a norm and an activation.
    hidden_layers: usize,
    in_width: usize,
    out_width: usize,
}

impl Gnn {
    /// Features a node that the model takes.
    pub fn in_width(&self) -> usize {
        self.in_width
    }

    /// Outputs a node.
    pub fn out_width(&self) -> usize {
        self.out_width
    }

    /// The builder that made it.
    pub(super) fn builder(&self) -> GnnBuilder {
        self.builder
    }

    /// How it stores features.
    pub fn dtype(&self) -> DType {
        self.builder.dtype
    }

    /// The outputs, `[nodes, out]`.
    ///
    /// # Errors
    /// If the features do not fit the model, or what the device reports.
    pub fn forward(
        &self,
        tape: &Tape,
        graph: &DeviceGraph,
        x: &Features,
        edge_weight: Option<&Var>,
    ) -> Result<Var, NnError> {
        let mut x = x.to_dtype(tape, self.builder.dtype)?;
        if let Some(lin_in) = &self.lin_in {
            let dropped = x.dropout(tape, self.builder.dropout)?;
            x = ops::activation(tape, &lin_in.forward(tape, &dropped)?, self.builder.activation)?.into();
        }
        let first = x.clone();
        // Where nobody else takes what a layer gives, it is not made but with the dropout of the next one.
        let fused = !self.builder.residual && self.jumping.is_none();
        let mut outputs = Vec::new();
        for (i, conv) in self.convs.iter().enumerate() {
            let dropped = if fused && i > 0 { x.clone() } else { x.dropout(tape, self.builder.dropout)? };
            let input = ConvInput { edge_weight, ..ConvInput::new(graph, &dropped) };
            let mut out = conv.forward(tape, &input)?;
            if i < self.hidden_layers {
                if let Some(norm) = self.norms.get(i) {
                    out = norm.forward(tape, &out)?;
                }
                out = if fused && i + 1 < self.convs.len() {
                    ops::dropped_activation(tape, &out, self.builder.activation, self.builder.dropout)?
                } else {
                    ops::activation(tape, &out, self.builder.activation)?
                };
                if self.builder.residual {
                    let own = ConvInput::new(graph, &x).of_destinations(tape, None, |x| match &self.residuals[i] {
                        Some(lin) => lin.forward(tape, x),
                        None => Ok(x.dense("a residual connection")?.clone()),
                    })?;
                    out = ops::add(tape, &out, &own)?;
                }
            }
            if self.jumping.is_some() {
                outputs.push(out.clone());
            }
            x = out.into();
        }
        match &self.jumping {
            Some(head) => head.forward(tape, &first, &outputs, self.builder.dropout, self.builder.activation),
            None => Ok(x.dense("the output")?.clone()),
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Gnn {
    /// Writes the weights with a description of the model, so that [`GnnBuilder::from_weights`] gives back the very same, and free-form `metadata`.
    ///
    /// # Errors
    /// If the file cannot be written, or what the device reports.
    pub fn save(&self, metadata: &checkpoint::Metadata, path: &Path) -> Result<(), NnError> {
        let mut metadata = metadata.clone();
        let shape = (self.builder, self.in_width, self.out_width);
        let json = serde_json::to_string(&shape).expect("numbers and names are valid JSON");
        metadata.insert(BUILDER_KEY.to_owned(), json);
        checkpoint::save(self, &metadata, path)
    }
}

impl Module for Gnn {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        if let Some(lin_in) = &self.lin_in {
            visitor.module("lin_in", lin_in);
        }
        for (i, conv) in self.convs.iter().enumerate() {
            visitor.module(&format!("convs.{i}"), &**conv);
        }
        for (i, norm) in self.norms.iter().enumerate() {
            visitor.module(&format!("norms.{i}"), norm);
        }
        for (i, lin) in self.residuals.iter().enumerate() {
            if let Some(lin) = lin {
                visitor.module(&format!("res_linears.{i}"), lin);
            }
        }
        if let Some(jumping) = &self.jumping {
            visitor.module("mlp", jumping);
        }
    }
}
