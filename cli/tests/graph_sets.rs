//! Training on sets of small graphs, as users of the program run it.

mod support;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;
use support::{hopwise, json, refused, text};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// `graphs` graphs: every third a star (label 7), the others rings (label -2), of 4 to 9 nodes that are all alike.
fn rings_and_stars(folder: &Path, graphs: usize) -> PathBuf {
    let mut file = format!("{graphs}\n");
    for g in 0..graphs {
        let nodes = 4 + g % 6;
        let star = g % 3 == 0;
        writeln!(file, "{nodes} {}", if star { 7 } else { -2 }).unwrap();
        for i in 0..nodes {
            let neighbours: Vec<usize> = match (star, i) {
                (true, 0) => (1..nodes).collect(),
                (true, _) => vec![0],
                (false, _) => vec![(i + 1) % nodes, (i + nodes - 1) % nodes],
            };
            let list: Vec<String> = neighbours.iter().map(usize::to_string).collect();
            writeln!(file, "1 {} {}", list.len(), list.join(" ")).unwrap();
        }
    }
    let path = folder.join("rings.txt");
    std::fs::write(&path, file).unwrap();
    path
}

const MODELS: [&str; 9] = ["gcn", "sage", "gin", "cheb", "gat", "gatv2", "transformer", "pna", "sage-ri"];

#[test]
fn every_model_trains_on_a_set_of_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let path = rings_and_stars(folder.path(), 30);
    for backend in ["cpu", "wgpu"] {
        for (k, model) in MODELS.into_iter().enumerate() {
            let all = ["sum", "mean", "max"];
            // A GPU compiles its kernels anew in every process.
            for readout in if backend == "cpu" { &all[..] } else { &all[k % 3..=k % 3] } {
                let args = ["train", text(&path), "--backend", backend, "--model", model, "--readout", readout];
                let result = json(&[args.as_slice(), &["--epochs", "2", "--batch-size", "7", "--json"]].concat());
                assert!(number(&result["loss"]).is_finite());
                assert_eq!((&result["readout"], &result["batch_size"]), (&(*readout).into(), &7.into()));
            }
        }
    }
}

#[test]
fn folds_are_stratified_and_rings_are_told_from_stars() {
    let folder = tempfile::tempdir().unwrap();
    let path = rings_and_stars(folder.path(), 30);
    let args = ["train", text(&path), "--backend", "cpu", "--model", "gin", "--folds", "5", "--json"];
    let args = [args.as_slice(), &["--epochs", "40", "--batch-size", "8", "--dropout", "0"]].concat();
    let result = json(&args);
    assert_eq!(result["folds"], 5);
    let runs = result["seeds"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    for (k, run) in runs.iter().enumerate() {
        assert_eq!((&run["seed"], &run["fold"]), (&0.into(), &k.into()));
        // 30 graphs in 5 folds: one tests, one validates.
        for (part, size) in [("train", 18), ("val", 6), ("test", 6)] {
            assert_eq!(run["graphs"][part], size, "{part}");
        }
        assert_eq!(run["loss_curve"].as_array().unwrap().len(), 40);
    }
    let each: Vec<f64> = runs.iter().map(|run| number(&run["test_accuracy"])).collect();
    let mean = each.iter().sum::<f64>() / 5.0;
    let deviation = (each.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / 4.0).sqrt();
    assert!((number(&result["test_accuracy"]) - mean).abs() < 1e-12);
    assert!((number(&result["test_accuracy_std"]) - deviation).abs() < 1e-12);
    assert!(mean >= 0.9, "{each:?}");
    assert!(number(&result["test_auroc"]) >= 0.9);
    // Two of three graphs are rings: a fold that had none of one class would have no area under its curve.
    assert!(runs.iter().all(|run| run["test_auroc"].is_number()));

    let again = json(&args);
    assert_eq!(again["seeds"][3]["loss_curve"], result["seeds"][3]["loss_curve"], "one seed, one run");
    let one = json(&[&args[..6], &["--split", "3"], &args[8..]].concat());
    assert_eq!(one["seeds"].as_array().unwrap().len(), 1);
    assert_eq!((&one["folds"], &one["seeds"][0]["fold"]), (&10.into(), &3.into()));
    let several = json(&[&args[..9], &["--epochs", "1", "--seeds", "2"]].concat());
    let drawn: Vec<_> = several["seeds"].as_array().unwrap().iter().map(|run| (&run["seed"], &run["fold"])).collect();
    assert_eq!(drawn.len(), 10);
    assert_eq!(drawn[9], (&1.into(), &4.into()));
}

#[test]
fn weights_of_a_model_of_graphs_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = rings_and_stars(folder.path(), 30);
    let (weights, plot) = (folder.path().join("w.safetensors"), folder.path().join("p.svg"));
    for model in ["gin", "gat"] {
        let args = ["train", text(&path), "--backend", "cpu", "--model", model, "--readout", "mean", "--json"];
        let more = ["--epochs", "10", "--split", "2", "--seed", "5", "--out", text(&weights), "--plot", text(&plot)];
        let trained = json(&[args.as_slice(), &more].concat());
        let inferred = json(&["infer", text(&path), "--backend", "cpu", "--weights", text(&weights), "--json"]);
        for key in ["train_accuracy", "val_accuracy", "test_accuracy"] {
            assert_eq!(inferred[key], trained[key], "{model}, {key}");
        }
        assert_eq!(inferred["num_graphs"], 30);
        let predictions = inferred["predictions"].as_array().unwrap();
        assert!(predictions.iter().all(|label| *label == 7 || *label == -2), "labels are those of the file");
        let output = hopwise(&["infer", text(&path), "--backend", "cpu", "--weights", text(&weights)]);
        let csv = String::from_utf8(output.stdout).unwrap();
        assert_eq!(csv.lines().count(), 31);
        assert_eq!(csv.lines().nth(2).unwrap(), format!("1,{}", predictions[1]));
        assert!(std::fs::read_to_string(&plot).unwrap().contains("validation accuracy"));
    }
    refused(&["infer", "karate", "--weights", text(&weights)], 3, &["labels graphs"]);
    hopwise(&["train", "karate", "--backend", "cpu", "--epochs", "1", "--out", text(&weights)]);
    refused(&["infer", text(&path), "--backend", "cpu", "--weights", text(&weights)], 3, &["another model", "graphs"]);
}

#[test]
fn flags_that_do_not_apply_and_wrong_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = rings_and_stars(folder.path(), 12);
    let on_set = |more: &[&str], code, words: &[&str]| {
        refused(&[["train", text(&path), "--backend", "cpu"].as_slice(), more].concat(), code, words);
    };
    on_set(&["--folds", "2"], 2, &["--folds is 2", "12"]);
    on_set(&["--folds", "13"], 2, &["--folds is 13", "12"]);
    on_set(&["--split", "10"], 2, &["--split 10", "10 folds"]);
    on_set(&["--split", "1", "--folds", "5"], 2, &["--split", "--folds"]);
    on_set(&["--readout", "median"], 2, &["median", "mean"]);
    on_set(&["--batch-size", "0"], 2, &["--batch-size", "at least 1"]);
    on_set(&["--lr", "1e30"], 1, &["the loss is", "--lr"]);
    for flag in [["--folds", "10"], ["--readout", "max"], ["--batch-size", "4"]] {
        refused(&["train", "karate", flag[0], flag[1]], 2, &[&flag.join(" "), "karate is one graph"]);
    }
    let file = |content: &str| {
        let path = folder.path().join("bad.txt");
        std::fs::write(&path, content).unwrap();
        path
    };
    let neighbour = file("3\n2 0\n0 1 1\n0 1 2\n1 1\n0 0\n1 1\n0 0\n");
    refused(&["train", text(&neighbour)], 3, &["bad.txt, line 4", "from 0 to 1", "2"]);
    refused(&["train", text(&file("3\n1 0\n0 0\n1 1\n0 0\n"))], 3, &["3 graphs are announced, 2 are there"]);
    refused(&["train", text(&file("2\n1 0\n0 0\n1 1\n0 0\n"))], 3, &["2 graphs", "at least 3"]);
    refused(&["train", text(&file("3\n0 0\n0 1\n0 1\n"))], 3, &["no nodes"]);
}

#[test]
fn graphs_without_nodes_and_without_edges_train() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("few.txt");
    std::fs::write(&path, "5\n0 0\n1 1\n0 0\n2 0\n0 1 1\n1 1 0\n1 1\n1 0\n0 1\n").unwrap();
    for model in MODELS {
        // Batch norms have nothing to normalise by in a batch of one node.
        let args = ["train", text(&path), "--backend", "cpu", "--model", model, "--norm", "none", "--folds", "5"];
        let result = json(&[args.as_slice(), &["--batch-size", "1", "--epochs", "3", "--json"]].concat());
        assert!(number(&result["loss"]).is_finite(), "{model}");
    }
}

#[test]
fn the_area_under_the_curve_is_told_of_two_classes() {
    let two = json(&["train", "karate", "--backend", "cpu", "--seeds", "2", "--epochs", "30", "--json"]);
    assert!((0.8..=1.0).contains(&number(&two["test_auroc"])));
    let each: Vec<f64> = two["seeds"].as_array().unwrap().iter().map(|run| number(&run["test_auroc"])).collect();
    assert!((number(&two["test_auroc"]) - (each[0] + each[1]) / 2.0).abs() < 1e-12);
    let deviation = (each[0] - each[1]).abs() / 2f64.sqrt();
    assert!((number(&two["test_auroc_std"]) - deviation).abs() < 1e-12);
    let four = json(&["train", "sbm", "--backend", "cpu", "--epochs", "2", "--json"]);
    assert!(four["test_auroc"].is_null() && four["seeds"][0]["val_auroc"].is_null());
}

#[test]
fn mutag_trains_on_published_data() {
    let Some(data) = std::env::var_os("HOPWISE_DATA") else {
        eprintln!("not run: mutag_trains_on_published_data (HOPWISE_DATA is not set)");
        return;
    };
    let path = Path::new(&data).join("tu/MUTAG.txt");
    let args = ["train", text(&path), "--backend", "cpu", "--model", "gin", "--readout", "sum", "--folds", "10"];
    let result = json(&[args.as_slice(), &["--epochs", "30", "--json"]].concat());
    let runs = result["seeds"].as_array().unwrap();
    // 125 of the 188 graphs are of one class: 12 or 13 of the 18 or 19 in a fold.
    let tested: u64 = runs.iter().map(|run| run["graphs"]["test"].as_u64().unwrap()).sum();
    assert_eq!((runs.len(), tested), (10, 188));
    assert!(number(&result["test_accuracy"]) > 0.72, "no better than the larger class: {}", result["test_accuracy"]);
    assert!(number(&result["test_auroc"]) > 0.8, "{}", result["test_auroc"]);
}
