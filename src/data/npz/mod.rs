//! NPZ files, zips of NumPy arrays, with one of two families of names.
//!
//! - `edge_index` `[2, E]` (row 0 sources, row 1 destinations) with, if there, `x_indptr x_indices x_data x_shape` (CSR) or `x` `[N, F]`,
//!   `y` `[N]` or `[N, C]`, and `train_mask val_mask test_mask` `[N]` or `[S, N]`. The edges are taken as they are.
//! - `edges` `[E, 2]` with, if there, `node_features` `[N, F]`, `node_labels` and `train_masks val_masks test_masks`, as published with
//!   "A critical look at the evaluation of GNNs under heterophily" (Platonov et al., ICLR 2023). Nothing in these files says whether the
//!   edges are directed: by the publishers' convention they are if the file's name ends in `_directed`; otherwise each undirected edge is
//!   listed once, and the recipe adds the reverse ones.

mod npy;
mod zip;

use std::collections::BTreeMap;

use self::npy::Array;
use super::{DataError, Dataset, Features, Labels, Recipe, Split, input::Input};
use crate::{Matrix, SparseMatrix, graph::EdgeList};

pub(super) use self::zip::is_zip;

/// The names of one family.
struct Names {
    edges: &'static str,
    features: &'static str,
    labels: &'static str,
    masks: [&'static str; 3],
}

const EDGE_INDEX: Names =
    Names { edges: "edge_index", features: "x", labels: "y", masks: ["train_mask", "val_mask", "test_mask"] };
const EDGES: Names = Names {
    edges: "edges",
    features: "node_features",
    labels: "node_labels",
    masks: ["train_masks", "val_masks", "test_masks"],
};

/// The arrays of a file, unpacked when they are asked for.
struct Arrays<'a> {
    input: &'a Input<'a>,
    entries: BTreeMap<String, zip::Entry<'a>>,
}

impl<'a> Arrays<'a> {
    fn get(&self, name: &str) -> Result<Option<Array<'a>>, DataError> {
        let Some(entry) = self.entries.get(&format!("{name}.npy")) else { return Ok(None) };
        Array::parse(self.input, name, entry.unpack(self.input)?).map(Some)
    }

    fn need(&self, name: &str) -> Result<Array<'a>, DataError> {
        self.get(name)?.ok_or_else(|| self.input.contradiction(format!("the array `{name}` is missing")))
    }
}

/// Reads either family.
pub(super) fn read(input: &Input<'_>, name: String) -> Result<Dataset, DataError> {
    let arrays = Arrays { input, entries: zip::entries(input)? };
    if arrays.entries.contains_key("edge_index.npy") {
        return dataset(&arrays, &EDGE_INDEX, name, Recipe::default());
    }
    if arrays.entries.contains_key("edges.npy") {
        let is_directed = name.ends_with("_directed");
        let once_each = Recipe { drop_self_loops: false, symmetrize: true, coalesce: true };
        return dataset(&arrays, &EDGES, name, if is_directed { Recipe::default() } else { once_each });
    }
    let names: Vec<&str> = arrays.entries.keys().map(String::as_str).collect();
    Err(input.unsupported(format!(
        "an NPZ file needs an array `edge_index` [2, E] or `edges` [E, 2], but this one has {}",
        if names.is_empty() { "none".into() } else { names.join(", ") }
    )))
}

fn dataset(arrays: &Arrays<'_>, names: &Names, name: String, recipe: Recipe) -> Result<Dataset, DataError> {
    let features = features(arrays, names)?;
    let labels = arrays.get(names.labels)?.map(|y| labels(&y)).transpose()?;
    let (splits, masked) = splits(arrays, names)?;
    let (src, dst) = ends(&arrays.need(names.edges)?, names.edges == EDGE_INDEX.edges)?;

    let largest = src.iter().chain(&dst).copied().max();
    let listed = largest.map_or(Ok(0), |id| arrays.input.node_count(u64::from(id)))? as usize;
    let known = features.as_ref().map(Features::rows).or_else(|| labels.as_ref().map(Labels::len)).or(masked);
    let nodes = u32::try_from(known.unwrap_or(listed))
        .map_err(|_| arrays.input.contradiction("more than 2^32 - 1 nodes: split the graph"))?;
    let edges = EdgeList::square(nodes, src, dst).map_err(|e| arrays.input.graph_error(e))?;
    Ok(Dataset { recipe, features, labels, splits, ..Dataset::from_edges(name, edges) })
}

/// Sources and destinations, from two rows or from two columns.
fn ends(array: &Array<'_>, rows: bool) -> Result<(Vec<u32>, Vec<u32>), DataError> {
    match (array.shape(), rows) {
        (&[2, edges], true) => {
            let mut src = array.ids()?;
            let dst = src.split_off(edges);
            Ok((src, dst))
        }
        (&[_, 2], false) => Ok(array.ids()?.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip()),
        (_, true) => Err(array.wrong_shape("[2, E]")),
        (_, false) => Err(array.wrong_shape("[E, 2]")),
    }
}

fn features(arrays: &Arrays<'_>, names: &Names) -> Result<Option<Features>, DataError> {
    if let Some(x) = arrays.get(names.features)? {
        let &[rows, cols] = x.shape() else { return Err(x.wrong_shape("[N, F]")) };
        let x = Matrix::new(rows, cols, x.floats()?).map_err(|e| arrays.input.matrix_error(e))?;
        return Ok(Some(Features::Dense(x)));
    }
    let Some(offsets) = arrays.get("x_indptr")? else { return Ok(None) };
    let shape = arrays.need("x_shape")?;
    let [rows, cols] = shape.ids()?[..] else { return Err(shape.wrong_shape("[2]")) };
    if rows == u32::MAX {
        return Err(arrays.input.contradiction("more than 2^32 - 2 rows of features: split the graph"));
    }
    let (indices, values) = (arrays.need("x_indices")?.ids()?, arrays.need("x_data")?.floats()?);
    let x = SparseMatrix::new(rows as usize, cols as usize, offsets.ids()?, indices, values)
        .map_err(|e| arrays.input.matrix_error(e))?;
    Ok(Some(Features::Sparse(x)))
}

fn labels(y: &Array<'_>) -> Result<Labels, DataError> {
    match *y.shape() {
        [_] => Ok(Labels::classes(y.ids()?)),
        [rows, cols] => Matrix::new(rows, cols, y.floats()?).map(Labels::Multi).map_err(|e| y.input().matrix_error(e)),
        _ => Err(y.wrong_shape("[N] or [N, C]")),
    }
}

/// The splits, one a row of the masks, and the number of nodes in a mask.
fn splits(arrays: &Arrays<'_>, names: &Names) -> Result<(Vec<Split>, Option<usize>), DataError> {
    let Some(train) = arrays.get(names.masks[0])? else { return Ok((Vec::new(), None)) };
    let masks = [train, arrays.need(names.masks[1])?, arrays.need(names.masks[2])?];
    let [train, val, test] = &masks;
    if let Some(other) = [val, test].into_iter().find(|m| m.shape() != train.shape()) {
        return Err(other.wrong_shape(&format!("{:?}, the shape of {}", train.shape(), names.masks[0])));
    }
    let nodes = match *train.shape() {
        [nodes] | [_, nodes] => nodes,
        _ => return Err(train.wrong_shape("[N] or [S, N]")),
    };
    let [train, val, test] = [parts(train, nodes)?, parts(val, nodes)?, parts(test, nodes)?];
    let splits = train.into_iter().zip(val).zip(test).map(|((train, val), test)| Split { train, val, test }).collect();
    Ok((splits, Some(nodes)))
}

/// The nodes that each row of a mask marks.
fn parts(mask: &Array<'_>, nodes: usize) -> Result<Vec<Vec<u32>>, DataError> {
    let marks = mask.bools()?;
    Ok(marks
        .chunks_exact(nodes.max(1))
        .map(|row| row.iter().zip(0..).filter(|(marked, _)| **marked).map(|(_, node)| node).collect())
        .collect())
}

#[cfg(test)]
mod tests;
