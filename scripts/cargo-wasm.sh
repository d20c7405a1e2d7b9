#!/usr/bin/env bash
# Runs cargo for the browser: scripts/cargo-wasm.sh build --release ... adds the target wasm32-unknown-unknown and a standard library for it.
#
# Takes the target that rustup has installed, else a standard library built into $HOPWISE_WASM_SYSROOT (default target/wasm-sysroot).
# Exit status: 3, after a notice, if no standard library can be had for this rustc; else cargo's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=wasm32-unknown-unknown
flags=()
read -ra flags <<<"${RUSTFLAGS:-}" || true

installed=$(rustc --print target-libdir --target "$target")
if ! compgen -G "$installed/libstd-*.rlib" >/dev/null; then
    sysroot=${HOPWISE_WASM_SYSROOT:-target/wasm-sysroot}
    status=0
    scripts/install-wasm-std.sh "$sysroot" || status=$?
    if [[ $status == 3 ]]; then
        printf '%s\n' '' \
            '********************************************************************************' \
            '*  SKIPPED: what runs in the browser (wasm32) was NOT checked.                 *' \
            '*  No standard library for wasm32 can be had for this rustc; see above.        *' \
            '********************************************************************************' ''
    fi
    if [[ $status != 0 ]]; then exit "$status"; fi
    # Absolute: cargo runs rustc in the folder of each crate.
    flags+=(--sysroot "$(cd "$sysroot" && pwd)")
fi

# The encoded form takes paths with spaces. With --target, flags reach neither build scripts nor procedural macros.
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]-}")
export CARGO_ENCODED_RUSTFLAGS
exec cargo "$1" --target "$target" "${@:2}"
