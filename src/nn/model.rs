use std::path::Path;

use super::{
    ChebConv, Conv, ConvInput, Features, GatConv, GatOptions, GatV2Conv, GcnConv, GcnOptions, GinConv, Initializer,
    Laplacian, Module, NnError, SageConv, SageOptions, SgConv, TransformerConv, TransformerOptions, Visitor,
    checkpoint,
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
}

impl GnnBuilder {
    /// Two layers, 16 hidden features, ReLU between layers, dropout 0.5 before each.
    pub fn new(kind: LayerKind) -> Self {
        Self { kind, hidden: 16, layers: 2, dropout: 0.5, activation: Unary::Relu, dtype: DType::F32 }
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

    /// A model with initial weights that depend on the seed alone.
    ///
    /// # Errors
    /// If a number has no meaning, or what the device reports.
    pub fn build(self, device: &Device, in_width: usize, out_width: usize, seed: u64) -> Result<Gnn, NnError> {
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
        let mut init = Initializer::new(device, seed);
        let convs = (0..self.layers)
            .map(|i| {
                let from = if i == 0 { in_width } else { self.hidden };
                let to = if i + 1 == self.layers { out_width } else { self.hidden };
                Ok(match self.kind {
                    LayerKind::Gcn(options) => Box::new(GcnConv::new(&mut init, from, to, options)?) as Box<dyn Conv>,
                    LayerKind::Sage(options) => Box::new(SageConv::new(&mut init, from, to, options)?),
                    LayerKind::Gin => Box::new(GinConv::new(&mut init, from, self.hidden, to)?),
                    LayerKind::Sg(hops) => Box::new(SgConv::new(&mut init, from, to, hops)?),
                    LayerKind::Cheb(terms, normalization) => {
                        Box::new(ChebConv::new(&mut init, from, to, terms, normalization)?)
                    }
                    LayerKind::Gat(options) => {
                        let (heads, concat) = self.heads(options.heads, i)?;
                        Box::new(GatConv::new(&mut init, from, to / heads, GatOptions { heads, concat, ..options })?)
                    }
                    LayerKind::GatV2(options) => {
                        let (heads, concat) = self.heads(options.heads, i)?;
                        Box::new(GatV2Conv::new(&mut init, from, to / heads, GatOptions { heads, concat, ..options })?)
                    }
                    LayerKind::Transformer(options) => {
                        let (heads, concat) = self.heads(options.heads, i)?;
                        let options = TransformerOptions { heads, concat, ..options };
                        Box::new(TransformerConv::new(&mut init, from, to / heads, options)?)
                    }
                })
            })
            .collect::<Result<_, NnError>>()?;
        Ok(Gnn { convs, builder: self, in_width, out_width })
    }

    /// Heads of layer `i`, and whether they stand side by side: the last layer has one.
    fn heads(&self, heads: usize, i: usize) -> Result<(usize, bool), NnError> {
        if i + 1 == self.layers {
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
            let options =
                SageOptions { root_weight: shapes.contains_key("convs.0.lin_r.weight"), ..Default::default() };
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

    /// Whether the layers have a use for edge weights.
    pub fn takes_edge_weights(&self) -> bool {
        matches!(self.kind, LayerKind::Gcn(_) | LayerKind::Sg(_) | LayerKind::Cheb(..))
    }
}

/// Convolutions one after the other: dropout, convolution, activation; the last without an activation.
#[derive(Debug)]
pub struct Gnn {
    convs: Vec<Box<dyn Conv>>,
    builder: GnnBuilder,
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

    /// How it stores features.
    pub fn dtype(&self) -> DType {
        self.builder.dtype
    }

    /// The outputs of the last layer, `[nodes, out]`.
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
        for (i, conv) in self.convs.iter().enumerate() {
            if i > 0 {
                x = ops::activation(tape, x.dense("a hidden layer")?, self.builder.activation)?.into();
            }
            let dropped = x.dropout(tape, self.builder.dropout)?;
            x = conv.forward(tape, &ConvInput { edge_weight, ..ConvInput::new(graph, &dropped) })?.into();
        }
        Ok(x.dense("the output")?.clone())
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
        for (i, conv) in self.convs.iter().enumerate() {
            visitor.module(&format!("convs.{i}"), &**conv);
        }
    }
}
