use std::{fs, path::Path};

use super::*;
use crate::{
    Matrix, SparseMatrix,
    data::{DataError, Dataset, Features, GraphSet, Labels, LoadOptions, Recipe, Split, input::Input, load},
    graph::EdgeList,
};

fn everything() -> Dataset {
    let edges = EdgeList::square(3, vec![0, 2], vec![1, 1])
        .and_then(|e| e.with_weights(vec![0.5, -1.0]))
        .and_then(|e| e.with_attributes(Matrix::zeros(2, 3)))
        .unwrap();
    let x = SparseMatrix::new(3, 4, vec![0, 1, 1, 2], vec![3, 0], vec![1.5, 2.0]).unwrap();
    Dataset {
        name: "every \"thing\"".into(),
        edges,
        recipe: Recipe { drop_self_loops: true, symmetrize: false, coalesce: true },
        features: Some(Features::Sparse(x)),
        labels: Some(Labels::Classes { ids: vec![0, 4, 1], num_classes: 6 }),
        splits: vec![Split { train: vec![0], val: vec![], test: vec![2, 1] }, Split::default()],
        node_ids: Some(vec![7, 9, u64::MAX]),
        graphs: Some(GraphSet {
            offsets: vec![0, 1, 3],
            labels: vec![1, 0],
            num_classes: 2,
            label_values: vec![-1, 1],
        }),
        warnings: vec!["left out".into()],
    }
}

fn dense() -> Dataset {
    Dataset {
        features: Some(Features::Dense(Matrix::new(2, 1, vec![1.0, 2.0]).unwrap())),
        labels: Some(Labels::Multi(Matrix::zeros(3, 2))),
        ..Dataset::from_edges("dense", EdgeList::new(2, 3, vec![], vec![]).unwrap())
    }
}

fn bytes(dataset: &Dataset) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.safetensors");
    save(dataset, &path).unwrap();
    fs::read(path).unwrap()
}

fn parse(bytes: &[u8]) -> Result<Dataset, DataError> {
    let path = Path::new("d.safetensors");
    let dataset = read(&Input { path, bytes })?;
    dataset.check(path)?;
    Ok(dataset)
}

#[test]
fn what_is_saved_loads_to_an_equal_data_set() {
    let folder = tempfile::tempdir().unwrap();
    for (dataset, name) in [(everything(), "a.safetensors"), (dense(), "b")] {
        let path = folder.path().join(name);
        save(&dataset, &path).unwrap();
        assert_eq!(load(&path, &LoadOptions::default()).unwrap(), dataset);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
    assert_eq!(bytes(&everything()), bytes(&everything()), "the same data set makes the same file");
}

#[test]
fn a_file_is_replaced_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.safetensors");
    save(&dense(), &path).unwrap();
    let wrong = Dataset { labels: None, features: Some(Features::Dense(Matrix::zeros(9, 1))), ..dense() };
    assert!(matches!(save(&wrong, &path), Err(DataError::Contradiction { .. })));
    assert_eq!(load(&path, &LoadOptions::default()).unwrap(), dense());
    save(&everything(), &path).unwrap();
    assert_eq!(load(&path, &LoadOptions::default()).unwrap(), everything());
    assert!(matches!(save(&dense(), &folder.path().join("none/d")), Err(DataError::Io { .. })));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = bytes(&everything());
    for len in 0..bytes.len() {
        assert!(parse(&bytes[..len]).is_err(), "cut at {len}");
    }
}

#[test]
fn a_changed_byte_does_no_harm() {
    let bytes = bytes(&everything());
    for at in 0..bytes.len() {
        for value in [0, 0x7f, 0xff, bytes[at] ^ 1] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let _ = parse(&changed);
        }
    }
}

#[test]
fn contradictions_are_named() {
    let text = String::from_utf8_lossy(&bytes(&everything())).into_owned();
    assert!(text.contains(KEY));
    // Replacements of equal length, so that the header stays as long as it says.
    for (from, to, message) in [
        (r#"\"version\":1"#, r#"\"version\":2"#, "version 2"),
        (r#"\"num_src\":3"#, r#"\"num_src\":2"#, "edge 1 has source 2, but the graph has 2"),
        (r#"\"num_src\":3"#, r#"\"num_srk\":3"#, "no `num_src`"),
        (r#"\"splits\":2"#, r#"\"splits\":3"#, "`splits.2.train` is missing"),
        (r#"\"num_classes\":6"#, r#"\"num_classes\":3"#, "class 4"),
        (r#"\"x_cols\":4"#, r#"\"x_cols\":2"#, "column"),
        ("hopwise.dataset", "another.dataset", "holds no data set"),
        ("\"edge_index\"", "\"edge_indes\"", "`edge_index` is missing"),
    ] {
        let whole = bytes(&everything());
        let at = whole.windows(from.len()).position(|w| w == from.as_bytes()).unwrap_or_else(|| panic!("{from}"));
        let mut changed = whole.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        let e = parse(&changed).unwrap_err().to_string();
        assert!(e.contains(message), "{from}: {e}");
    }
}
