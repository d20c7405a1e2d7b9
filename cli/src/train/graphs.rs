//! Training on a set of small graphs, a class each.

use clap::ValueEnum;
use hopwise::{
    Matrix,
    backend::{Device, Tensor},
    data::{Dataset, Split},
    graph::generate::SplitMix,
    nn::{BatchInput, GraphClassifier, GraphTrainer, Readout, accuracy, checkpoint, stratified_folds},
    ops::ClassTargets,
};
use serde_json::json;

use super::{
    Args, in_data,
    learner::Learner,
    report::{Run, Scores, Setting},
    two_class_auroc,
};
use crate::{failure::Failure, plot, setup::PreparedGraphs};

/// Folds that a set of graphs is shared out among where nobody says how many.
pub(crate) const DEFAULT_FOLDS: usize = 10;

/// Graphs a step where nobody says how many.
const DEFAULT_BATCH: usize = 32;

/// Graphs whose classes are told at once.
const GRAPHS_AT_ONCE: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReadoutKind {
    Sum,
    Mean,
    Max,
}

impl ReadoutKind {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
        }
    }

    fn readout(self) -> Readout {
        match self {
            Self::Sum => Readout::Sum,
            Self::Mean => Readout::Mean,
            Self::Max => Readout::Max,
        }
    }
}

/// What only sets of graphs have.
#[derive(Debug, clap::Args)]
pub(super) struct GraphArgs {
    /// What the nodes of a graph are reduced to, in a set of graphs [default: sum]
    #[arg(long, value_enum)]
    readout: Option<ReadoutKind>,

    /// Graphs a step, in a set of graphs [default: 32]
    #[arg(long, value_name = "N", value_parser = super::at_least_one)]
    batch_size: Option<usize>,

    /// Shares a set of graphs out among N folds, trains once for each, and reports mean and deviation [default: the first of 10 alone]
    #[arg(long, value_name = "N", conflicts_with = "split")]
    folds: Option<usize>,
}

impl GraphArgs {
    /// Says which flag has no meaning for the nodes of one graph.
    pub(super) fn refuse(&self, source: &str) -> Result<(), Failure> {
        let given = [
            self.readout.map(|r| format!("--readout {}", r.name())),
            self.batch_size.map(|n| format!("--batch-size {n}")),
            self.folds.map(|n| format!("--folds {n}")),
        ];
        match given.into_iter().flatten().next() {
            Some(flag) => Err(Failure::Usage(format!(
                "{flag} is for sets of graphs, but {source} is one graph, whose nodes are labelled: leave it out"
            ))),
            None => Ok(()),
        }
    }

    fn readout(&self) -> ReadoutKind {
        self.readout.unwrap_or(ReadoutKind::Sum)
    }

    fn batch_size(&self) -> usize {
        self.batch_size.unwrap_or(DEFAULT_BATCH)
    }
}

/// The graphs of fold `fold` test, those of the next one validate, and all others train.
pub(crate) fn fold_split(folds: &[Vec<u32>], fold: usize) -> Split {
    let next = (fold + 1) % folds.len();
    let rest = (0..folds.len()).filter(|&k| k != fold && k != next);
    Split { train: rest.flat_map(|k| folds[k].clone()).collect(), val: folds[next].clone(), test: folds[fold].clone() }
}

pub(super) fn run(args: &Args, dataset: Dataset) -> Result<(), Failure> {
    let prepared = args.prepare.prepare_graphs(dataset, args.model.takes_weights())?;
    let (count, folds) = args.folds(prepared.set.len())?;
    let device = args.device.open()?;
    let mut runs = Vec::new();
    let mut written = Ok(());
    for seed in args.all_seeds() {
        let dealt = stratified_folds(&prepared.set.labels, count, seed).map_err(in_data)?;
        for fold in folds.clone() {
            let split = fold_split(&dealt, fold);
            let (run, model) = args.train_graphs(&prepared, &split, &device, (seed, fold))?;
            if let (true, Some(path)) = (runs.is_empty(), &args.out) {
                written = model.save(&args.graph_metadata(&prepared, count, fold), path).map_err(Failure::from);
            }
            if folds.len() > 1 || args.seeds > 1 {
                let test = 100.0 * run.scores.accuracy[2];
                eprintln!("seed {seed}, fold {fold}: loss {:.4}, test accuracy {test:.2} %", run.last_loss());
            }
            runs.push(run);
        }
    }
    let setting = Setting {
        unit: "graphs",
        runs: if folds.len() > 1 { "folds" } else { "seeds" },
        more: vec![
            ("readout", json!(args.graphs.readout().name())),
            ("batch_size", json!(args.graphs.batch_size())),
            ("folds", json!(count)),
        ],
    };
    args.report(&runs, &setting, &device)?;
    if let Some(path) = &args.plot {
        let title = format!("{} on {}", args.model.name(), args.source.name());
        plot::training_curve(path, &title, &runs[0].curves.losses, &runs[0].curves.validation)?;
    }
    written
}

impl Args {
    /// The number of folds, and those to test.
    fn folds(&self, graphs: usize) -> Result<(usize, std::ops::Range<usize>), Failure> {
        if graphs < 3 {
            return Err(Failure::Data(format!(
                "{} has {graphs} graphs, but at least 3 are needed: to train on, to validate and to test",
                self.source.name()
            )));
        }
        match (self.graphs.folds, self.prepare.split) {
            (Some(folds), _) if !(3..=graphs).contains(&folds) => Err(Failure::Usage(format!(
                "--folds is {folds}, expected from 3 to the number of graphs, which is {graphs}: one fold tests, one validates, the others train"
            ))),
            (Some(folds), _) => Ok((folds, 0..folds)),
            (None, split) => {
                let (folds, fold) = (DEFAULT_FOLDS.min(graphs), split.unwrap_or(0));
                if fold >= folds {
                    return Err(Failure::Usage(format!(
                        "--split {fold} does not exist: the graphs of {} are shared out among {folds} folds, numbered from 0",
                        self.source.name()
                    )));
                }
                if split.is_none() {
                    eprintln!(
                        "note: testing the first of {folds} folds (--split K takes another, --folds {folds} all)"
                    );
                }
                Ok((folds, fold..fold + 1))
            }
        }
    }

    fn train_graphs(
        &self,
        prepared: &PreparedGraphs,
        split: &Split,
        device: &Device,
        (seed, fold): (u64, usize),
    ) -> Result<(Run, GraphClassifier), Failure> {
        let classes = prepared.set.num_classes as usize;
        let readout = self.graphs.readout().readout();
        let builder = self.builder(prepared.graph());
        let model = builder.build_classifier(device, prepared.width(), classes, readout, seed)?;
        let mut learner = GraphLearner {
            trainer: GraphTrainer::new(device, model, seed, self.adam())?,
            prepared,
            split,
            device,
            batch_size: self.graphs.batch_size(),
            whole: None,
            order: split.train.clone(),
            random: SplitMix::stream(seed, 2),
        };
        let curves = self.train(&mut learner, format!("seed {seed}, fold {fold}"))?;
        let sizes = [split.train.len(), split.val.len(), split.test.len()];
        let run = Run { seed, fold: Some(fold), curves, scores: learner.scores()?, sizes };
        Ok((run, learner.trainer.model))
    }

    /// How data was prepared and shared out: `infer` does the same.
    fn graph_metadata(&self, prepared: &PreparedGraphs, folds: usize, fold: usize) -> checkpoint::Metadata {
        let mut metadata = self.preparation();
        metadata.insert("folds".into(), folds.to_string());
        metadata.insert("fold".into(), fold.to_string());
        metadata.insert("label_values".into(), json!(prepared.set.label_values).to_string());
        metadata
    }
}

/// A model of graphs in training.
struct GraphLearner<'a> {
    trainer: GraphTrainer,
    prepared: &'a PreparedGraphs,
    split: &'a Split,
    device: &'a Device,
    batch_size: usize,
    /// All graphs to train on, where they are one batch.
    whole: Option<(BatchInput, ClassTargets)>,
    /// The graphs to train on, in the order of the epoch.
    order: Vec<u32>,
    random: SplitMix,
}

impl GraphLearner<'_> {
    fn batch(&self, ids: &[u32]) -> Result<(BatchInput, ClassTargets), Failure> {
        let counted: Vec<u32> = (0..ids.len() as u32).collect();
        let (classes, num_classes) = (self.prepared.classes(ids), self.prepared.set.num_classes);
        let targets = ClassTargets::new(self.device, &classes, num_classes, &counted).map_err(in_data)?;
        Ok((self.prepared.batch(self.device, ids)?, targets))
    }

    fn scores(&self) -> Result<Scores, Failure> {
        let mut scores = Scores { accuracy: [0.0; 3], auroc: [None; 3] };
        let parts = [&self.split.train, &self.split.val, &self.split.test];
        for (part, ids) in parts.into_iter().enumerate() {
            let logits = logits(&self.trainer.model, self.prepared, self.device, ids)?;
            let (classes, all) = (self.prepared.classes(ids), (0..ids.len() as u32).collect::<Vec<_>>());
            scores.accuracy[part] = accuracy(&most_likely(&logits), &classes, &all);
            scores.auroc[part] = two_class_auroc(&logits, &classes, &all);
        }
        Ok(scores)
    }
}

impl Learner for GraphLearner<'_> {
    fn epoch(&mut self) -> Result<Vec<(Tensor, f32)>, Failure> {
        let count = self.order.len();
        let batches = count.div_ceil(self.batch_size);
        if batches == 1 {
            if self.whole.is_none() {
                self.whole = Some(self.batch(&self.order)?);
            }
            let whole = self.whole.as_ref();
            return whole.map(|(input, targets)| Ok((self.trainer.step(input, targets)?, 1.0))).into_iter().collect();
        }
        self.random.shuffle(&mut self.order);
        // Batches of nearly one size, so that no graph is left to be a batch alone.
        (0..batches)
            .map(|k| {
                let ids = k * count / batches..(k + 1) * count / batches;
                let (input, targets) = self.batch(&self.order[ids.clone()])?;
                Ok((self.trainer.step(&input, &targets)?, ids.len() as f32 / count as f32))
            })
            .collect()
    }

    fn validate(&self) -> Result<f64, Failure> {
        let ids = &self.split.val;
        let predicted = most_likely(&logits(&self.trainer.model, self.prepared, self.device, ids)?);
        let all: Vec<u32> = (0..ids.len() as u32).collect();
        Ok(accuracy(&predicted, &self.prepared.classes(ids), &all))
    }
}

/// The outputs for the graphs `ids`, one row a graph.
pub(crate) fn logits(
    model: &GraphClassifier,
    prepared: &PreparedGraphs,
    device: &Device,
    ids: &[u32],
) -> Result<Matrix, Failure> {
    let mut values = Vec::with_capacity(ids.len() * model.num_classes());
    for ids in ids.chunks(GRAPHS_AT_ONCE) {
        let tape = hopwise::ops::Tape::inference(device);
        let logits = model.forward(&tape, &prepared.batch(device, ids)?)?;
        values.extend(logits.tensor().to_matrix_blocking()?.into_data());
    }
    Ok(Matrix::new(ids.len(), model.num_classes(), values).expect("a row a graph"))
}

/// The class of the largest output of each row, the first of equal ones.
pub(crate) fn most_likely(logits: &Matrix) -> Vec<u32> {
    let first_largest = |row: &[f32]| (0..row.len()).reduce(|best, c| if row[c] > row[best] { c } else { best });
    (0..logits.rows()).map(|i| first_largest(logits.row(i)).unwrap_or(0) as u32).collect()
}
