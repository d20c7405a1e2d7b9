use std::{collections::HashMap, path::Path};

use safetensors::{Dtype, View, tensor};
use serde_json::json;

use super::{KEY, VERSION};
use crate::data::{DataError, Dataset, Features, Labels};

/// A tensor that is about to be written, in little-endian bytes.
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

#[derive(Default)]
struct Tensors(Vec<(String, Tensor)>);

impl Tensors {
    fn u32s(&mut self, name: impl Into<String>, shape: &[usize], values: &[&[u32]]) {
        let bytes = values.iter().flat_map(|part| part.iter()).flat_map(|v| v.to_le_bytes()).collect();
        self.0.push((name.into(), Tensor { dtype: Dtype::U32, shape: shape.into(), bytes }));
    }

    fn f32s(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.0.push((name.into(), Tensor { dtype: Dtype::F32, shape: shape.into(), bytes }));
    }

    fn i64s(&mut self, name: &str, values: &[i64]) {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.0.push((name.into(), Tensor { dtype: Dtype::I64, shape: vec![values.len()], bytes }));
    }

    fn u64s(&mut self, name: &str, values: &[u64]) {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.0.push((name.into(), Tensor { dtype: Dtype::U64, shape: vec![values.len()], bytes }));
    }
}

/// Writes a data set as a safetensors file that [`load`](crate::data::load()) reads back to an equal one.
///
/// The file appears under its name only when it is complete and on disk: a reader sees the old one or the new one.
///
/// # Errors
/// If the parts of the data set contradict each other, or the folder cannot be written to.
pub fn save(dataset: &Dataset, path: &Path) -> Result<(), DataError> {
    dataset.check(path)?;
    let io_error = |source| DataError::Io { path: path.into(), source };
    let metadata = HashMap::from([(KEY.to_string(), metadata(dataset))]);
    let bytes =
        tensor::serialize(tensors(dataset).0, Some(metadata)).map_err(|e| io_error(std::io::Error::other(e)))?;

    crate::files::write_atomically(path, &bytes).map_err(io_error)
}

fn metadata(dataset: &Dataset) -> String {
    let recipe = dataset.recipe;
    json!({
        "version": VERSION,
        "name": dataset.name,
        "num_src": dataset.edges.num_src(),
        "num_dst": dataset.edges.num_dst(),
        "symmetrize": recipe.symmetrize,
        "drop_self_loops": recipe.drop_self_loops,
        "coalesce": recipe.coalesce,
        "x_cols": dataset.features.as_ref().map(Features::cols),
        "num_classes": match &dataset.labels {
            Some(Labels::Classes { num_classes, .. }) => Some(num_classes),
            _ => None,
        },
        "splits": dataset.splits.len(),
        "graph_classes": dataset.graphs.as_ref().map(|graphs| graphs.num_classes),
        "warnings": dataset.warnings,
    })
    .to_string()
}

fn tensors(dataset: &Dataset) -> Tensors {
    let mut all = Tensors::default();
    let edges = &dataset.edges;
    all.u32s("edge_index", &[2, edges.len()], &[edges.src(), edges.dst()]);
    if let Some(weights) = edges.weights() {
        all.f32s("edge_weight", &[weights.len()], weights);
    }
    if let Some(attributes) = edges.attributes() {
        all.f32s("edge_attr", &[attributes.rows(), attributes.cols()], attributes.data());
    }
    match &dataset.features {
        Some(Features::Dense(x)) => all.f32s("x", &[x.rows(), x.cols()], x.data()),
        Some(Features::Sparse(x)) => {
            all.u32s("x_offsets", &[x.offsets().len()], &[x.offsets()]);
            all.u32s("x_indices", &[x.indices().len()], &[x.indices()]);
            all.f32s("x_values", &[x.values().len()], x.values());
        }
        None => {}
    }
    match &dataset.labels {
        Some(Labels::Classes { ids, .. }) => all.u32s("y", &[ids.len()], &[ids]),
        Some(Labels::Multi(y)) => all.f32s("y", &[y.rows(), y.cols()], y.data()),
        None => {}
    }
    for (k, split) in dataset.splits.iter().enumerate() {
        for (part, nodes) in [("train", &split.train), ("val", &split.val), ("test", &split.test)] {
            all.u32s(format!("splits.{k}.{part}"), &[nodes.len()], &[nodes]);
        }
    }
    if let Some(ids) = &dataset.node_ids {
        all.u64s("node_ids", ids);
    }
    if let Some(graphs) = &dataset.graphs {
        all.u32s("graphs.offsets", &[graphs.offsets.len()], &[&graphs.offsets]);
        all.u32s("graphs.labels", &[graphs.labels.len()], &[&graphs.labels]);
        all.i64s("graphs.label_values", &graphs.label_values);
    }
    all
}
