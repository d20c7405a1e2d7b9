//! Weights in files: safetensors with PyTorch's names and shapes, so that they go to and come from PyTorch Geometric as they are.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::{Module, NnError};

fn file_error(path: &Path, reason: impl ToString) -> NnError {
    NnError::File { path: path.display().to_string(), reason: reason.to_string() }
}

/// Words of the application's own that are kept with weights.
pub type Metadata = BTreeMap<String, String>;

/// The one key of the file's own metadata: safetensors writes several in no fixed order, and one model should give one file.
const METADATA_KEY: &str = "hopwise";

/// Writes the parameters and buffers of `model`, with free-form `metadata`. The file appears whole or not at all.
///
/// # Errors
/// If the file cannot be written, or what the device reports.
#[cfg(not(target_arch = "wasm32"))]
pub fn save(model: &dyn Module, metadata: &Metadata, path: &Path) -> Result<(), NnError> {
    let bytes = pollster::block_on(to_bytes(model, metadata))?;
    crate::files::write_atomically(path, &bytes)
        .map_err(|error| NnError::Write { path: path.display().to_string(), reason: error.to_string() })
}

/// The content of a file that [`save`] would write.
///
/// # Errors
/// What the device reports.
pub async fn to_bytes(model: &dyn Module, metadata: &Metadata) -> Result<Vec<u8>, NnError> {
    let mut tensors = Vec::new();
    for (name, parameter) in model.state() {
        let values = parameter.value().to_matrix().await?.into_data();
        tensors.push((name, parameter.shape().to_vec(), values));
    }
    let views: Vec<(&str, TensorView<'_>)> = tensors
        .iter()
        .map(|(name, shape, values)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytemuck::cast_slice(values));
            (name.as_str(), view.expect("a parameter has as many values as its shape says"))
        })
        .collect();
    let json = serde_json::to_string(metadata).expect("a map of strings is valid JSON");
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), json)]);
    safetensors::serialize(views, Some(metadata)).map_err(|error| file_error(Path::new("weights"), error))
}

/// The shapes of a file's tensors by name.
pub type Shapes = HashMap<String, Vec<usize>>;

/// The names and shapes in a file of weights, and what was written beside them.
///
/// # Errors
/// [`NnError::File`] if it cannot be read or is no safetensors file.
pub fn shapes(path: &Path) -> Result<(Shapes, Metadata), NnError> {
    let bytes = std::fs::read(path).map_err(|error| file_error(path, error))?;
    let (_, header) = SafeTensors::read_metadata(&bytes)
        .map_err(|error| file_error(path, format!("{error}; expected a safetensors file")))?;
    let shapes = header.tensors().into_iter().map(|(name, info)| (name, info.shape.clone())).collect();
    let metadata = match header.metadata().as_ref().and_then(|m| m.get(METADATA_KEY)) {
        Some(json) => serde_json::from_str(json)
            .map_err(|error| file_error(path, format!("its metadata is damaged ({error}): write it again")))?,
        None => Metadata::new(),
    };
    Ok((shapes, metadata))
}

/// Reads weights into `model`.
///
/// # Errors
/// [`NnError::File`] if the file cannot be read, [`NnError::OtherModel`] if its names or shapes are not the model's.
pub fn load(model: &dyn Module, path: &Path) -> Result<(), NnError> {
    let bytes = std::fs::read(path).map_err(|error| file_error(path, error))?;
    from_bytes(model, &bytes, path)
}

/// [`load`] from memory; `path` is only for messages. Nothing changes unless everything fits.
///
/// # Errors
/// As [`load`].
pub fn from_bytes(model: &dyn Module, bytes: &[u8], path: &Path) -> Result<(), NnError> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| file_error(path, format!("{error}; expected a complete safetensors file")))?;
    let other = |reason: String| NnError::OtherModel { path: path.display().to_string(), reason };
    let parameters = model.state();
    let mut values = Vec::with_capacity(parameters.len());
    for (name, parameter) in &parameters {
        let stored = file
            .tensor(name)
            .map_err(|_| other(format!("it has no {name}, the model has one of shape {:?}", parameter.shape())))?;
        if stored.shape() != parameter.shape() || stored.dtype() != Dtype::F32 {
            return Err(other(format!(
                "{name} is {:?} {:?}, the model has F32 {:?}",
                stored.dtype(),
                stored.shape(),
                parameter.shape()
            )));
        }
        values.push(bytemuck::pod_collect_to_vec::<u8, f32>(stored.data()));
    }
    // PyTorch's batch norms count their batches, for a kind of average that is not used here.
    let counts = |name: &str| name.ends_with("num_batches_tracked");
    let unknown = |name: &str| !counts(name) && parameters.iter().all(|(known, _)| known != name);
    if let Some(extra) = file.names().into_iter().find(|name| unknown(name)) {
        return Err(other(format!("it has {extra}, which the model does not have")));
    }
    for ((_, parameter), values) in parameters.iter().zip(&values) {
        parameter.value().write(values)?;
    }
    Ok(())
}
