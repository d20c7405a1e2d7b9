//! The golden tests as a module for the browser: the page hands over the files of a case and gets to know how it ended.
//!
//! The code that runs a case is the native tests' own.

#[path = "../../tests/golden/case.rs"]
mod case;
#[path = "../../tests/support/values.rs"]
mod support;

use case::{Case, Outcome};
use hopwise::backend::Device;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn console_error(message: &str);
}

/// Panics, which end the module, reach the page's console.
#[wasm_bindgen(start)]
fn report_panics() {
    std::panic::set_hook(Box::new(|info| console_error(&info.to_string())));
}

/// A device that cases run on.
#[wasm_bindgen]
pub struct Suite(Device);

#[wasm_bindgen]
impl Suite {
    /// Opens the device of a backend, `cpu` or `wgpu`.
    pub async fn open(backend: String) -> Result<Suite, JsError> {
        match &backend[..] {
            "cpu" => Ok(Self(Device::cpu())),
            "wgpu" => Ok(Self(Device::wgpu().await?)),
            other => Err(JsError::new(&format!("there is no backend {other}"))),
        }
    }

    /// The device's name and driver.
    pub fn device(&self) -> String {
        let info = self.0.info();
        format!("{} ({})", info.name, info.driver)
    }

    /// Runs a case, given its file and that of its graph. Returns why it could not be run, or nothing; throws if it fails.
    pub async fn run(&self, case: Vec<u8>, graph: Vec<u8>) -> Result<Option<String>, JsError> {
        let case = Case::load(&case, &graph);
        if case.lacks_features() {
            return Ok(Some("its features are those of a data set".to_owned()));
        }
        match case.run(&self.0).await.map_err(|error| JsError::new(&error))? {
            Outcome::Passed => Ok(None),
            Outcome::NotRun(reason) => Ok(Some(reason)),
        }
    }
}
