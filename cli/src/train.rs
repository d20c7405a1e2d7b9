pub(crate) mod graphs;
mod learner;
mod report;

use std::path::PathBuf;

use clap::ValueEnum;
use hopwise::{
    Matrix,
    backend::{DType, Device, Tensor, kernels::Unary},
    data::{Labels, Split},
    graph::Graph,
    nn::{
        AdamOptions, AverageDegree, GatOptions, Gnn, GnnBuilder, Laplacian, LayerKind, Norm, PnaOptions, Targets,
        Trainer, TransformerOptions, accuracy, auroc, checkpoint,
    },
    ops::{ClassTargets, MultiTargets},
    plan::{Operation, Workload},
};

use self::{
    graphs::GraphArgs,
    learner::Learner,
    report::{Run, Scores, Setting},
};
use crate::{
    backend::DeviceArgs,
    failure::Failure,
    output, plot, rates,
    setup::{Passes, PrepareArgs, Prepared, Reorder},
    source::SourceArgs,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    /// The layer that the model stacks; sage-ri adds norms, residual connections and a network over all layers
    #[arg(long, value_enum, default_value_t = Model::Gcn)]
    model: Model,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    graphs: GraphArgs,

    /// Full-batch steps, or passes over a set of graphs
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,

    /// Width between layers [default: 16 for gcn and cheb, else 64]
    #[arg(long, value_parser = at_least_one)]
    hidden: Option<usize>,

    /// Number of layers
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    layers: usize,

    /// Learning rate of Adam
    #[arg(long, default_value_t = 0.01, allow_negative_numbers = true)]
    lr: f32,

    /// Weight decay of Adam, added to the gradient of all parameters
    #[arg(long, default_value_t = 5e-4, allow_negative_numbers = true)]
    weight_decay: f32,

    /// Share of each layer's input that is dropped while training [default: 0.6 for gat and gatv2, else 0.5]
    #[arg(long, allow_negative_numbers = true)]
    dropout: Option<f32>,

    /// Heads of the attention layers but the last, which has one
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    heads: usize,

    /// Share of attention that is dropped while training [default: 0.6 for gat and gatv2, 0 for transformer]
    #[arg(long, allow_negative_numbers = true)]
    attention_dropout: Option<f32>,

    /// What normalises hidden features [default: batch for pna and sage-ri, else none]
    #[arg(long, value_enum)]
    norm: Option<NormKind>,

    /// Hidden layers add their input to their output [always so for sage-ri]
    #[arg(long)]
    residual: bool,

    /// How node features and their gradients are stored: f32, f16 or bf16
    #[arg(long, default_value_t = DType::F32)]
    dtype: DType,

    #[command(flatten)]
    prepare: PrepareArgs,

    /// Seed of the initial weights and of dropout
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Train this many times, with the seeds from --seed on, and report mean and deviation
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,

    /// Measure validation accuracy every so many epochs
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    eval_every: u32,

    /// Write the weights of the first seed to a safetensors file, with PyTorch Geometric's names
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Draw loss and validation accuracy of the first seed into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(n) => Ok(n),
        Err(_) => Err("expected a positive integer".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Model {
    Gcn,
    Sage,
    Gin,
    Cheb,
    Gat,
    Gatv2,
    Transformer,
    Pna,
    SageRi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NormKind {
    None,
    Batch,
    Layer,
}

impl NormKind {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Batch => "batch",
            Self::Layer => "layer",
        }
    }

    fn norm(self) -> Norm {
        match self {
            Self::None => Norm::None,
            Self::Batch => Norm::Batch,
            Self::Layer => Norm::Layer,
        }
    }
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Gcn => "gcn",
            Self::Sage => "sage",
            Self::Gin => "gin",
            Self::Cheb => "cheb",
            Self::Gat => "gat",
            Self::Gatv2 => "gatv2",
            Self::Transformer => "transformer",
            Self::Pna => "pna",
            Self::SageRi => "sage-ri",
        }
    }

    /// The model as its paper has it, for attention of so many heads and such a dropout, and for training on `graph`.
    fn builder(self, heads: usize, dropout: f32, graph: &Graph) -> GnnBuilder {
        let kind = match self {
            Self::Gcn => LayerKind::Gcn(Default::default()),
            Self::Sage => LayerKind::Sage(Default::default()),
            Self::Gin => LayerKind::Gin,
            Self::Cheb => LayerKind::Cheb(2, Laplacian::Symmetric),
            Self::Gat => LayerKind::Gat(GatOptions { heads, dropout, ..Default::default() }),
            Self::Gatv2 => LayerKind::GatV2(GatOptions { heads, dropout, ..Default::default() }),
            Self::Transformer => LayerKind::Transformer(TransformerOptions { heads, dropout, ..Default::default() }),
            Self::Pna => LayerKind::Pna(PnaOptions::new(AverageDegree::of(graph))),
            Self::SageRi => return GnnBuilder::sage_ri(),
        };
        match self {
            Self::Gat | Self::Gatv2 => GnnBuilder::new(kind).activation(Unary::Elu(1.0)),
            Self::Pna => GnnBuilder::new(kind).input_layer(true),
            _ => GnnBuilder::new(kind),
        }
    }

    /// Whether it has a use for edge weights.
    fn takes_weights(self) -> bool {
        matches!(self, Self::Gcn | Self::Cheb)
    }

    fn default_norm(self) -> NormKind {
        match self {
            Self::Pna | Self::SageRi => NormKind::Batch,
            _ => NormKind::None,
        }
    }

    /// Dropout of features and of attention.
    fn default_dropout(self) -> (f32, f32) {
        match self {
            Self::Gat | Self::Gatv2 => (0.6, 0.6),
            _ => (0.5, 0.0),
        }
    }

    fn default_hidden(self) -> usize {
        match self {
            Self::Gcn | Self::Cheb => 16,
            _ => 64,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.adam().validate()?;
    for (flag, share) in [("--dropout", args.dropout()), ("--attention-dropout", args.attention_dropout())] {
        if !(0.0..1.0).contains(&share) {
            return Err(Failure::Usage(format!("{flag} is {share}, expected at least 0 and below 1")));
        }
    }
    for path in [&args.out, &args.plot].into_iter().flatten() {
        output::check_target(path)?;
    }
    let dataset = args.source.load()?;
    if dataset.graphs.is_some() {
        return graphs::run(args, dataset);
    }
    args.graphs.refuse(&args.source.name())?;
    let mut prepared = args.prepare.prepare(dataset, args.model.takes_weights())?;
    let Some(labels) = prepared.labels.clone() else {
        return Err(Failure::Data(format!(
            "{} has no labels: there is nothing to train on (`hopwise info` shows what a file holds)",
            args.source.name()
        )));
    };
    prepared.explain_split();
    let device = args.device.open()?;
    let rates = if args.prepare.reorder == Reorder::Auto { rates::load(device.info()) } else { None };
    prepared.reorder(args.prepare.reorder, Some(args.passes()), rates.as_ref())?;
    let mut runs = Vec::new();
    // What is wrong with a file must not cost the results: they are printed first.
    let mut written = Ok(());
    for seed in args.all_seeds() {
        let (run, model) = args.train_once(&prepared, &labels, &device, seed)?;
        if let (true, Some(path)) = (runs.is_empty(), &args.out) {
            written = model.save(&args.metadata(&labels), path).map_err(Failure::from);
        }
        if args.seeds > 1 {
            eprintln!(
                "seed {seed}: loss {:.4}, test accuracy {:.2} %",
                run.last_loss(),
                100.0 * run.scores.accuracy[2]
            );
        }
        runs.push(run);
    }
    args.report(&runs, &Setting { unit: "nodes", runs: "seeds", more: Vec::new() }, &device)?;
    if let Some(path) = &args.plot {
        let title = format!("{} on {}", args.model.name(), args.source.name());
        plot::training_curve(path, &title, &runs[0].curves.losses, &runs[0].curves.validation)?;
    }
    written
}

impl Args {
    fn all_seeds(&self) -> impl Iterator<Item = u64> {
        let first = self.seed;
        (0..u64::from(self.seeds)).map(move |i| first.wrapping_add(i))
    }

    /// What training does with the graph, about: a pass a layer and epoch.
    fn passes(&self) -> Passes {
        let operation = match self.model {
            Model::Gcn | Model::Sage | Model::Gin | Model::Cheb | Model::SageRi => Operation::Sum,
            Model::Gat => Operation::Gat,
            Model::Gatv2 => Operation::Gatv2,
            Model::Transformer => Operation::Transformer,
            Model::Pna => Operation::Pna,
        };
        let feature_bytes = 4 / self.dtype.per_word();
        let work = Workload { operation, backward: true, heads: 1, width: self.hidden(), feature_bytes };
        Passes { work, count: (u64::from(self.epochs) * u64::from(self.seeds)).saturating_mul(self.layers as u64) }
    }

    /// The layers of the model, for training on `graph`.
    fn builder(&self, graph: &Graph) -> GnnBuilder {
        let builder = self.model.builder(self.heads, self.attention_dropout(), graph);
        let builder = builder.hidden(self.hidden()).layers(self.layers).dropout(self.dropout());
        builder.norm(self.norm().norm()).residual(self.residual()).dtype(self.dtype)
    }

    fn hidden(&self) -> usize {
        self.hidden.unwrap_or(self.model.default_hidden())
    }

    fn dropout(&self) -> f32 {
        self.dropout.unwrap_or(self.model.default_dropout().0)
    }

    fn norm(&self) -> NormKind {
        self.norm.unwrap_or(self.model.default_norm())
    }

    fn residual(&self) -> bool {
        self.residual || self.model == Model::SageRi
    }

    fn attention_dropout(&self) -> f32 {
        self.attention_dropout.unwrap_or(self.model.default_dropout().1)
    }

    fn adam(&self) -> AdamOptions {
        AdamOptions { learning_rate: self.lr, weight_decay: self.weight_decay, ..Default::default() }
    }

    fn train_once(
        &self,
        prepared: &Prepared,
        labels: &Labels,
        device: &Device,
        seed: u64,
    ) -> Result<(Run, Gnn), Failure> {
        let split = prepared.split(seed);
        if split.train.is_empty() {
            return Err(Failure::Data(format!("{} has no nodes to train on in its split", self.source.name())));
        }
        let learned = prepared.renumber(&split.train);
        let (outputs, targets) = match labels {
            Labels::Classes { ids, num_classes } => {
                let ids = prepared.arrange(ids);
                let targets = ClassTargets::new(device, &ids, *num_classes, &learned).map_err(in_data)?;
                (*num_classes as usize, Targets::Classes(targets))
            }
            Labels::Multi(matrix) => {
                let targets = MultiTargets::new(device, &prepared.arrange_rows(matrix), &learned).map_err(in_data)?;
                (matrix.cols(), Targets::Multi(targets))
            }
        };
        let model = self.builder(prepared.graph()).build(device, prepared.width(), outputs, seed)?;
        let on_device = prepared.on(device)?;
        let mut trainer = Trainer::new(model, on_device.graph, on_device.features, targets, seed, self.adam())?;
        if let Some(weight) = on_device.edge_weight {
            trainer = trainer.with_edge_weight(weight);
        }

        let mut learner = NodeLearner { trainer, prepared, labels, split };
        let curves = self.train(&mut learner, format!("seed {seed}"))?;
        let scores = learner.scores()?;
        let NodeLearner { trainer, split, .. } = learner;
        let sizes = [split.train.len(), split.val.len(), split.test.len()];
        Ok((Run { seed, fold: None, curves, scores, sizes }, trainer.model))
    }

    /// How data was prepared: `infer` does the same.
    fn metadata(&self, labels: &Labels) -> checkpoint::Metadata {
        let mut metadata = self.preparation();
        metadata.insert("multi_label".to_owned(), matches!(labels, Labels::Multi(_)).to_string());
        metadata.insert("split".to_owned(), self.prepare.split.unwrap_or(0).to_string());
        metadata
    }

    /// What nodes and graphs have in common of it.
    fn preparation(&self) -> checkpoint::Metadata {
        let flag = |name: &str, value: bool| (name.to_owned(), value.to_string());
        checkpoint::Metadata::from([
            flag("normalize_features", !self.prepare.no_normalize_features),
            flag("undirected", self.prepare.undirected),
            flag("edge_weights", !self.prepare.no_edge_weights),
            ("seed".to_owned(), self.seed.to_string()),
        ])
    }
}

/// Labels and splits come from the data, so what is wrong with them is wrong with the data.
fn in_data(error: impl ToString) -> Failure {
    Failure::Data(error.to_string())
}

/// A model of nodes in training.
struct NodeLearner<'a> {
    trainer: Trainer,
    prepared: &'a Prepared,
    labels: &'a Labels,
    split: Split,
}

impl Learner for NodeLearner<'_> {
    fn epoch(&mut self) -> Result<Vec<(Tensor, f32)>, Failure> {
        Ok(vec![(self.trainer.step()?, 1.0)])
    }

    fn validate(&self) -> Result<f64, Failure> {
        Ok(match self.labels {
            Labels::Classes { ids, .. } => accuracy(&self.classes()?, ids, &self.split.val),
            Labels::Multi(targets) => multi_label_accuracy(&self.logits()?, targets, &self.split.val),
        })
    }
}

impl NodeLearner<'_> {
    /// The class that the model gives each node.
    fn classes(&self) -> Result<Vec<u32>, Failure> {
        Ok(self.prepared.restore(pollster::block_on(self.trainer.predict_classes())?))
    }

    /// The outputs of the model for each node.
    fn logits(&self) -> Result<Matrix, Failure> {
        Ok(self.prepared.restore_rows(self.trainer.predict()?.to_matrix_blocking()?))
    }

    fn scores(&self) -> Result<Scores, Failure> {
        let sets = [&self.split.train, &self.split.val, &self.split.test];
        Ok(match self.labels {
            Labels::Classes { ids, .. } => {
                let (predicted, logits) = (self.classes()?, self.logits()?);
                Scores {
                    accuracy: sets.map(|nodes| accuracy(&predicted, ids, nodes)),
                    auroc: sets.map(|nodes| two_class_auroc(&logits, ids, nodes)),
                }
            }
            Labels::Multi(targets) => {
                let logits = self.logits()?;
                Scores { accuracy: sets.map(|nodes| multi_label_accuracy(&logits, targets, nodes)), auroc: [None; 3] }
            }
        })
    }
}

/// The area under the receiver operating characteristic where there are two classes, the second being the positive one.
fn two_class_auroc(logits: &Matrix, classes: &[u32], items: &[u32]) -> Option<f64> {
    if logits.cols() != 2 {
        return None;
    }
    let scores: Vec<f32> = logits.data().chunks_exact(2).map(|row| row[1] - row[0]).collect();
    let positive: Vec<bool> = classes.iter().map(|&c| c == 1).collect();
    auroc(&scores, &positive, items)
}

/// The share of (node, label) pairs that are told right.
pub(crate) fn multi_label_accuracy(logits: &Matrix, targets: &Matrix, nodes: &[u32]) -> f64 {
    let pairs = (nodes.len() * targets.cols()).max(1);
    let right = nodes.iter().flat_map(|&i| logits.row(i as usize).iter().zip(targets.row(i as usize)));
    right.filter(|(logit, target)| (**logit > 0.0) == (**target > 0.5)).count() as f64 / pairs as f64
}
