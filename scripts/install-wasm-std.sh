#!/usr/bin/env bash
# Builds the standard library for wasm32-unknown-unknown into DEST, a sysroot for the installed stable rustc:
#
#     scripts/install-wasm-std.sh DEST
#     RUSTFLAGS="--sysroot DEST" cargo build --target wasm32-unknown-unknown
#
# For machines that reach a Debian mirror but not rustup's server; elsewhere `rustup target add wasm32-unknown-unknown` does the same.
# Debian's rust-src package of the same version has the sources with all dependencies; cargo builds them as `-Zbuild-std` does.
# Takes about a minute, and nothing when DEST is up to date. Exit status: 3 if Debian no longer has the package, 1 for all else.
set -euo pipefail

say() { echo "install-wasm-std: $*" >&2; }

[[ $# == 1 ]] || { say "usage: $0 DEST"; exit 1; }
target=wasm32-unknown-unknown
mkdir -p "$1"
dest=$(cd "$1" && pwd)
version=$(rustc -vV | sed -n 's/^release: //p')
host=$(rustc -vV | sed -n 's/^host: //p')
sysroot=$(rustc --print sysroot)
lib=$dest/lib/rustlib

# What DEST was made for; written last, so an interrupted run leaves none.
stamp=$(rustc -vV; echo "sysroot: $sysroot")
if [[ -f $dest/made-for && $(<"$dest/made-for") == "$stamp" ]]; then
    say "$dest has the standard library of rustc $version"
    exit 0
fi
for tool in apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null || { say "$tool is missing: this needs Debian or Ubuntu"; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's mirror as apt is configured (deb822 or one-line format), else the public one.
mirror=$({
    sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources
    sed -n 's/^deb \(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' /etc/apt/sources.list
} 2>/dev/null | grep -E '/debian/?$' | head -n 1 || true)
mirror=${mirror:-http://deb.debian.org/debian}

# Package lists of our own, so that the machine's apt stays as it is.
mkdir -p "$work"/{lists/partial,cache/archives/partial,parts}
apt=(
    -o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=$work/parts"
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache"
    -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any
)
package=
answered=no
for suite in trixie-backports trixie forky sid; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/sources.list"
    # A suite may be retired, as long as another one answers.
    apt-get "${apt[@]}" -qq update 2>"$work/log" || continue
    answered=yes
    package=$(apt-cache "${apt[@]}" madison rust-src | awk -v v="$version+" '!found && index($3, v) == 1 { print $3; found = 1 }')
    if [[ -n $package ]]; then break; fi
done
if [[ $answered == no ]]; then
    cat "$work/log" >&2
    say "no Debian suite can be read from $mirror"
    exit 1
fi
if [[ -z $package ]]; then
    say "Debian has no rust-src $version any more: use \`rustup target add $target\` or another rustc"
    exit 3
fi

say "building the standard library from rust-src $package"
(cd "$work" && apt-get "${apt[@]}" -qq download "rust-src=$package")
dpkg-deb --fsys-tarfile "$work"/rust-src_*.deb | tar -x -C "$work" "./usr/src/rustc-$version/library"

# An empty program that aborts on panic takes the standard library with it, and `test` for the test harness.
mkdir -p "$work/empty/src"
: >"$work/empty/src/lib.rs"
cat >"$work/empty/Cargo.toml" <<'MANIFEST'
[package]
name = "empty"
version = "0.0.0"
edition = "2021"
[lib]
crate-type = ["cdylib"]
[profile.release]
panic = "abort"
[workspace]
MANIFEST
# Flags meant for our crates must not reach the standard library. RUSTC_BOOTSTRAP allows -Z on a stable cargo; the other variable
# says where the sources are.
(
    cd "$work/empty"
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS CARGO_BUILD_TARGET
    CARGO_TARGET_DIR=$work/target RUSTC_BOOTSTRAP=1 \
        __CARGO_TESTS_ONLY_SRC_ROOT="$work/usr/src/rustc-$version/library" \
        cargo build --quiet --release --target "$target" -Zbuild-std=std,panic_abort,test
)

rm -rf "$dest/made-for" "${lib:?}/$target"
mkdir -p "$lib/$target/lib"
cp "$work/target/$target/release/deps"/*.rlib "$lib/$target/lib/"
# The linker, rust-lld, is found through the host's folder.
ln -sfn "$sysroot/lib/rustlib/$host" "$lib/$host"
echo "$stamp" >"$dest/made-for"
say "done: $dest"
