#!/usr/bin/env bash
# Compiles every CUDA kernel for three architectures and fails on spills; no GPU is needed. NVRTC is taken from LD_LIBRARY_PATH, or from
# PyPI into HOPWISE_NVRTC_DIR (default: target/nvrtc). Arguments go to cargo.
#
# HOPWISE_CUDA_ARCHITECTURES names others. What passed is remembered there by the text of the kernels and of what asks for them, and not compiled again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

read -ra architectures <<<"${HOPWISE_CUDA_ARCHITECTURES:-sm_80 sm_90 sm_90a}"
version=13.0.88
folder=${HOPWISE_NVRTC_DIR:-${CARGO_TARGET_DIR:-target}/nvrtc}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

library=$folder/nvidia/cu13/lib
if [[ -z ${LD_LIBRARY_PATH:-} || -z $(compgen -G "${LD_LIBRARY_PATH%%:*}/libnvrtc.so*") ]]; then
    if [[ ! -e $library/libnvrtc.so.13 ]]; then
        python3 -m pip install --quiet --root-user-action=ignore --no-deps --upgrade --target "$folder" "nvidia-cuda-nvrtc==$version"
    fi
    export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

sum=$( (echo "${architectures[@]}"; cat cuda/* src/backend/cuda/*.rs src/plan/*.rs examples/kernels.rs scripts/check-cuda-kernels.sh) | sha256sum | cut -d' ' -f1)
passed=$folder/passed-$sum
if [[ -e $passed ]]; then
    echo "These kernels have passed before: $(cat "$passed")"
    exit
fi
# The whole workspace, so that nothing is built again with other features.
cargo build --quiet --workspace --example kernels "$@"
"${CARGO_TARGET_DIR:-target}/debug/examples/kernels" "${architectures[@]}" | tee "$folder/report"
mv "$folder/report" "$passed"
