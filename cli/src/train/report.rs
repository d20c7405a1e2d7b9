//! What training came to.

use hopwise::backend::Device;
use serde_json::{Value, json};

use super::{Args, learner::Curves};
use crate::{failure::Failure, output};

/// What one seed came to, or one fold of it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) seed: u64,
    /// Of a set of graphs: the fold that is tested.
    pub(super) fold: Option<usize>,
    pub(super) curves: Curves,
    pub(super) scores: Scores,
    /// Nodes or graphs to train on, to validate and to test.
    pub(super) sizes: [usize; 3],
}

/// How well a model does on what it was trained on, on what validates, and on what tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores {
    pub(super) accuracy: [f64; 3],
    /// The area under the receiver operating characteristic, where there are two classes and both occur.
    pub(super) auroc: [Option<f64>; 3],
}

impl Run {
    pub(super) fn last_loss(&self) -> f32 {
        self.curves.losses.last().copied().unwrap_or(f32::NAN)
    }
}

/// What runs have in common, for people and for machines.
#[derive(Debug)]
pub(super) struct Setting {
    /// What is counted by [`Run::sizes`]: `nodes` or `graphs`.
    pub(super) unit: &'static str,
    /// What several runs are: `seeds` or `folds`.
    pub(super) runs: &'static str,
    /// Settings that only some tasks have, by their names in JSON.
    pub(super) more: Vec<(&'static str, Value)>,
}

/// Mean and deviation of a sample; the deviation of a single number is 0.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let spread = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len().max(2) - 1) as f64;
    (mean, spread.sqrt())
}

impl Args {
    pub(super) fn report(&self, runs: &[Run], setting: &Setting, device: &Device) -> Result<(), Failure> {
        let of = |f: &dyn Fn(&Run) -> f64| moments(&runs.iter().map(f).collect::<Vec<_>>());
        let mean = |f: &dyn Fn(&Run) -> f64| of(f).0;
        let (test, deviation) = of(&|r| r.scores.accuracy[2]);
        // A mean over some of the runs would be one of something else.
        let auroc = |part: usize| {
            let values: Option<Vec<f64>> = runs.iter().map(|r| r.scores.auroc[part]).collect();
            values.map(|values| moments(&values))
        };
        let loss = mean(&|r| f64::from(r.last_loss()));
        let seconds = mean(&|r| r.curves.seconds_per_epoch);
        if self.json {
            let mut object = json!({
                "source": self.source.name(),
                "model": self.model.name(),
                "backend": device.info().backend,
                "device": device.info().name,
                "driver": device.info().driver,
                "epochs": self.epochs,
                "hidden": self.hidden(),
                "layers": self.layers,
                "dtype": self.dtype.to_string(),
                "lr": self.lr,
                "weight_decay": self.weight_decay,
                "dropout": self.dropout(),
                "norm": self.norm().name(),
                "residual": self.residual(),
            });
            for (key, value) in &setting.more {
                object[key] = value.clone();
            }
            object["loss"] = json!(loss);
            for (part, name) in ["train", "val", "test"].into_iter().enumerate() {
                object[format!("{name}_accuracy")] = json!(mean(&|r| r.scores.accuracy[part]));
            }
            object["test_accuracy_std"] = json!(deviation);
            for (part, name) in ["train", "val", "test"].into_iter().enumerate() {
                object[format!("{name}_auroc")] = json!(auroc(part).map(|(mean, _)| mean));
            }
            object["test_auroc_std"] = json!(auroc(2).map(|(_, deviation)| deviation));
            object["seconds_per_epoch"] = json!(seconds);
            object["peak_bytes"] = json!(device.memory().peak);
            object["seeds"] = runs.iter().map(|run| run.json(setting.unit)).collect();
            return output::print(&object.to_string());
        }
        let several = runs.len() > 1;
        let over = if several {
            format!(" ± {:.2} over {} {}", 100.0 * deviation, runs.len(), setting.runs)
        } else {
            String::new()
        };
        let auroc = match auroc(2) {
            Some((mean, deviation)) if several => format!(", AUROC {:.2} % ± {:.2}", 100.0 * mean, 100.0 * deviation),
            Some((mean, _)) => format!(", AUROC {:.2} %", 100.0 * mean),
            None => String::new(),
        };
        output::print(&format!(
            "{} on {}: loss {loss:.4}, accuracy {:.2} % train, {:.2} % validation, {:.2} % test{over}{auroc}; {:.3} ms an epoch",
            self.model.name(),
            self.source.name(),
            100.0 * mean(&|r| r.scores.accuracy[0]),
            100.0 * mean(&|r| r.scores.accuracy[1]),
            100.0 * test,
            1e3 * seconds,
        ))
    }
}

impl Run {
    fn json(&self, unit: &str) -> Value {
        let mut object = json!({ "seed": self.seed });
        if let Some(fold) = self.fold {
            object["fold"] = json!(fold);
        }
        object["loss"] = json!(self.last_loss());
        for (part, name) in ["train", "val", "test"].into_iter().enumerate() {
            object[format!("{name}_accuracy")] = json!(self.scores.accuracy[part]);
        }
        for (part, name) in ["train", "val", "test"].into_iter().enumerate() {
            object[format!("{name}_auroc")] = json!(self.scores.auroc[part]);
        }
        object[unit] = json!({ "train": self.sizes[0], "val": self.sizes[1], "test": self.sizes[2] });
        object["loss_curve"] = json!(self.curves.losses);
        object["val_accuracy_curve"] = json!(self.curves.validation);
        object
    }
}
