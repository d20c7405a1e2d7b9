#!/usr/bin/env bash
# Compiles every shader variant in a browser: Chromium's WGSL compiler is stricter than naga about uniform control flow. What it needs, see
# browser.sh. Arguments go to cargo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/browser.sh

# The whole workspace, so that nothing is built again with other features.
cargo build --quiet --workspace --example shaders "$@"
"${CARGO_TARGET_DIR:-target}/debug/examples/shaders" >"$folder/shaders.json"
node "$folder/check-browser-shaders.mjs" "$chromium" "$folder/shaders.json"
