use std::path::Path;

use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};
use serde_json::Value;

use super::{KEY, VERSION};
use crate::{
    Matrix, SparseMatrix,
    data::{DataError, Dataset, Features, GraphSet, Labels, Recipe, Split, input::Input},
    graph::EdgeList,
};

/// How many of a file's bytes [`is_container`] looks at.
pub(in crate::data) const HEAD: usize = 9;

/// Whether a file begins with a 64-bit length that is no larger than safetensors allows, and an object in JSON.
pub(in crate::data) fn is_container(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, _, _, 0, 0, 0, 0, b'{', ..])
}

/// Reads a file through a memory map: nothing but the tensors themselves is copied.
#[cfg(not(target_arch = "wasm32"))]
pub(in crate::data) fn open(path: &Path) -> Result<Dataset, DataError> {
    let io_error = |source| DataError::Io { path: path.into(), source };
    let file = std::fs::File::open(path).map_err(io_error)?;
    // SAFETY: the map is read-only and gone when this function returns. That no other process cuts the file short or writes to it in the
    // meantime is asked of the user, as by every program that maps files; `save` replaces files and never writes into one.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io_error)?;
    read(&Input { path, bytes: &map })
}

/// Reads a file.
#[cfg(target_arch = "wasm32")]
pub(in crate::data) fn open(path: &Path) -> Result<Dataset, DataError> {
    let bytes = std::fs::read(path).map_err(|source| DataError::Io { path: path.into(), source })?;
    read(&Input { path, bytes: &bytes })
}

/// The tensors and the metadata of a file.
struct Container<'a> {
    input: &'a Input<'a>,
    tensors: SafeTensors<'a>,
    metadata: Value,
}

/// Reads and checks a container.
pub(in crate::data) fn read(input: &Input<'_>) -> Result<Dataset, DataError> {
    let tensors = SafeTensors::deserialize(input.bytes).map_err(|e| match e {
        SafeTensorError::HeaderTooSmall
        | SafeTensorError::InvalidHeaderLength
        | SafeTensorError::MetadataIncompleteBuffer => input.truncated(e.to_string()),
        e => input.contradiction(format!("not a safetensors file: {e}")),
    })?;
    let (_, header) = SafeTensors::read_metadata(input.bytes).map_err(|e| input.contradiction(e.to_string()))?;
    let metadata = header.metadata().as_ref().and_then(|m| m.get(KEY)).ok_or_else(|| {
        input.unsupported(format!("a safetensors file without the key `{KEY}` in its metadata holds no data set"))
    })?;
    let metadata = serde_json::from_str(metadata)
        .map_err(|e| input.contradiction(format!("the metadata under `{KEY}` is no JSON: {e}")))?;
    let container = Container { input, tensors, metadata };
    let version = container.number("version")?;
    if version != VERSION {
        return Err(input.unsupported(format!(
            "version {version} of the container is not known, only {VERSION}: read it with the release that wrote it"
        )));
    }
    container.dataset()
}

impl Container<'_> {
    fn dataset(&self) -> Result<Dataset, DataError> {
        let name = self.metadata["name"].as_str().ok_or_else(|| self.wrong("name", "a string"))?;
        let mut dataset = Dataset::from_edges(name, self.edges()?);
        dataset.recipe = Recipe {
            symmetrize: self.flag("symmetrize")?,
            drop_self_loops: self.flag("drop_self_loops")?,
            coalesce: self.flag("coalesce")?,
        };
        dataset.features = self.features()?;
        dataset.labels = self.labels()?;
        for k in 0..self.number("splits")? {
            let part = |part: &str| self.u32s(&format!("splits.{k}.{part}"));
            dataset.splits.push(Split { train: part("train")?, val: part("val")?, test: part("test")? });
        }
        if self.has("node_ids") {
            let ids = self.words("node_ids", Dtype::U64)?;
            dataset.node_ids = Some(ids.iter().map(|&id| u64::from_le_bytes(id)).collect());
        }
        if self.has("graphs.offsets") {
            let label_values = self.words("graphs.label_values", Dtype::I64)?;
            dataset.graphs = Some(GraphSet {
                offsets: self.u32s("graphs.offsets")?,
                labels: self.u32s("graphs.labels")?,
                num_classes: self.count("graph_classes")?,
                label_values: label_values.iter().map(|&v| i64::from_le_bytes(v)).collect(),
            });
        }
        let warnings = self.metadata["warnings"].as_array().ok_or_else(|| self.wrong("warnings", "a list"))?;
        for warning in warnings {
            let text = warning.as_str().ok_or_else(|| self.wrong("warnings", "a list of strings"))?;
            dataset.warnings.push(text.into());
        }
        Ok(dataset)
    }

    fn edges(&self) -> Result<EdgeList, DataError> {
        let (shape, mut src) = (self.tensor("edge_index")?.shape().to_vec(), self.u32s("edge_index")?);
        let [2, edges] = shape[..] else { return Err(self.wrong_shape("edge_index", "[2, E]")) };
        let dst = src.split_off(edges);
        let graph_error = |e| self.input.graph_error(e);
        let mut list = EdgeList::new(self.count("num_src")?, self.count("num_dst")?, src, dst).map_err(graph_error)?;
        if self.has("edge_weight") {
            list = list.with_weights(self.f32s("edge_weight")?).map_err(graph_error)?;
        }
        if self.has("edge_attr") {
            list = list.with_attributes(self.matrix("edge_attr")?).map_err(graph_error)?;
        }
        Ok(list)
    }

    fn features(&self) -> Result<Option<Features>, DataError> {
        if self.has("x") {
            return Ok(Some(Features::Dense(self.matrix("x")?)));
        }
        if !self.has("x_offsets") {
            return Ok(None);
        }
        let offsets = self.u32s("x_offsets")?;
        let rows = offsets.len().checked_sub(1).ok_or_else(|| self.wrong_shape("x_offsets", "[N + 1]"))?;
        let (indices, values) = (self.u32s("x_indices")?, self.f32s("x_values")?);
        let x = SparseMatrix::new(rows, self.count("x_cols")? as usize, offsets, indices, values);
        x.map(|x| Some(Features::Sparse(x))).map_err(|e| self.input.matrix_error(e))
    }

    fn labels(&self) -> Result<Option<Labels>, DataError> {
        if !self.has("y") {
            return Ok(None);
        }
        if self.tensor("y")?.dtype() == Dtype::F32 {
            return Ok(Some(Labels::Multi(self.matrix("y")?)));
        }
        Ok(Some(Labels::Classes { ids: self.u32s("y")?, num_classes: self.count("num_classes")? }))
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    fn tensor(&self, name: &str) -> Result<TensorView<'_>, DataError> {
        self.tensors.tensor(name).map_err(|_| self.input.contradiction(format!("the tensor `{name}` is missing")))
    }

    /// The elements of a tensor, which the library has compared with its shape.
    fn words<const N: usize>(&self, name: &str, dtype: Dtype) -> Result<&[[u8; N]], DataError> {
        let tensor = self.tensors.tensor(name);
        let tensor = tensor.map_err(|_| self.input.contradiction(format!("the tensor `{name}` is missing")))?;
        if tensor.dtype() != dtype {
            return Err(self
                .input
                .contradiction(format!("the tensor `{name}` holds {:?}, expected {dtype:?}", tensor.dtype())));
        }
        Ok(tensor.data().as_chunks().0)
    }

    fn u32s(&self, name: &str) -> Result<Vec<u32>, DataError> {
        Ok(self.words(name, Dtype::U32)?.iter().map(|&v| u32::from_le_bytes(v)).collect())
    }

    fn f32s(&self, name: &str) -> Result<Vec<f32>, DataError> {
        Ok(self.words(name, Dtype::F32)?.iter().map(|&v| f32::from_le_bytes(v)).collect())
    }

    fn matrix(&self, name: &str) -> Result<Matrix, DataError> {
        let &[rows, cols] = self.tensor(name)?.shape() else { return Err(self.wrong_shape(name, "two axes")) };
        Matrix::new(rows, cols, self.f32s(name)?).map_err(|e| self.input.matrix_error(e))
    }

    fn number(&self, key: &str) -> Result<u64, DataError> {
        self.metadata[key].as_u64().ok_or_else(|| self.wrong(key, "a whole number"))
    }

    fn count(&self, key: &str) -> Result<u32, DataError> {
        u32::try_from(self.number(key)?).map_err(|_| self.wrong(key, "a number below 2^32"))
    }

    fn flag(&self, key: &str) -> Result<bool, DataError> {
        self.metadata[key].as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    fn wrong(&self, key: &str, expected: &str) -> DataError {
        self.input.contradiction(format!("the metadata has no `{key}` that is {expected}"))
    }

    fn wrong_shape(&self, name: &str, expected: &str) -> DataError {
        self.input.contradiction(format!("the tensor `{name}` has another shape than {expected}"))
    }
}
