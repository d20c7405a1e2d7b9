use super::{Adam, AdamOptions, FeatureInput, Gnn, LossScaling, Module, NnError};
use crate::{
    backend::{Buffer, DeviceGraph, Indices, Recording, Tensor},
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
    recorded: Option<RecordedStep>,
    steps_before_recording: u32,
}

/// The first steps copy the graph to the device, and take the memory that later ones use again.
const STEPS_BEFORE_RECORDING: u32 = 2;

/// The commands of a step.
#[derive(Debug)]
struct RecordedStep {
    commands: Recording,
    loss: Tensor,
    /// What the commands read and update.
    parameters: Vec<Buffer>,
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
        let optimizer = Adam::for_dtype(graph.device(), &model, model.dtype(), seed, options)?;
        // Converted once, not in every step.
        let features = features.to_dtype(model.dtype())?;
        Ok(Self {
            model,
            graph,
            features,
            edge_weight: None,
            targets,
            optimizer,
            recorded: None,
            steps_before_recording: STEPS_BEFORE_RECORDING,
        })
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
        Ok(Self { optimizer: self.optimizer.with_loss_scaling(scaling)?, recorded: None, ..self })
    }

    /// Gives every edge a weight: `[edges, 1]`, in edge order.
    #[must_use]
    pub fn with_edge_weight(self, edge_weight: Tensor) -> Self {
        Self { edge_weight: Some(edge_weight), recorded: None, ..self }
    }

    /// One step: forward, loss, backward, update. Nothing waits; the loss, `[1, 1]`, can be read later.
    ///
    /// Where the device records (CUDA), the commands of a step are recorded once and replayed from then on.
    ///
    /// # Errors
    /// If the shapes do not fit, or what the device reports.
    pub fn step(&mut self) -> Result<Tensor, NnError> {
        self.optimizer.begin_step()?;
        self.record_if_due()?;
        let Some(recorded) = &self.recorded else { return self.enqueue_step() };
        recorded.commands.replay()?;
        // The next replay writes the loss again.
        let loss = recorded.loss.like("loss")?;
        self.graph.device().combine(1.0, &recorded.loss, None, &loss)?;
        Ok(loss)
    }

    /// Enqueues the commands of a step.
    fn enqueue_step(&self) -> Result<Tensor, NnError> {
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

    /// Records a step when all that is made once has been made, and again when the model is another.
    fn record_if_due(&mut self) -> Result<(), NnError> {
        let parameters: Vec<Buffer> =
            self.model.parameters().into_iter().map(|(_, p)| p.value().buffer().clone()).collect();
        if let Some(recorded) = &self.recorded {
            let same = parameters.len() == recorded.parameters.len()
                && parameters.iter().zip(&recorded.parameters).all(|(a, b)| a.same(b));
            if same && recorded.commands.take_memory_back() {
                return Ok(());
            }
            // Where only the memory is gone, the same step is recorded at once.
            self.steps_before_recording = if same { 0 } else { STEPS_BEFORE_RECORDING };
            self.recorded = None;
        }
        if self.steps_before_recording > 0 {
            self.steps_before_recording -= 1;
            return Ok(());
        }
        // Asked once: a device that cannot record will not learn it.
        self.steps_before_recording = u32::MAX;
        let device = self.graph.device();
        if !device.begin_recording()? {
            return Ok(());
        }
        let loss = self.enqueue_step();
        let commands = device.end_recording();
        match (loss, commands) {
            (Ok(loss), Ok(commands)) => self.recorded = Some(RecordedStep { commands, loss, parameters }),
            (Err(error), _) => tracing::debug!(%error, "the step is not recorded"),
            (_, Err(error)) => tracing::debug!(%error, "the step is not recorded"),
        }
        Ok(())
    }

    /// The outputs of the model without dropout, `[nodes, out]`.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn predict(&self) -> Result<Tensor, NnError> {
        let Some(recorded) = &self.recorded else { return self.compute_outputs() };
        // What is computed on the way fits the memory of the recorded step. The outputs outlast the next one.
        let (device, shape) = (self.graph.device(), [self.graph.num_dst(), self.model.out_width()]);
        let outputs = Tensor::uninit_typed(device, self.model.dtype(), shape[0], shape[1], "outputs")?;
        recorded.commands.lend_memory();
        device.combine(1.0, &self.compute_outputs()?, None, &outputs)?;
        Ok(outputs)
    }

    fn compute_outputs(&self) -> Result<Tensor, NnError> {
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
        let classes = Indices::uninit(device, self.graph.num_dst(), "predicted classes")?;
        let logits = self.predict()?;
        device.argmax(&logits, &classes)?;
        Ok(classes.to_vec(device).await?)
    }
}
