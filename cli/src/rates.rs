//! What the planner's model knows of devices: measured by `hopwise tune --device`, kept in the user's cache folder.

use std::path::{Path, PathBuf};

use hopwise::{backend::DeviceInfo, files::cache_folder, plan::DeviceRates};
use serde::{Deserialize, Serialize};

use crate::{failure::Failure, output};

/// Rates, and whose they are.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    backend: String,
    device: String,
    driver: String,
    version: String,
    rates: DeviceRates,
}

/// The file of a device: one for each device, driver and version of the program.
fn path_of(info: &DeviceInfo) -> Result<PathBuf, Failure> {
    let folder = cache_folder().ok_or_else(|| {
        Failure::Run("there is no folder for caches: set XDG_CACHE_HOME (on Windows, LOCALAPPDATA)".into())
    })?;
    let plain = |text: &str| text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
    let name = [info.backend, &info.name, &info.driver, env!("CARGO_PKG_VERSION")].map(plain).join("_");
    Ok(folder.join("rates").join(format!("{name}.json")))
}

/// What was measured on the device; `None` where nothing was, or a file cannot be read.
pub(crate) fn load(info: &DeviceInfo) -> Option<DeviceRates> {
    let path = path_of(info).ok()?;
    let text = std::fs::read_to_string(&path).ok()?;
    match serde_json::from_str::<Entry>(&text) {
        Ok(entry)
            if (entry.backend.as_str(), &entry.device, &entry.driver) == (info.backend, &info.name, &info.driver) =>
        {
            Some(entry.rates)
        }
        _ => {
            eprintln!(
                "warning: {} is not a file of this device's rates: `hopwise tune --device` writes it anew",
                path.display()
            );
            None
        }
    }
}

/// The file that rates of the device are to be kept in, and its folder made.
pub(crate) fn file_of(info: &DeviceInfo) -> Result<PathBuf, Failure> {
    let path = path_of(info)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Run(format!("{}: cannot be made: {error}", folder.display())))?;
    }
    Ok(path)
}

/// Keeps what was measured.
pub(crate) fn save(path: &Path, info: &DeviceInfo, rates: DeviceRates) -> Result<(), Failure> {
    let entry = Entry {
        backend: info.backend.into(),
        device: info.name.clone(),
        driver: info.driver.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        rates,
    };
    let text = serde_json::to_string_pretty(&entry)
        .map_err(|error| Failure::Run(format!("{}: cannot write: {error}", path.display())))?;
    output::write_file(path, text.as_bytes())
}
