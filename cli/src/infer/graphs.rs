//! The classes of the graphs of a set.

use std::fmt::Write;

use hopwise::{
    data::{Dataset, Split},
    nn::{GraphClassifier, checkpoint::Metadata, stratified_folds},
};
use serde_json::{Map, json};

use super::Args;
use crate::{
    failure::Failure,
    output,
    setup::PreparedGraphs,
    train::graphs::{DEFAULT_FOLDS, fold_split, logits, most_likely},
};

pub(super) fn run(args: &Args, dataset: Dataset) -> Result<(), Failure> {
    let device = args.device.open()?;
    let (model, metadata) = GraphClassifier::load(&device, &args.weights)?;
    let prepare = args.prepare.as_trained(&metadata);
    let prepared = prepare.prepare_graphs(dataset, model.builder().takes_edge_weights())?;
    args.check_width(model.in_width(), prepared.width())?;
    let file_of = |what: &str| Failure::Data(format!("{}: {what}", args.weights.display()));
    // The labels that stood in the file of training.
    let values: Vec<i64> = match metadata.get("label_values").map(|json| serde_json::from_str(json)) {
        Some(Ok(values)) => values,
        Some(Err(error)) => return Err(file_of(&format!("its label values are damaged ({error}): train it again"))),
        None => prepared.set.label_values.clone(),
    };
    if values.len() != model.num_classes() {
        let (classes, values) = (model.num_classes(), values.len());
        return Err(file_of(&format!("the model has {classes} outputs, but there are {values} labels of graphs")));
    }
    let all: Vec<u32> = (0..prepared.set.len() as u32).collect();
    let classes = most_likely(&logits(&model, &prepared, &device, &all)?);
    let labels: Vec<i64> = classes.iter().map(|&c| values[c as usize]).collect();
    let accuracies = args.accuracies(&prepared, &metadata, &labels)?;
    for (set, value) in &accuracies {
        eprintln!("{set} accuracy: {:.2} %", 100.0 * value);
    }

    let mut csv = String::from("graph,label\n");
    labels.iter().enumerate().for_each(|(i, label)| _ = writeln!(csv, "{i},{label}"));
    if let Some(path) = &args.out {
        output::write_file(path, csv.as_bytes())?;
    }
    if args.json {
        let mut object = Map::new();
        object.insert("backend".into(), json!(device.info().backend));
        object.insert("device".into(), json!(device.info().name));
        object.insert("num_graphs".into(), json!(labels.len()));
        for (set, value) in accuracies {
            object.insert(format!("{set}_accuracy"), json!(value));
        }
        object.insert("predictions".into(), json!(labels));
        return output::print(&json!(object).to_string());
    }
    if args.out.is_none() { output::print(csv.trim_end()) } else { Ok(()) }
}

impl Args {
    /// The share of graphs told right, on the graphs that trained, validated and tested.
    fn accuracies(
        &self,
        prepared: &PreparedGraphs,
        metadata: &Metadata,
        labels: &[i64],
    ) -> Result<Vec<(&'static str, f64)>, Failure> {
        let number = |key: &str| metadata.get(key).and_then(|text| text.parse().ok());
        let folds = number("folds").unwrap_or(DEFAULT_FOLDS);
        let fold = self.prepare.split.or(number("fold")).unwrap_or(0);
        let seed = metadata.get("seed").and_then(|text| text.parse().ok()).unwrap_or(0);
        if fold >= folds {
            return Err(Failure::Usage(format!(
                "--split {fold} does not exist: the model was trained on {folds} folds, numbered from 0"
            )));
        }
        let Ok(dealt) = stratified_folds(&prepared.set.labels, folds, seed) else {
            eprintln!("note: fewer graphs than the {folds} folds of training; no accuracy is reported");
            return Ok(Vec::new());
        };
        let Split { train, val, test } = fold_split(&dealt, fold);
        let set = &prepared.set;
        let right = |&id: &u32| labels[id as usize] == set.label_values[set.labels[id as usize] as usize];
        let share = |ids: Vec<u32>| ids.iter().filter(|id| right(id)).count() as f64 / ids.len().max(1) as f64;
        Ok(vec![("train", share(train)), ("val", share(val)), ("test", share(test))])
    }
}
