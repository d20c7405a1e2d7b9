//! Layers and operations against vectors made by PyTorch Geometric: outputs and every gradient.
//!
//! The vectors of the small graphs are in `tests/goldens`; the folder named by `HOPWISE_GOLDENS` has more. Every case of a folder is run; a case whose layer
//! does not exist, or whose data is not there, is listed by name.

#![allow(clippy::print_stdout, reason = "the suite says at its end what it did not run")]

mod case;
#[path = "../support/mod.rs"]
mod support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use case::{Case, Outcome};
use hopwise::{Matrix, backend::Device};

#[test]
fn golden_cpu() {
    run_all("cpu");
}

#[cfg(feature = "wgpu")]
#[test]
fn golden_wgpu() {
    run_all("wgpu");
}

fn run_all(backend: &str) {
    let device = support::device(backend);
    let mut cases: BTreeMap<String, PathBuf> = BTreeMap::new();
    // The test may run elsewhere than where it was built.
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let committed = Path::new(&root).join("tests/goldens");
    let named = std::env::var_os("HOPWISE_GOLDENS").map(PathBuf::from);
    let mut not_run = Vec::new();
    if named.is_none() {
        not_run.push("the cases of star3000 and cora (HOPWISE_GOLDENS is not set)".to_owned());
    }
    for folder in std::iter::once(committed).chain(named) {
        let before = cases.len();
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for path in entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "safetensors")) {
            cases.insert(path.file_stem().unwrap().to_str().unwrap().to_owned(), path);
        }
        assert!(cases.len() > before || before > 0, "{} has no cases", folder.display());
    }

    let (mut passed, mut failures) = (Vec::new(), Vec::new());
    for (name, path) in &cases {
        match run(path, &device) {
            Ok(Outcome::Passed) => passed.push(name.as_str()),
            Ok(Outcome::NotRun(reason)) => not_run.push(format!("{name} ({reason})")),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    println!("golden vectors on {} ({}): {} passed", device.info().backend, device.info().name, passed.len());
    for line in &not_run {
        println!("not run: {line}");
    }
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
    // The committed vectors alone have this many for the layers that exist.
    assert!(passed.len() >= 137, "only {} cases ran: {passed:?}", passed.len());
}

fn run(path: &Path, device: &Device) -> Result<Outcome, String> {
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // CASE__GRAPH
    let name = path.file_name().unwrap().to_str().unwrap();
    let (_, graph) = name.split_once("__").unwrap_or_else(|| panic!("{name} names no graph"));
    let mut case = Case::load(&read(path), &read(&path.with_file_name("graphs").join(graph)));
    if case.lacks_features() {
        match published_features() {
            Ok(features) => case.published = Some(features),
            Err(reason) => return Ok(Outcome::NotRun(reason)),
        }
    }
    pollster::block_on(case.run(device))
}

/// Cora's features, the only ones that cases ask for.
fn published_features() -> Result<Matrix, String> {
    let folder = std::env::var_os("HOPWISE_DATA").ok_or("HOPWISE_DATA is not set")?;
    let path = Path::new(&folder).join("cora/cora.npz");
    let data = hopwise::data::load(&path, &Default::default()).map_err(|e| e.to_string())?;
    match data.features {
        Some(hopwise::data::Features::Sparse(x)) => Ok(x.to_dense()),
        _ => Err(format!("{} has no sparse features", path.display())),
    }
}
