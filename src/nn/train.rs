use super::{Adam, AdamOptions, FeatureInput, Gnn, LossScaling, NnError};
use crate::{
    backend::{DType, DeviceGraph, Indices, Tensor},
    ops::{self, ClassTargets, MultiTargets, Tape},
};

/// What a model is to predict.
#[derive(Clone, Debug)]
pub enum Targets {
    /// One class a node: cross-entropy.
    Classes(ClassTargets),
    /// Any number of labels a node: binary cross-entropy.
    Multi(MultiTargets),
}

/// Full-batch training of a model on one graph: every step sees all nodes.
#[derive(Debug)]
pub struct Trainer {
    /// The model.
    pub model: Gnn,
    graph: DeviceGraph,
    features: FeatureInput,
    edge_weight: Option<Tensor>,
    targets: Targets,
    optimizer: Adam,
}

impl Trainer {
    /// Prepares training; `seed` is that of the dropout masks. A model that runs in f16 is trained with a scaled loss, see
    /// [`LossScaling`].
    ///
    /// # Errors
    /// If an option has no meaning, or what the device reports.
    pub fn new(
        model: Gnn,
        graph: DeviceGraph,
        features: FeatureInput,
        targets: Targets,
        seed: u64,
        options: AdamOptions,
    ) -> Result<Self, NnError> {
        let mut optimizer = Adam::new(graph.device(), &model, seed, options)?;
        // Converted once, not in every step.
        let features = features.to_dtype(model.dtype())?;
        // The gradients of bf16 have the range of 32 bits.
        if model.dtype() == DType::F16 {
            optimizer = optimizer.with_loss_scaling(LossScaling::default())?;
        }
        Ok(Self { model, graph, features, edge_weight: None, targets, optimizer })
    }

    /// The optimiser, whose [`Adam::loss_scale`] tells how training in f16 goes.
    pub fn optimizer(&self) -> &Adam {
        &self.optimizer
    }

    /// Trains with another scale of the loss, in whatever dtype.
    ///
    /// # Errors
    /// As [`Adam::with_loss_scaling`].
    pub fn with_loss_scaling(self, scaling: LossScaling) -> Result<Self, NnError> {
        Ok(Self { optimizer: self.optimizer.with_loss_scaling(scaling)?, ..self })
    }

    /// Gives every edge a weight: `[edges, 1]`, in edge order.
    #[must_use]
    pub fn with_edge_weight(self, edge_weight: Tensor) -> Self {
        Self { edge_weight: Some(edge_weight), ..self }
    }

    /// One step: forward, loss, backward, update. Nothing waits; the loss, `[1, 1]`, can be read later.
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn step(&mut self) -> Result<Tensor, NnError> {
        self.optimizer.begin_step()?;
        let device = self.graph.device();
        let tape = Tape::training(device, self.optimizer.state());
        let edge_weight = self.edge_weight.as_ref().map(|w| tape.constant(w));
        let logits = self.model.forward(&tape, &self.graph, &self.features.on(&tape), edge_weight.as_ref())?;
        let loss = match &self.targets {
            Targets::Classes(targets) => ops::cross_entropy(&tape, &logits, targets)?,
            Targets::Multi(targets) => ops::binary_cross_entropy(&tape, &logits, targets)?,
        };
        drop(logits);
        let gradients = tape.backward_from(&loss, self.optimizer.loss_gradient()?)?;
        self.optimizer.update(&self.model, &gradients)?;
        device.flush()?;
        Ok(loss.tensor().clone())
    }

    /// The outputs of the model without dropout, `[nodes, out]`.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn predict(&self) -> Result<Tensor, NnError> {
        let tape = Tape::inference(self.graph.device());
        let edge_weight = self.edge_weight.as_ref().map(|w| tape.constant(w));
        let logits = self.model.forward(&tape, &self.graph, &self.features.on(&tape), edge_weight.as_ref())?;
        Ok(logits.tensor().clone())
    }

    /// The most likely class of each node.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub async fn predict_classes(&self) -> Result<Vec<u32>, NnError> {
        let device = self.graph.device();
        let logits = self.predict()?;
        let classes = Indices::uninit(device, logits.rows(), "predicted classes")?;
        device.argmax(&logits, &classes)?;
        Ok(classes.to_vec(device).await?)
    }
}

/// The share of `nodes` whose prediction is their label, 0 for no nodes.
///
/// # Panics
/// If a node has no prediction or no label.
pub fn accuracy(predicted: &[u32], labels: &[u32], nodes: &[u32]) -> f64 {
    if nodes.is_empty() {
        return 0.0;
    }
    let right = nodes.iter().filter(|&&i| predicted[i as usize] == labels[i as usize]).count();
    right as f64 / nodes.len() as f64
}
