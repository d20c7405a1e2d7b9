use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use hopwise::{
    Matrix,
    backend::{Device, Tensor, kernels::Unary},
    data::Labels,
    graph::Graph,
    nn::{
        AdamOptions, AverageDegree, GatOptions, Gnn, GnnBuilder, Laplacian, LayerKind, Norm, PnaOptions, Targets,
        Trainer, TransformerOptions, accuracy, checkpoint,
    },
    ops::{ClassTargets, MultiTargets},
};
use serde_json::json;

use crate::{
    backend::DeviceArgs,
    failure::Failure,
    output::{self, Progress},
    plot,
    setup::{PrepareArgs, Prepared},
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

    /// Full-batch steps
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

/// What one seed came to.
#[derive(Debug)]
struct Run {
    seed: u64,
    losses: Vec<f32>,
    /// (epoch, validation accuracy).
    validation: Vec<(u32, f64)>,
    train: f64,
    val: f64,
    test: f64,
    /// Nodes to train on, to validate and to test.
    sizes: [usize; 3],
    /// Time of the steps alone. The first, in which a GPU compiles its kernels, does not count unless it is the only one.
    seconds_per_epoch: f64,
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
    let prepared = args.prepare.prepare(dataset, matches!(args.model, Model::Gcn | Model::Cheb))?;
    let Some(labels) = &prepared.labels else {
        return Err(Failure::Data(format!(
            "{} has no labels: there is nothing to train on (`hopwise info` shows what a file holds)",
            args.source.name()
        )));
    };
    prepared.explain_split();
    let device = args.device.open()?;
    let mut runs = Vec::new();
    // What is wrong with a file must not cost the results: they are printed first.
    let mut written = Ok(());
    for seed in (0..u64::from(args.seeds)).map(|i| args.seed.wrapping_add(i)) {
        let (run, model) = args.train_once(&prepared, labels, &device, seed)?;
        if let (true, Some(path)) = (runs.is_empty(), &args.out) {
            written = model.save(&args.metadata(labels), path).map_err(Failure::from);
        }
        if args.seeds > 1 {
            eprintln!("seed {seed}: loss {:.4}, test accuracy {:.2} %", run.last_loss(), 100.0 * run.test);
        }
        runs.push(run);
    }
    args.report(&runs, &device)?;
    if let Some(path) = &args.plot {
        let title = format!("{} on {}", args.model.name(), args.source.name());
        plot::training_curve(path, &title, &runs[0].losses, &runs[0].validation)?;
    }
    written
}

impl Args {
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
        let (outputs, targets) = match labels {
            Labels::Classes { ids, num_classes } => {
                let targets = ClassTargets::new(device, ids, *num_classes, &split.train).map_err(in_data)?;
                (*num_classes as usize, Targets::Classes(targets))
            }
            Labels::Multi(matrix) => {
                let targets = MultiTargets::new(device, matrix, &split.train).map_err(in_data)?;
                (matrix.cols(), Targets::Multi(targets))
            }
        };
        let model = self
            .model
            .builder(self.heads, self.attention_dropout(), prepared.graph())
            .hidden(self.hidden())
            .layers(self.layers)
            .dropout(self.dropout())
            .norm(self.norm().norm())
            .residual(self.residual())
            .build(device, prepared.width(), outputs, seed)?;
        let on_device = prepared.on(device)?;
        let mut trainer = Trainer::new(model, on_device.graph, on_device.features, targets, seed, self.adam())?;
        if let Some(weight) = on_device.edge_weight {
            trainer = trainer.with_edge_weight(weight);
        }

        let progress = Progress::new(u64::from(self.epochs), format!("seed {seed}"));
        let (mut losses, mut validation) = (Vec::new(), Vec::new());
        let mut pending: Vec<Tensor> = Vec::new();
        let mut elapsed = Duration::ZERO;
        let mut started = Instant::now();
        for epoch in 1..=self.epochs {
            pending.push(trainer.step()?);
            if epoch == 1 && self.epochs > 1 {
                losses.push(read_loss(&pending.remove(0))?);
                started = Instant::now();
            }
            if !epoch.is_multiple_of(self.eval_every) && epoch != self.epochs {
                continue;
            }
            // Reading waits for the device; until here steps were only enqueued.
            for loss in pending.drain(..) {
                losses.push(read_loss(&loss)?);
            }
            elapsed += started.elapsed();
            let loss = losses.last().copied().unwrap_or(f32::NAN);
            if !loss.is_finite() {
                return Err(Failure::Run(format!(
                    "the loss is {loss} after epoch {epoch}: try a smaller --lr, or normalised features"
                )));
            }
            let accuracies = measure(&trainer, labels, &[&split.val])?;
            validation.push((epoch, accuracies[0]));
            let message = format!("loss {loss:.4}, validation accuracy {:.2} %", 100.0 * accuracies[0]);
            progress.advance_to(u64::from(epoch));
            progress.report(u64::from(epoch), message);
            started = Instant::now();
        }
        drop(progress);
        let accuracies = measure(&trainer, labels, &[&split.train, &split.val, &split.test])?;
        let run = Run {
            seed,
            losses,
            validation,
            train: accuracies[0],
            val: accuracies[1],
            test: accuracies[2],
            sizes: [split.train.len(), split.val.len(), split.test.len()],
            seconds_per_epoch: elapsed.as_secs_f64() / f64::from((self.epochs - 1).max(1)),
        };
        Ok((run, trainer.model))
    }

    /// How data was prepared: `infer` does the same.
    fn metadata(&self, labels: &Labels) -> checkpoint::Metadata {
        let flag = |name: &str, value: bool| (name.to_owned(), value.to_string());
        checkpoint::Metadata::from([
            flag("normalize_features", !self.prepare.no_normalize_features),
            flag("undirected", self.prepare.undirected),
            flag("edge_weights", !self.prepare.no_edge_weights),
            flag("multi_label", matches!(labels, Labels::Multi(_))),
            ("seed".to_owned(), self.seed.to_string()),
            ("split".to_owned(), self.prepare.split.unwrap_or(0).to_string()),
        ])
    }

    fn report(&self, runs: &[Run], device: &Device) -> Result<(), Failure> {
        let mean = |f: &dyn Fn(&Run) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
        let test = mean(&|r| r.test);
        // The deviation of a sample, 0 for a single seed.
        let spread = runs.iter().map(|r| (r.test - test).powi(2)).sum::<f64>() / (runs.len().max(2) - 1) as f64;
        let deviation = spread.sqrt();
        let seconds = mean(&|r| r.seconds_per_epoch);
        if self.json {
            let per_seed: Vec<_> = runs
                .iter()
                .map(|r| {
                    json!({
                        "seed": r.seed,
                        "loss": r.last_loss(),
                        "train_accuracy": r.train,
                        "val_accuracy": r.val,
                        "test_accuracy": r.test,
                        "nodes": { "train": r.sizes[0], "val": r.sizes[1], "test": r.sizes[2] },
                        "loss_curve": r.losses,
                        "val_accuracy_curve": r.validation,
                    })
                })
                .collect();
            let object = json!({
                "source": self.source.name(),
                "model": self.model.name(),
                "backend": device.info().backend,
                "device": device.info().name,
                "driver": device.info().driver,
                "epochs": self.epochs,
                "hidden": self.hidden(),
                "layers": self.layers,
                "lr": self.lr,
                "weight_decay": self.weight_decay,
                "dropout": self.dropout(),
                "norm": self.norm().name(),
                "residual": self.residual(),
                "loss": mean(&|r| f64::from(r.last_loss())),
                "train_accuracy": mean(&|r| r.train),
                "val_accuracy": mean(&|r| r.val),
                "test_accuracy": test,
                "test_accuracy_std": deviation,
                "seconds_per_epoch": seconds,
                "peak_bytes": device.memory().peak,
                "seeds": per_seed,
            });
            return output::print(&object.to_string());
        }
        let over = if runs.len() > 1 {
            format!(" ± {:.2} over {} seeds", 100.0 * deviation, runs.len())
        } else {
            String::new()
        };
        output::print(&format!(
            "{} on {}: loss {:.4}, accuracy {:.2} % train, {:.2} % validation, {:.2} % test{over}; {:.3} ms an epoch",
            self.model.name(),
            self.source.name(),
            mean(&|r| f64::from(r.last_loss())),
            100.0 * mean(&|r| r.train),
            100.0 * mean(&|r| r.val),
            100.0 * test,
            1e3 * seconds,
        ))
    }
}

impl Run {
    fn last_loss(&self) -> f32 {
        self.losses.last().copied().unwrap_or(f32::NAN)
    }
}

fn read_loss(loss: &Tensor) -> Result<f32, Failure> {
    Ok(loss.to_matrix_blocking()?.data()[0])
}

/// Labels and splits come from the data, so what is wrong with them is wrong with the data.
fn in_data(error: impl ToString) -> Failure {
    Failure::Data(error.to_string())
}

/// The accuracy on each set of nodes.
fn measure(trainer: &Trainer, labels: &Labels, sets: &[&[u32]]) -> Result<Vec<f64>, Failure> {
    Ok(match labels {
        Labels::Classes { ids, .. } => {
            let predicted = pollster::block_on(trainer.predict_classes())?;
            sets.iter().map(|nodes| accuracy(&predicted, ids, nodes)).collect()
        }
        Labels::Multi(targets) => {
            let logits = trainer.predict()?.to_matrix_blocking()?;
            sets.iter().map(|nodes| multi_label_accuracy(&logits, targets, nodes)).collect()
        }
    })
}

/// The share of (node, label) pairs that are told right.
pub(crate) fn multi_label_accuracy(logits: &Matrix, targets: &Matrix, nodes: &[u32]) -> f64 {
    let pairs = (nodes.len() * targets.cols()).max(1);
    let right = nodes.iter().flat_map(|&i| logits.row(i as usize).iter().zip(targets.row(i as usize)));
    right.filter(|(logit, target)| (**logit > 0.0) == (**target > 0.5)).count() as f64 / pairs as f64
}
