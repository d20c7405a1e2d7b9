//! `bindgen IN.wasm FOLDER`: writes a web page's module, `hopwise_web_tests.js` and its `.wasm`, into the folder.
//!
//! It is the part of the program `wasm-bindgen` that is needed, of the version in Cargo.lock and with few dependencies.

use std::{env::args_os, process::ExitCode};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<_> = args_os().skip(1).collect();
    let [input, folder] = &arguments[..] else {
        eprintln!("usage: bindgen IN.wasm FOLDER");
        return ExitCode::FAILURE;
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).typescript(false);
    match bindgen.web(true).and_then(|bindgen| bindgen.generate(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bindgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
