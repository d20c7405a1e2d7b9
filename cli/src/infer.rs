mod graphs;

use std::{fmt::Write, path::PathBuf};

use hopwise::{
    Matrix,
    backend::Indices,
    data::{Labels, Split},
    nn::{GnnBuilder, accuracy, checkpoint},
    ops::Tape,
};
use serde_json::{Map, json};

use crate::{
    backend::DeviceArgs,
    failure::Failure,
    output,
    setup::{PrepareArgs, Prepared, Reorder},
    source::SourceArgs,
    train::multi_label_accuracy,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    /// A safetensors file from `hopwise train --out`, or of a PyTorch Geometric model (GCN, GraphSAGE or GIN)
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    prepare: PrepareArgs,

    /// Write `node,class` lines (`graph,label` of a set of graphs) to a CSV file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(path) = &args.out {
        output::check_target(path)?;
    }
    let dataset = args.source.load()?;
    if dataset.graphs.is_some() {
        return graphs::run(args, dataset);
    }
    let shape = GnnBuilder::from_weights(&args.weights)?;
    let mut prepare = args.prepare.as_trained(&shape.metadata);
    if let (None, Some(Ok(split @ 1..))) = (prepare.split, shape.metadata.get("split").map(|s| s.parse())) {
        prepare.split = Some(split);
    }
    let multi_label = shape.metadata.get("multi_label").is_some_and(|v| v == "true");
    let seed = shape.metadata.get("seed").and_then(|s| s.parse().ok()).unwrap_or(0);
    if prepare.reorder == Reorder::Auto {
        let message = "--reorder auto is for training: one pass is over before an order is found, leave it out";
        return Err(Failure::Usage(message.into()));
    }
    let mut prepared = prepare.prepare(dataset, shape.builder.takes_edge_weights())?;
    args.check_width(shape.in_width, prepared.width())?;
    let device = args.device.open()?;
    prepared.reorder(prepare.reorder, None, None)?;
    let model = shape.builder.build(&device, shape.in_width, shape.out_width, 0)?;
    checkpoint::load(&model, &args.weights)?;

    let on_device = prepared.on(&device)?;
    let tape = Tape::inference(&device);
    let edge_weight = on_device.edge_weight.as_ref().map(|w| tape.constant(w));
    let logits = model.forward(&tape, &on_device.graph, &on_device.features.on(&tape), edge_weight.as_ref())?;
    let predictions = if multi_label {
        let logits = prepared.restore_rows(logits.tensor().to_matrix_blocking()?);
        let above = |row: &[f32]| (0..).zip(row).filter(|(_, v)| **v > 0.0).map(|(c, _)| c).collect();
        Predictions::Labels((0..logits.rows()).map(|i| above(logits.row(i))).collect(), logits)
    } else {
        let classes = Indices::uninit(&device, prepared.num_nodes(), "predicted classes")?;
        device.argmax(logits.tensor(), &classes)?;
        Predictions::Classes(prepared.restore(pollster::block_on(classes.to_vec(&device))?))
    };
    let accuracies = match &prepared.labels {
        Some(labels) => {
            prepared.explain_split();
            let Split { train, val, test } = prepared.split(seed);
            let sets = [("train", train), ("val", val), ("test", test)];
            sets.into_iter()
                .map(|(set, nodes)| Ok((set, predictions.accuracy(labels, &nodes, shape.out_width)?)))
                .collect::<Result<Vec<_>, Failure>>()?
        }
        None => Vec::new(),
    };
    args.report(&prepared, &predictions, &accuracies, device.info())
}

/// What a model says of every node.
enum Predictions {
    /// One class.
    Classes(Vec<u32>),
    /// Any number of labels, and the outputs that they were read off.
    Labels(Vec<Vec<u32>>, Matrix),
}

impl Predictions {
    fn accuracy(&self, labels: &Labels, nodes: &[u32], outputs: usize) -> Result<f64, Failure> {
        match (self, labels) {
            (Self::Classes(predicted), Labels::Classes { ids, num_classes }) if *num_classes as usize == outputs => {
                Ok(accuracy(predicted, ids, nodes))
            }
            (Self::Labels(_, logits), Labels::Multi(targets)) if targets.cols() == outputs => {
                Ok(multi_label_accuracy(logits, targets, nodes))
            }
            (_, Labels::Classes { num_classes: n, .. }) => Err(other_labels(outputs, *n as usize, "classes")),
            (_, Labels::Multi(targets)) => Err(other_labels(outputs, targets.cols(), "labels a node")),
        }
    }
}

fn other_labels(outputs: usize, labels: usize, kind: &str) -> Failure {
    Failure::Data(format!(
        "the model has {outputs} outputs, but the data has {labels} {kind}: these are the weights of a model for other data"
    ))
}

impl Args {
    /// Refuses weights for features of another width.
    fn check_width(&self, of_model: usize, of_data: usize) -> Result<(), Failure> {
        if of_model == of_data {
            return Ok(());
        }
        Err(Failure::Data(format!(
            "{} takes {of_model} features a node, but {} has {of_data}: these are the weights of a model for other data",
            self.weights.display(),
            self.source.name(),
        )))
    }

    fn report(
        &self,
        prepared: &Prepared,
        predictions: &Predictions,
        accuracies: &[(&str, f64)],
        device: &hopwise::backend::DeviceInfo,
    ) -> Result<(), Failure> {
        for (set, value) in accuracies {
            eprintln!("{set} accuracy: {:.2} %", 100.0 * value);
        }
        let node = |i: usize| prepared.node_ids.as_ref().map_or(i as u64, |ids| ids[i]);
        let mut csv = String::new();
        match predictions {
            Predictions::Classes(classes) => {
                csv.push_str("node,class\n");
                classes.iter().enumerate().for_each(|(i, class)| _ = writeln!(csv, "{},{class}", node(i)));
            }
            Predictions::Labels(labels, _) => {
                csv.push_str("node,labels\n");
                for (i, labels) in labels.iter().enumerate() {
                    let labels: Vec<String> = labels.iter().map(u32::to_string).collect();
                    _ = writeln!(csv, "{},{}", node(i), labels.join(" "));
                }
            }
        }
        if let Some(path) = &self.out {
            output::write_file(path, csv.as_bytes())?;
        }
        if self.json {
            let mut object = Map::new();
            object.insert("backend".into(), json!(device.backend));
            object.insert("device".into(), json!(device.name));
            object.insert("num_nodes".into(), json!(prepared.num_nodes()));
            for (set, value) in accuracies {
                object.insert(format!("{set}_accuracy"), json!(value));
            }
            if let Some(ids) = &prepared.node_ids {
                object.insert("node_ids".into(), json!(ids));
            }
            let predictions = match predictions {
                Predictions::Classes(classes) => json!(classes),
                Predictions::Labels(labels, _) => json!(labels),
            };
            object.insert("predictions".into(), predictions);
            return output::print(&json!(object).to_string());
        }
        if self.out.is_none() { output::print(csv.trim_end()) } else { Ok(()) }
    }
}
