//! The program as its users run it.

mod support;

use std::path::{Path, PathBuf};

use hopwise::{
    Matrix,
    data::{Dataset, Features, Labels, Split, save},
    graph::EdgeList,
};
use serde_json::Value;
use support::{json, refused, stdout, text};

/// A data set of 6 nodes in a file.
fn write(folder: &Path, change: impl FnOnce(&mut Dataset)) -> PathBuf {
    let edges = EdgeList::square(6, vec![0, 1, 2, 3, 4, 5], vec![1, 2, 0, 4, 5, 3]).unwrap();
    let mut dataset = Dataset::from_edges("six", edges);
    dataset.labels = Some(Labels::Classes { ids: vec![0, 0, 0, 1, 1, 1], num_classes: 2 });
    dataset.features = Some(Features::Dense(Matrix::new(6, 2, (0..12).map(|i| i as f32).collect()).unwrap()));
    dataset.splits = vec![Split { train: vec![0, 3], val: vec![1, 4], test: vec![2, 5] }];
    change(&mut dataset);
    let path = folder.join("six.safetensors");
    save(&dataset, &path).unwrap();
    path
}

#[test]
fn karate_trains() {
    let result = json(&["train", "karate", "--backend", "cpu", "--json"]);
    assert_eq!(result["backend"], "cpu");
    assert_eq!(result["epochs"], 200);
    for key in ["train_accuracy", "val_accuracy", "test_accuracy"] {
        assert!((0.0..=1.0).contains(&result[key].as_f64().unwrap()), "{key}");
    }
    assert!(result["test_accuracy"].as_f64().unwrap() > 0.8);
    assert_eq!(result["test_accuracy_std"], 0.0);
    assert!(result["loss"].as_f64().unwrap() < 0.5);
    assert!(result["seconds_per_epoch"].as_f64().unwrap() > 0.0);
    assert_eq!(result["seeds"][0]["loss_curve"].as_array().unwrap().len(), 200);
    // The first loss of an untrained model is about the logarithm of the number of classes.
    let first = result["seeds"][0]["loss_curve"][0].as_f64().unwrap();
    assert!((first - 2f64.ln()).abs() < 0.1, "{first}");
}

#[test]
fn every_model_trains_and_its_weights_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("w.safetensors");
    let predictions = folder.path().join("p.csv");
    for model in ["gcn", "sage", "gin", "cheb", "gat", "gatv2", "transformer", "pna", "sage-ri"] {
        let args = ["train", "sbm", "--backend", "cpu", "--model", model, "--epochs", "100", "--seed", "3", "--json"];
        let trained = json(&[args.as_slice(), &["--out", text(&weights)]].concat());
        assert!(trained["test_accuracy"].as_f64().unwrap() > 0.75, "{model}: {}", trained["test_accuracy"]);
        let out = ["--out", text(&predictions), "--json"];
        let inferred =
            json(&[["infer", "sbm", "--backend", "cpu", "--weights", text(&weights)].as_slice(), &out].concat());
        for key in ["train_accuracy", "val_accuracy", "test_accuracy"] {
            assert_eq!(inferred[key], trained[key], "{model}, {key}");
        }
        let lines = std::fs::read_to_string(&predictions).unwrap();
        assert_eq!(lines.lines().count(), 1_001);
        assert_eq!(lines.lines().nth(1).unwrap(), format!("0,{}", inferred["predictions"][0]));
    }
}

/// In which order the device has the nodes shows in the last digits alone, where nothing is dropped.
#[test]
fn results_keep_the_order_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("w.safetensors");
    let train = ["train", "sbm", "--backend", "cpu", "--model", "gatv2", "--dropout", "0", "--attention-dropout", "0"];
    let (mut losses, mut accuracies) = (Vec::new(), Vec::new());
    for order in ["none", "degree", "rcm", "communities"] {
        let more = ["--epochs", "10", "--json", "--out", text(&weights), "--reorder", order];
        let trained = json(&[train.as_slice(), &more].concat());
        losses.push(trained["loss"].as_f64().unwrap());
        assert!((losses[0] - losses[losses.len() - 1]).abs() < 1e-4, "{order}: {losses:?}");
        accuracies.push(["train", "val", "test"].map(|set| trained[format!("{set}_accuracy")].clone()));
        assert_eq!(accuracies[0], accuracies[accuracies.len() - 1], "{order}");
        let infer = ["infer", "sbm", "--backend", "cpu", "--weights", text(&weights), "--json", "--reorder"];
        let [plain, ordered] = ["none", order].map(|order| json(&[infer.as_slice(), &[order]].concat()));
        assert_eq!(plain["predictions"], ordered["predictions"], "{order}");
        assert_eq!(plain["test_accuracy"], ordered["test_accuracy"], "{order}");
    }
    let infer = ["infer", "sbm", "--backend", "cpu", "--weights", text(&weights), "--reorder", "auto"];
    refused(&infer, 2, &["--reorder auto", "training"]);
}

#[test]
fn norms_and_residual_connections_are_part_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("w.safetensors");
    let mut losses = Vec::new();
    for more in
        [&[][..], &["--norm", "batch"], &["--norm", "layer"], &["--residual"], &["--norm", "batch", "--residual"]]
    {
        let args = ["train", "sbm", "--backend", "cpu", "--model", "sage", "--epochs", "20", "--json", "--out"];
        let trained = json(&[args.as_slice(), &[text(&weights)], more].concat());
        assert_eq!(trained["residual"], more.contains(&"--residual"));
        let norm = more.iter().find(|m| ["batch", "layer"].contains(*m)).copied().unwrap_or("none");
        assert_eq!(trained["norm"], norm);
        losses.push(trained["loss"].to_string());
        let inferred = json(&["infer", "sbm", "--backend", "cpu", "--weights", text(&weights), "--json"]);
        assert_eq!(inferred["test_accuracy"], trained["test_accuracy"], "{more:?}");
    }
    losses.sort();
    losses.dedup();
    assert_eq!(losses.len(), 5, "each is a model of its own: {losses:?}");
    refused(&["train", "sbm", "--norm", "instance"], 2, &["instance", "batch"]);
}

#[test]
fn one_seed_gives_one_file() {
    let folder = tempfile::tempdir().unwrap();
    for backend in ["cpu", "wgpu"] {
        let files: Vec<Vec<u8>> = ["7", "7", "8"]
            .iter()
            .map(|seed| {
                let path = folder.path().join("w.safetensors");
                stdout(&[
                    "train",
                    "karate",
                    "--backend",
                    backend,
                    "--seed",
                    seed,
                    "--epochs",
                    "30",
                    "--out",
                    text(&path),
                ]);
                std::fs::read(path).unwrap()
            })
            .collect();
        assert!(files[0] == files[1], "{backend}: one seed, two files");
        assert!(files[0] != files[2], "{backend}: another seed, the same file");
    }
}

#[test]
fn several_seeds_give_mean_and_deviation() {
    let result = json(&["train", "sbm", "--backend", "cpu", "--seeds", "3", "--epochs", "20", "--json"]);
    let each: Vec<f64> =
        result["seeds"].as_array().unwrap().iter().map(|s| s["test_accuracy"].as_f64().unwrap()).collect();
    assert_eq!(each.len(), 3);
    let mean = each.iter().sum::<f64>() / 3.0;
    let deviation = (each.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert!((result["test_accuracy"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert!((result["test_accuracy_std"].as_f64().unwrap() - deviation).abs() < 1e-12);
}

#[test]
fn the_curve_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("curve.svg");
    stdout(&["train", "karate", "--backend", "cpu", "--epochs", "40", "--plot", text(&path)]);
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.contains("<svg") && svg.contains("training loss") && svg.contains("validation accuracy"));
}

#[test]
fn info_counts_what_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edges.txt");
    std::fs::write(&path, "# a comment\n10 20\n10 20\n20 20\n30 10\n").unwrap();
    let result = json(&["info", text(&path), "--json"]);
    for (key, expected) in [
        ("num_nodes", 3),
        ("num_edges", 4),
        ("max_in_degree", 3),
        ("self_loops", 1),
        ("duplicates", 1),
        ("isolated", 0),
    ] {
        assert_eq!(result[key], expected, "{key}");
    }
    // Four edges of three columns; three of them, repetitions aside, in one tile.
    assert_eq!((&result["edges_a_column"], &result["tile_fill"]), (&Value::from(4.0 / 3.0), &Value::from(3.0 / 128.0)));
    assert_eq!(result["compacted_ids"], true);
    let kept = json(&["info", text(&path), "--keep-ids", "--json"]);
    assert_eq!((&kept["num_nodes"], &kept["isolated"]), (&Value::from(31), &Value::from(28)));
    assert!(stdout(&["info", "karate"]).contains("156"));
}

#[test]
fn devices_are_listed() {
    let result = json(&["devices", "--json"]);
    let devices = result["devices"].as_array().unwrap();
    assert!(devices.iter().any(|d| d["backend"] == "cpu"));
    assert_eq!(devices.iter().filter(|d| d["auto"] == true).count(), 1);
}

#[test]
fn graphs_without_edges_or_features_train() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), |d| {
        d.edges = EdgeList::square(6, vec![], vec![]).unwrap();
        d.features = None;
    });
    for model in ["gcn", "sage", "gin", "cheb", "gat", "gatv2", "transformer", "pna", "sage-ri"] {
        for backend in ["cpu", "wgpu"] {
            let args = ["train", text(&path), "--backend", backend, "--model", model, "--epochs", "5", "--json"];
            assert!(json(&args)["loss"].as_f64().unwrap().is_finite());
        }
    }
}

#[test]
fn weights_of_edges_are_used_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let with =
        |folder: &Path, weights: Vec<f32>| write(folder, |d| d.edges = d.edges.clone().with_weights(weights).unwrap());
    let loss = |path: &Path, more: &[&str]| {
        json(&[["train", text(path), "--backend", "cpu", "--epochs", "5", "--json"].as_slice(), more].concat())["loss"]
            .clone()
    };
    let path = with(folder.path(), vec![1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);
    assert_ne!(loss(&path, &[]), loss(&path, &["--no-edge-weights"]));
    let path = with(folder.path(), vec![1.0, -2.0, 3.0, 0.0, 5.0, 6.0]);
    refused(&["train", text(&path), "--backend", "cpu"], 3, &["edge 1 (1 -> 2)", "-2", "--no-edge-weights"]);
    loss(&path, &["--no-edge-weights"]);
    loss(&path, &["--model", "sage"]);
}

#[test]
fn wrong_input_is_told_apart_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    refused(&["train", "nowhere"], 3, &["nowhere does not exist", "karate"]);
    refused(&["info", text(folder.path())], 3, &["is a directory"]);
    refused(&["info", text(&file("empty.txt", ""))], 3, &["is empty"]);
    refused(&["info", text(&file("words.txt", "1 2\nthree 4\n"))], 3, &["line 2", "three"]);
    refused(
        &["info", text(&file("range.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n3 1\n"))],
        3,
        &["line 3"],
    );
    refused(&["train", text(&file("edges.txt", "0 1\n1 2\n"))], 3, &["has no labels"]);

    refused(&["train", "karate", "--backend", "abacus"], 2, &["abacus", "wgpu"]);
    refused(&["train", "karate", "--backend", "wgpu", "--adapter", "none such"], 4, &["none such"]);
    refused(&["train", "karate", "--backend", "cpu", "--adapter", "x"], 2, &["--adapter"]);
    refused(&["train", "karate", "--epochs", "0"], 2, &["--epochs"]);
    refused(&["train", "karate", "--hidden", "0"], 2, &["--hidden"]);
    refused(&["train", "karate", "--lr", "-1"], 2, &["learning rate is -1"]);
    refused(&["train", "karate", "--dropout", "1.5"], 2, &["1.5"]);
    refused(&["train", "karate", "--model", "gat", "--heads", "7"], 2, &["number of heads is 7", "64"]);
    refused(&["train", "karate", "--weight-decay", "-1"], 2, &["weight decay is -1"]);
    refused(&["train", "sbm", "--backend", "cpu", "--lr", "1e30", "--epochs", "50"], 1, &["the loss is", "--lr"]);
    refused(&["train", "karate", "--out", "no/such/folder/w"], 2, &["no/such/folder/w", "create it"]);
    refused(&["train", "karate", "--plot", text(folder.path())], 2, &["is a directory"]);
    refused(&["frobnicate"], 2, &["frobnicate"]);

    // Labels outside the classes, and wrong shapes, are caught where a file is read; here the container's header is rewritten.
    let path = write(folder.path(), |_| {});
    let bytes = std::fs::read(&path).unwrap();
    refused(&["train", text(&file("cut.safetensors", ""))], 3, &["cut.safetensors"]);
    for len in [8, 100, bytes.len() - 1] {
        let cut = folder.path().join("cut.safetensors");
        std::fs::write(&cut, &bytes[..len]).unwrap();
        refused(&["train", text(&cut)], 3, &["cut.safetensors"]);
    }
}

#[test]
fn a_split_is_chosen_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), |d| {
        d.splits.push(Split { train: vec![0, 1, 3], val: vec![2], test: vec![4, 5] });
    });
    let weights = folder.path().join("w.safetensors");
    let args = ["train", text(&path), "--backend", "cpu", "--epochs", "5", "--json", "--out", text(&weights)];
    let sizes = |more: &[&str]| json(&[args.as_slice(), more].concat())["seeds"][0]["nodes"]["train"].clone();
    assert_eq!(sizes(&[]), 2);
    let second = json(&[args.as_slice(), &["--split", "1"]].concat());
    assert_eq!(second["seeds"][0]["nodes"]["train"], 3);
    let inferred = json(&["infer", text(&path), "--backend", "cpu", "--weights", text(&weights), "--json"]);
    assert_eq!(inferred["test_accuracy"], second["test_accuracy"]);
    refused(&["train", text(&path), "--split", "2"], 2, &["--split 2", "2 splits"]);
}

#[test]
fn nothing_to_compute_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), |d| {
        *d = Dataset::from_edges("nothing", EdgeList::square(0, vec![], vec![]).unwrap());
        d.labels = Some(Labels::Classes { ids: vec![], num_classes: 2 });
    });
    assert_eq!(json(&["info", text(&path), "--json"])["num_nodes"], 0);
    refused(&["train", text(&path), "--backend", "cpu"], 3, &["no nodes"]);
}

#[test]
fn weights_of_another_model_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("w.safetensors");
    stdout(&["train", "karate", "--backend", "cpu", "--epochs", "1", "--out", text(&weights)]);
    refused(&["infer", "sbm", "--backend", "cpu", "--weights", text(&weights)], 3, &["34 features", "16"]);
    refused(&["infer", "karate", "--weights", "nowhere.safetensors"], 3, &["nowhere.safetensors"]);
    std::fs::write(&weights, b"these are no weights").unwrap();
    refused(&["infer", "karate", "--weights", text(&weights)], 3, &["safetensors"]);
    let data = write(folder.path(), |_| {});
    refused(&["infer", "karate", "--weights", text(&data)], 3, &["another model"]);
}
