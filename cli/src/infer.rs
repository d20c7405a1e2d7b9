use std::{fmt::Write, path::PathBuf};

use hopwise::{
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
    setup::{PrepareArgs, Prepared},
    source::SourceArgs,
    train::multi_label_accuracy,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,

    /// A safetensors file from `hopwise train --out`, or of a PyTorch Geometric model (GCN or GraphSAGE)
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    prepare: PrepareArgs,

    /// Write `node,class` lines to a CSV file instead of standard output
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
    let shape = GnnBuilder::from_weights(&args.weights)?;
    let mut prepare = args.prepare.clone();
    // Features are prepared as they were for training.
    if shape.metadata.get("normalize_features").is_some_and(|v| v == "false") {
        prepare.no_normalize_features = true;
    }
    let prepared = prepare.prepare(args.source.load()?, shape.builder.takes_edge_weights())?;
    if prepared.width() != shape.in_width {
        return Err(Failure::Data(format!(
            "{} takes {} features a node, but {} has {}: these are the weights of a model for other data",
            args.weights.display(),
            shape.in_width,
            args.source.name(),
            prepared.width()
        )));
    }
    let device = args.device.open()?;
    let model = shape.builder.build(&device, shape.in_width, shape.out_width, 0)?;
    checkpoint::load(&model, &args.weights)?;

    let on_device = prepared.on(&device)?;
    let tape = Tape::inference(&device);
    let edge_weight = on_device.edge_weight.as_ref().map(|w| tape.constant(w));
    let logits = model.forward(&tape, &on_device.graph, &on_device.features.on(&tape), edge_weight.as_ref())?;
    let classes = Indices::uninit(&device, prepared.num_nodes(), "predicted classes")?;
    device.argmax(logits.tensor(), &classes)?;
    let predicted = pollster::block_on(classes.to_vec(&device))?;

    let splits = match &prepared.labels {
        Some(labels) => {
            let split = prepared.split(0);
            let measure = |nodes: &[u32]| -> Result<f64, Failure> {
                Ok(match labels {
                    Labels::Classes { ids, .. } => accuracy(&predicted, ids, nodes),
                    Labels::Multi(targets) => {
                        multi_label_accuracy(&logits.tensor().to_matrix_blocking()?, targets, nodes)
                    }
                })
            };
            let Split { train, val, test } = &split;
            vec![("train", measure(train)?), ("val", measure(val)?), ("test", measure(test)?)]
        }
        None => Vec::new(),
    };
    args.report(&prepared, &predicted, &splits, device.info())
}

impl Args {
    fn report(
        &self,
        prepared: &Prepared,
        predicted: &[u32],
        accuracies: &[(&str, f64)],
        device: &hopwise::backend::DeviceInfo,
    ) -> Result<(), Failure> {
        for (set, value) in accuracies {
            eprintln!("{set} accuracy: {:.2} %", 100.0 * value);
        }
        let mut csv = String::from("node,class\n");
        for (i, class) in predicted.iter().enumerate() {
            let node = prepared.node_ids.as_ref().map_or(i as u64, |ids| ids[i]);
            _ = writeln!(csv, "{node},{class}");
        }
        if let Some(path) = &self.out {
            output::write_file(path, csv.as_bytes())?;
        }
        if self.json {
            let mut object = Map::new();
            object.insert("backend".into(), json!(device.backend));
            object.insert("device".into(), json!(device.name));
            object.insert("num_nodes".into(), json!(predicted.len()));
            for (set, value) in accuracies {
                object.insert(format!("{set}_accuracy"), json!(value));
            }
            object.insert("predictions".into(), json!(predicted));
            return output::print(&json!(object).to_string());
        }
        if self.out.is_none() { output::print(csv.trim_end()) } else { Ok(()) }
    }
}
