use std::path::Path;

use super::{
    Adam, AdamOptions, FeatureInput, Gnn, GnnBuilder, Initializer, Linear, Module, NnError, Readout, Visitor,
    checkpoint,
};
use crate::{
    backend::{Device, DeviceGraph, Tensor, kernels::Unary},
    graph::GraphBatch,
    ops::{self, ClassTargets, Tape, Var},
};

/// Small graphs side by side on a device, with what a model takes of them.
#[derive(Clone, Debug)]
pub struct BatchInput {
    /// The graph of all of them.
    pub graph: DeviceGraph,
    /// An edge from every node to its small graph, see [`GraphBatch::members`].
    pub members: DeviceGraph,
    /// One row a node of the batch.
    pub features: FeatureInput,
    /// `[edges, 1]`, in edge order.
    pub edge_weight: Option<Tensor>,
}

impl BatchInput {
    /// Brings a batch to a device. `features` are those of its nodes, see [`GraphBatch::nodes`].
    ///
    /// # Errors
    /// If there are not as many rows of features as nodes, or what the device reports.
    pub fn new(device: &Device, batch: GraphBatch, features: FeatureInput) -> Result<Self, NnError> {
        let nodes = batch.graph.num_dst() as usize;
        if features.shape()[0] != nodes {
            return Err(NnError::Argument {
                what: "the number of rows of a batch's features",
                got: features.shape()[0].to_string(),
                expected: format!("one a node, {nodes}"),
            });
        }
        let members = DeviceGraph::new(device, batch.members()?);
        Ok(Self { graph: DeviceGraph::new(device, batch.graph), members, features, edge_weight: None })
    }

    /// Gives every edge a weight: `[edges, 1]`, in edge order, see [`GraphBatch::edges`].
    #[must_use]
    pub fn with_edge_weight(self, edge_weight: Tensor) -> Self {
        Self { edge_weight: Some(edge_weight), ..self }
    }

    /// Number of small graphs.
    pub fn num_graphs(&self) -> usize {
        self.members.num_dst()
    }
}

/// A model that tells the class of a whole graph: a [`Gnn`] whose layers are all hidden ones, a [`Readout`] of its nodes, and a network
/// of two layers, `lin2(dropout(relu(lin1(readout))))`.
///
/// ```
/// use hopwise::{
///     Matrix,
///     backend::Device,
///     graph::{EdgeList, Graph},
///     nn::{BatchInput, FeatureInput, GnnBuilder, LayerKind, Readout},
///     ops::Tape,
/// };
///
/// let device = Device::cpu();
/// // A triangle, and two nodes with an edge.
/// let all = Graph::from_edges(&EdgeList::square(5, vec![0, 1, 2, 3], vec![1, 2, 0, 4])?);
/// let batch = all.batch(&[0, 3, 5], &[0, 1])?;
/// let features = FeatureInput::dense(&device, &Matrix::zeros(5, 7))?;
/// let input = BatchInput::new(&device, batch, features)?;
/// let model = GnnBuilder::new(LayerKind::Gin).build_classifier(&device, 7, 2, Readout::Sum, 0)?;
/// let logits = model.forward(&Tape::inference(&device), &input)?;
/// assert_eq!(logits.shape(), [2, 2]);
/// # Ok::<(), hopwise::nn::NnError>(())
/// ```
#[derive(Debug)]
pub struct GraphClassifier {
    gnn: Gnn,
    readout: Readout,
    first: Linear,
    second: Linear,
}

impl GnnBuilder {
    /// A model of graphs instead of nodes, as wide between its two last layers as in its hidden ones, with initial weights that depend
    /// on the seed alone. Its dropout also acts before the last layer.
    ///
    /// # Errors
    /// As [`GnnBuilder::build`].
    pub fn build_classifier(
        self,
        device: &Device,
        in_width: usize,
        classes: usize,
        readout: Readout,
        seed: u64,
    ) -> Result<GraphClassifier, NnError> {
        if classes == 0 {
            return Err(NnError::Argument {
                what: "the number of classes",
                got: "0".into(),
                expected: "at least 1".into(),
            });
        }
        let mut init = Initializer::new(device, seed);
        let gnn = self.build_encoder(&mut init, in_width)?;
        let width = gnn.out_width();
        let first = Linear::new(&mut init, width, width, true)?;
        let second = Linear::new(&mut init, width, classes, true)?;
        Ok(GraphClassifier { gnn, readout, first, second })
    }
}

/// Under which key of the metadata [`GraphClassifier::save`] describes the model.
pub(super) const CLASSIFIER_KEY: &str = "graph_classifier";

impl GraphClassifier {
    /// Features a node that the model takes.
    pub fn in_width(&self) -> usize {
        self.gnn.in_width()
    }

    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.second.out_width()
    }

    /// The builder that its layers were made by.
    pub fn builder(&self) -> GnnBuilder {
        self.gnn.builder()
    }

    /// How it reads graphs out.
    pub fn readout(&self) -> Readout {
        self.readout
    }

    /// The logits, `[graphs, classes]`.
    ///
    /// # Errors
    /// If the features do not fit the model, or what the device reports.
    pub fn forward(&self, tape: &Tape, input: &BatchInput) -> Result<Var, NnError> {
        let edge_weight = input.edge_weight.as_ref().map(|w| tape.constant(w));
        let nodes = self.gnn.forward(tape, &input.graph, &input.features.on(tape), edge_weight.as_ref())?;
        let graphs = self.readout.forward(tape, &input.members, &nodes)?;
        let hidden = ops::activation(tape, &self.first.forward(tape, &graphs.into())?, Unary::Relu)?;
        let dropped = ops::dropout(tape, &hidden, self.gnn.builder().dropout_share())?;
        self.second.forward(tape, &dropped.into())
    }

    /// Writes the weights with a description of the model, so that [`GraphClassifier::load`] gives it back, and free-form `metadata`.
    ///
    /// # Errors
    /// If the file cannot be written, or what the device reports.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn save(&self, metadata: &checkpoint::Metadata, path: &Path) -> Result<(), NnError> {
        let mut metadata = metadata.clone();
        let shape = (self.builder(), self.readout, self.in_width(), self.num_classes());
        let json = serde_json::to_string(&shape).expect("numbers and names are valid JSON");
        metadata.insert(CLASSIFIER_KEY.to_owned(), json);
        checkpoint::save(self, &metadata, path)
    }

    /// The model that [`GraphClassifier::save`] wrote, and what was written beside it.
    ///
    /// # Errors
    /// [`NnError::File`] if the file cannot be read, [`NnError::OtherModel`] if it holds no model of graphs.
    pub fn load(device: &Device, path: &Path) -> Result<(Self, checkpoint::Metadata), NnError> {
        let other = |reason: String| NnError::OtherModel { path: path.display().to_string(), reason };
        let (_, metadata) = checkpoint::shapes(path)?;
        let json = metadata.get(CLASSIFIER_KEY).ok_or_else(|| {
            other("it does not say that it labels graphs, as files of GraphClassifier::save do".into())
        })?;
        let (builder, readout, in_width, classes): (GnnBuilder, Readout, usize, usize) = serde_json::from_str(json)
            .map_err(|error| other(format!("its description is of another version ({error})")))?;
        let model = builder.build_classifier(device, in_width, classes, readout, 0)?;
        checkpoint::load(&model, path)?;
        Ok((model, metadata))
    }
}

impl Module for GraphClassifier {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.module("gnn", &self.gnn);
        // The names of PyTorch Geometric's MLP.
        visitor.module("classifier.lins.0", &self.first);
        visitor.module("classifier.lins.1", &self.second);
    }
}

/// Training of a [`GraphClassifier`], a batch of graphs a step.
#[derive(Debug)]
pub struct GraphTrainer {
    /// The model.
    pub model: GraphClassifier,
    optimizer: Adam,
}

impl GraphTrainer {
    /// Prepares training; `seed` is that of the dropout masks. A model that runs in f16 is trained with a scaled loss, see
    /// [`LossScaling`](super::LossScaling).
    ///
    /// # Errors
    /// If an option has no meaning, or what the device reports.
    pub fn new(device: &Device, model: GraphClassifier, seed: u64, options: AdamOptions) -> Result<Self, NnError> {
        let optimizer = Adam::for_dtype(device, &model, model.gnn.dtype(), seed, options)?;
        Ok(Self { model, optimizer })
    }

    /// The optimiser, whose [`Adam::loss_scale`] tells how training in f16 goes.
    pub fn optimizer(&self) -> &Adam {
        &self.optimizer
    }

    /// One step over a batch: forward, loss, backward, update; `targets` has a class for each of its graphs. Nothing waits; the loss,
    /// `[1, 1]`, can be read later.
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn step(&mut self, input: &BatchInput, targets: &ClassTargets) -> Result<Tensor, NnError> {
        self.optimizer.begin_step()?;
        let device = input.graph.device();
        let tape = Tape::training(device, self.optimizer.state());
        let logits = self.model.forward(&tape, input)?;
        let loss = ops::cross_entropy(&tape, &logits, targets)?;
        drop(logits);
        let gradients = tape.backward_from(&loss, self.optimizer.loss_gradient()?)?;
        self.optimizer.update(&self.model, &gradients)?;
        device.flush()?;
        Ok(loss.tensor().clone())
    }

    /// The logits without dropout, `[graphs, classes]`.
    ///
    /// # Errors
    /// As [`GraphTrainer::step`].
    pub fn predict(&self, input: &BatchInput) -> Result<Tensor, NnError> {
        let tape = Tape::inference(input.graph.device());
        Ok(self.model.forward(&tape, input)?.tensor().clone())
    }
}
