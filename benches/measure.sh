#!/usr/bin/env bash
# Measures everything that RESULTS.md reports, with the program `hopwise` of the PATH, or the one that $HOPWISE names:
#
#   benches/measure.sh FOLDER            all, in some minutes on one NVIDIA GPU; a file of rows for each part
#   benches/measure.sh FOLDER sum halves these parts
#   benches/report.py FOLDER/*.json      the tables
#
# A part that fails leaves the rows that it had measured. $SECONDS_A_ROW is about how long one may take.
set -uo pipefail

if [[ $# == 0 ]]; then
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
fi
folder=$1
shift
hopwise=${HOPWISE:-hopwise}
mkdir -p "$folder"
sparse=arxiv-directed,arxiv-like,blocks,hubs
status=0

# bench PART ARGUMENTS...: if the part is asked for.
asked=("$@")
bench() {
    local part=$1 name
    shift
    if [[ ${#asked[@]} -gt 0 ]]; then
        for name in "${asked[@]}"; do [[ $name == "$part" ]] && break; done
        [[ $name == "$part" ]] || return 0
    fi
    echo "== $part" >&2
    "$hopwise" bench "$@" --seconds "${SECONDS_A_ROW:-0.3}" --json >"$folder/$part.json" || status=1
}

bench sum --backend cuda,wgpu --op sum,min --graph $sparse --features 64,128,256
bench attention --backend cuda,wgpu --op gatv2,transformer --graph $sparse --features 64,128,256
bench heads --backend cuda --op gatv2,transformer --heads 8 --graph $sparse --features 64,128,256
bench halves --backend cuda --op sum,min,gatv2,transformer --graph blocks --features 256 --dtype f32,f16,bf16
bench epochs --backend cuda,wgpu --op epoch-gcn,epoch-sage,epoch-gatv2,epoch-transformer --graph arxiv-like
bench epochs-blocks --backend cuda --op epoch-gcn,epoch-sage,epoch-gatv2,epoch-transformer --graph blocks
bench products --backend cuda --op sum,min,gatv2,transformer --graph products-like --features 64,128,256
bench products-heads --backend cuda --op gatv2,transformer --heads 8 --graph products-like --features 256
bench products-halves --backend cuda --op sum,min,gatv2,transformer --graph products-like --features 256 --dtype bf16
bench orders --backend cuda --op sum,min,gatv2,transformer --graph roads,blocks --features 64,256
bench orders-shuffled --backend cuda --op sum,min,gatv2,transformer --graph roads-shuffled,blocks-shuffled --features 64,256 \
    --reorder none,rcm,communities
exit $status
