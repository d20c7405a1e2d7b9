#!/usr/bin/env bash
# Runs the golden tests in a browser: the library compiled to WebAssembly, its wgpu backend on WebGPU and its processor backend, with the vectors in
# tests/goldens. Arguments select cases by a part of their name: scripts/test-browser.sh gatv2 sage_max
#
# What it needs, see browser.sh and cargo-wasm.sh. Succeeds, after a notice, where there is no standard library for the target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/browser.sh

# Cases that must have run on each backend when nothing was selected: those in tests/goldens of layers that exist.
minimum=137
if [[ $# -gt 0 ]]; then minimum=1; fi

status=0
scripts/cargo-wasm.sh build --release --package hopwise-web-tests --lib || status=$?
if [[ $status == 3 ]]; then exit 0; elif [[ $status != 0 ]]; then exit "$status"; fi
built=${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/release/hopwise_web_tests.wasm
cargo run --quiet --package hopwise-bindgen -- "$built" "$folder/web-tests"
node "$folder/test-browser.mjs" "$chromium" "$folder/web-tests" tests/goldens "$minimum" "$@"
