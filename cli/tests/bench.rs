//! Measuring, planning and tuning, as their users run them: on the processor, which every machine has.

mod support;

use std::{path::Path, process::Command};

use serde_json::Value;
use support::{json, refused, stdout, text};

const QUICK: [&str; 6] = ["--graph", "tiny", "--backend", "cpu", "--seconds", "0.001"];

/// Standard output and error of a command that must succeed, with a cache folder of its own.
fn with_cache(folder: &Path, args: &[&str]) -> [String; 2] {
    let output = Command::new(env!("CARGO_BIN_EXE_hopwise")).args(args).env("XDG_CACHE_HOME", folder).output().unwrap();
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "hopwise {}: {}", args.join(" "), texts[1]);
    texts
}

#[test]
fn rows_say_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let [csv, svg, earlier] = ["rows.csv", "roof.svg", "rows.json"].map(|name| folder.path().join(name));
    let args = ["bench", "--op", "sum,gatv2", "--features", "16", "--heads", "1,4", "--json"];
    let files = ["--csv", text(&csv), "--plot", text(&svg)];
    let rows = json(&[&args, &QUICK[..], &files].concat());
    let rows = rows.as_array().unwrap();
    let shapes: Vec<_> =
        rows.iter().map(|r| (r["op"].as_str().unwrap(), &r["heads"], &r["width"], &r["pass"])).collect();
    assert_eq!(shapes.len(), 6, "{shapes:?}");
    for row in rows {
        for key in ["op", "pass", "backend", "device", "graph", "heads", "width", "dtype"] {
            assert!(!row[key].is_null(), "{key}");
        }
        for key in ["ms", "bytes", "gb_per_s", "peak_bytes"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key} of {row}");
        }
    }
    // 4,118 edges gather 64 bytes and 4 of index, 1,000 nodes read and write a row.
    let sum = rows.iter().find(|r| r["op"] == "sum" && r["pass"] == "fwd").unwrap();
    assert_eq!(sum["bytes"], 4_118.0 * 68.0 + 1_000.0 * 128.0);
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 7);
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.contains("<svg") && svg.contains("cpu roof") && svg.contains("gatv2 fwd+bwd"));

    std::fs::write(&earlier, Value::from(rows.clone()).to_string()).unwrap();
    let table =
        stdout(&[&["bench", "--op", "sum", "--features", "16", "--against", text(&earlier)], &QUICK[..]].concat());
    let ratios = table.lines().skip(1).map(|line| line.split_whitespace().last().unwrap().parse::<f64>());
    assert!(ratios.into_iter().all(|ratio| ratio.unwrap() > 0.0), "{table}");
    refused(&["bench", "--graph", "tiny,typo", "--csv", text(&csv)], 2, &["typo", "arxiv-like"]);
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 7, "earlier results stay");
    refused(&[&["bench", "--against", text(folder.path())], &QUICK[..]].concat(), 3, &[text(folder.path())]);
}

#[test]
fn graphs_are_measured_in_several_orders() {
    let args =
        ["bench", "--op", "sum", "--pass", "fwd", "--features", "4", "--reorder", "none,communities,degree", "--json"];
    let rows = json(&[&args, &QUICK[..]].concat());
    let orders: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["order"]).collect();
    assert_eq!(orders, ["none", "communities", "degree"]);
    refused(&[&["bench", "--reorder", "auto"], &QUICK[..]].concat(), 2, &["auto"]);
}

/// What was measured until a device failed is printed all the same.
#[test]
#[cfg(target_os = "linux")]
fn a_failure_does_not_cost_what_was_measured() {
    let args = [
        "bench",
        "--op",
        "sum",
        "--features",
        "4",
        "--pass",
        "fwd",
        "--graph",
        "tiny",
        "--backend",
        "cpu,wgpu",
        "--json",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_hopwise"))
        .args(args)
        .args(["--seconds", "0.001"])
        .envs([("VK_DRIVER_FILES", "/no/such/file"), ("VK_ICD_FILENAMES", "/no/such/file")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["backend"]), (1, &Value::from("cpu")));
}

#[test]
fn plans_are_told() {
    let regular = stdout(&["plan", "roads", "--features", "1", "--backend", "cpu"]);
    assert!(regular.contains("no row is cut") && !regular.contains("of like length"), "{regular}");
    let args =
        ["plan", "tiny", "--op", "sum,gat", "--heads", "8", "--pass", "fwd", "--backend", "cpu", "--compare", "--json"];
    let plans = json(&[&args[..], &["--seconds", "0.001"]].concat());
    let shapes: Vec<_> = plans.as_array().unwrap().iter().map(|p| (&p["op"], &p["heads"], &p["width"])).collect();
    assert_eq!(shapes, [(&"sum".into(), &1.into(), &64.into()), (&"gat".into(), &8.into(), &8.into())]);
    assert!(plans[0]["measured_ms"].as_f64().unwrap() > 0.0);
    assert!(plans[0]["alternatives"].as_array().unwrap().is_empty(), "the processor has one layout");
    refused(&["plan", "tiny", "--op", "epoch-gcn", "--backend", "cpu"], 2, &["epoch-gcn"]);
    refused(&["plan", "tiny", "--heads", "3", "--op", "gat", "--backend", "cpu"], 2, &["--heads 3", "64"]);
    refused(&["plan", "tiny", "--features", "17179869184", "--backend", "cpu"], 2, &["17179869184", "1048576"]);
    refused(&["plan", "tiny", "--seconds", "0", "--backend", "cpu"], 2, &["--seconds 0"]);
}

#[test]
fn plans_are_compared_wgpu() {
    let text = stdout(&["plan", "arxiv-directed", "--op", "sum,transformer", "--features", "128", "--backend", "wgpu"]);
    for words in ["32 lanes a row", "features fill the lanes", "rows are cut", "of like length", "MB"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    let args = ["plan", "tiny", "--op", "min", "--pass", "fwd", "--backend", "wgpu", "--compare", "--json"];
    let plan = &json(&[&args[..], &["--seconds", "0.001"]].concat())[0];
    let others = plan["alternatives"].as_array().unwrap();
    assert!(others.iter().any(|o| o["what"] == "rows never cut" && o["ms"].as_f64().unwrap() > 0.0), "{others:?}");
    assert!(others.iter().any(|o| o["what"] == "half the lanes"), "{others:?}");
}

#[test]
#[cfg(not(windows))]
fn what_was_measured_of_a_device_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let plan = ["plan", "tiny", "--op", "sum,gatv2", "--backend", "cpu", "--json"];
    let [before, note] = with_cache(folder.path(), &plan);
    let before: Value = serde_json::from_str(&before).unwrap();
    assert!(before[0]["predicted_ms"].is_null() && note.contains("hopwise tune --device"), "{note}");
    let train = ["train", "sbm", "--backend", "cpu", "--epochs", "2", "--reorder", "auto"];
    assert!(with_cache(folder.path(), &train)[1].contains("--reorder auto needs to know the device"));

    let [tuned, _] =
        with_cache(folder.path(), &["tune", "--device", "--backend", "cpu", "--seconds", "0.0001", "--json"]);
    let tuned: Value = serde_json::from_str(&tuned).unwrap();
    for rate in ["copy", "memory", "cache", "cache_bytes"] {
        assert!(tuned["rates"][rate].as_f64().unwrap() > 0.0, "{rate}");
    }
    let [after, _] = with_cache(folder.path(), &plan);
    let after: Value = serde_json::from_str(&after).unwrap();
    for planned in after.as_array().unwrap() {
        assert!(planned["predicted_ms"].as_f64().unwrap() > 0.0, "{planned}");
    }
    assert!(with_cache(folder.path(), &train)[1].contains("of gathering are expected"));

    // A file that is none of ours is no reason to fail.
    std::fs::write(tuned["file"].as_str().unwrap(), "{}").unwrap();
    let [_, warning] = with_cache(folder.path(), &plan);
    assert!(warning.contains("warning") && warning.contains("writes it anew"), "{warning}");
    refused(&["tune", "--backend", "cpu"], 2, &["--device"]);
}
