#!/usr/bin/env bash
# Packs the program, the tests and what they read into bundle/hopwise.tar.xz, for a machine with a GPU but without a Rust toolchain:
#
#   scripts/bundle.sh                         here
#   tar -xf hopwise.tar.xz && ./run-tests     there
#   ./run-sanitizer racecheck gat gatv2       compute-sanitizer over tests on CUDA
#   HOPWISE=./hopwise ./measure.sh rows       what benches/RESULTS.md reports
#
# HOPWISE_GOLDENS and HOPWISE_DATA name folders of reference vectors and data sets to take along.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rm -rf bundle
mkdir -p bundle/hopwise/tests
cargo build --release
target=${CARGO_TARGET_DIR:-target}
cp "$target/release/hopwise" benches/measure.sh bundle/hopwise/

tests=(golden kernels reduce norm pna half gat gatv2 transformer subgroups gradients training readout reorder limits large)

# Debug assertions stay on in these: the shaders keep their bounds checks.
cargo test --no-run --package hopwise "${tests[@]/#/--test=}" --message-format=json 2>/dev/null |
    sed -n 's/.*"target":{"kind":\["test"\].*"executable":"\([^"]*\)".*/\1/p' |
    while read -r test; do
        name=$(basename "$test")
        strip -o "bundle/hopwise/tests/${name%-*}" "$test"
    done
cp -r tests/goldens bundle/hopwise/tests/
if [[ -n ${HOPWISE_GOLDENS:-} ]]; then cp -rL "$HOPWISE_GOLDENS" bundle/hopwise/goldens; fi
if [[ -n ${HOPWISE_DATA:-} ]]; then
    mkdir -p bundle/hopwise/data
    for set in cora planetoid; do cp -rL "$HOPWISE_DATA/$set" bundle/hopwise/data/; done
fi

cat >bundle/hopwise/run-tests <<'RUN'
#!/usr/bin/env bash
# Runs the tests that need a device, on this machine's GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export CARGO_MANIFEST_DIR=$PWD
if [[ -d goldens ]]; then export HOPWISE_GOLDENS=$PWD/goldens; fi
if [[ -d data ]]; then export HOPWISE_DATA=$PWD/data; fi
log=$(mktemp -d)
export log
# Each in a process of its own, like cargo-nextest: what one does to a device is no concern of the others.
run_test() {
    local status=ok out=$log/$1-$2
    timeout "${HOPWISE_TEST_SECONDS:-120}" "tests/$1" --exact "$2" --nocapture >"$out" 2>&1 || status="FAILED ($?)"
    printf '%-9s %s::%s\n' "$status" "$1" "$2"
    grep -h '^golden vectors' "$out"
    if [[ $status != ok ]]; then cat "$out" && touch "$log/failed"; fi
}
export -f run_test
./hopwise devices
for test in tests/*; do
    if [[ -d $test ]]; then continue; fi
    test=${test#tests/}
    "tests/$test" --list --format=terse | sed -n "s/^\(.*\): test$/$test \1/p"
done | xargs -P "${HOPWISE_TEST_JOBS:-4}" -L 1 bash -c 'run_test "$@"' _
[[ ! -e $log/failed ]]
RUN

cat >bundle/hopwise/run-sanitizer <<'RUN'
#!/usr/bin/env bash
# compute-sanitizer over the CUDA kernels that tests launch: run-sanitizer memcheck|racecheck|synccheck|initcheck TEST...
# What it finds, with the kernel, is kept in sanitizer/TOOL-TEST-FUNCTION.log.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export CARGO_MANIFEST_DIR=$PWD HOPWISE_TEST_BACKEND=cuda
tool=$1
shift
export tool
mkdir -p sanitizer
check() {
    local log=sanitizer/$tool-$1-$2.log status=ok
    timeout "${HOPWISE_TEST_SECONDS:-300}" compute-sanitizer --tool "$tool" --print-limit 20 --error-exitcode 9 \
        "tests/$1" --exact "$2" >"$log" 2>&1 || status="FAILED ($?)"
    printf '%-12s %s::%s  %s\n' "$status" "$1" "$2" "$(grep -h 'SUMMARY' "$log" | tail -1)"
    if [[ $status != ok ]]; then touch sanitizer/failed; fi
}
export -f check
rm -f sanitizer/failed
for test in "$@"; do
    "tests/$test" --list --format=terse | sed -n "s/^\(.*wgpu.*\): test$/$test \1/p"
done | xargs -P "${HOPWISE_TEST_JOBS:-3}" -L 1 bash -c 'check "$@"' _
[[ ! -e sanitizer/failed ]]
RUN
chmod +x bundle/hopwise/run-tests bundle/hopwise/run-sanitizer
chmod -R u+w bundle
tar -C bundle/hopwise -cf - . | xz -T0 -3 >bundle/hopwise.tar.xz
rm -r bundle/hopwise
ls -l bundle/hopwise.tar.xz
