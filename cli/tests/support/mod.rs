//! What the tests of the program share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

pub(crate) fn hopwise(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hopwise")).args(args).output().unwrap()
}

/// Runs a command that must succeed, and returns what it prints.
pub(crate) fn stdout(args: &[&str]) -> String {
    let output = hopwise(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hopwise {}: {errors}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

/// Runs a command that must fail with `code` and a message that has all of `words`.
pub(crate) fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = hopwise(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "hopwise {}: {errors}", args.join(" "));
    for word in words {
        assert!(errors.contains(word), "hopwise {}: no {word:?} in {errors}", args.join(" "));
    }
    assert!(output.stdout.is_empty(), "results on standard output in spite of the failure");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
