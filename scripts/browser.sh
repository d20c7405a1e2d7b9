# Sourced by the checks that need a browser. Sets `folder`, where playwright-core is found (HOPWISE_BROWSER_DIR, default target/browser), and `chromium`, the
# program. Needs node and npm; installs Debian's chromium (through apt-get) and playwright-core where they are missing.
# shellcheck shell=bash
folder=${HOPWISE_BROWSER_DIR:-target/browser}
mkdir -p "$folder"
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [[ -z $chromium ]]; then
    as_root=()
    if [[ $(id -u) != 0 ]]; then as_root=(sudo); fi
    echo "$0: installing chromium"
    ${as_root[@]+"${as_root[@]}"} apt-get update -qq
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
    chromium=$(command -v chromium)
fi
if [[ ! -d $folder/node_modules/playwright-core ]]; then
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error playwright-core@1.64
fi
# Modules are looked for from where a script lies.
cp scripts/*.mjs "$folder/"
