#!/usr/bin/env bash
# Compiles every shader variant in a browser: Chromium's WGSL compiler is stricter than naga about uniform control flow. Needs node and npm; installs
# Debian's chromium (through apt-get) and playwright-core (into target/browser) where they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${HOPWISE_BROWSER_DIR:-target/browser}
mkdir -p "$folder"
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [[ -z $chromium ]]; then
    as_root=()
    if [[ $(id -u) != 0 ]]; then as_root=(sudo); fi
    echo "check-browser-shaders: installing chromium"
    ${as_root[@]+"${as_root[@]}"} apt-get update -qq
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
    chromium=$(command -v chromium)
fi
if [[ ! -d $folder/node_modules/playwright-core ]]; then
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error playwright-core@1.64
fi
cargo run --quiet --example shaders >"$folder/shaders.json"
cp scripts/check-browser-shaders.mjs "$folder/"
node "$folder/check-browser-shaders.mjs" "$chromium" "$folder/shaders.json"
