#!/usr/bin/env bash
# Compiles every shader variant in a browser: Chromium's WGSL compiler is stricter than naga about uniform control flow. What it needs, see browser.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/browser.sh

cargo run --quiet --example shaders >"$folder/shaders.json"
node "$folder/check-browser-shaders.mjs" "$chromium" "$folder/shaders.json"
