#!/usr/bin/env bash
# gpu_check_check.sh SOURCE: scripts/gpu-check in a copied tree without .git, with a cmake that makes programs which say
# what tests and benchmarks say. Every part has its row, a failure is in the exit status, and the stamp tells trees apart.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
tree=$home/tree
mkdir -p "$tree/scripts" "$tree/docs" "$tree/src" "$tree/include" "$tree/tests" "$tree/cmake" "$tree/peers"
cp "$source/scripts/gpu-check" "$tree/scripts"
touch "$tree/CMakeLists.txt" "$tree/src/a.cpp"

# shellcheck disable=SC2016
tool cmake 'echo "cmake $*" >>"$LOG"
[[ $* == *"--target help"* ]] && { echo "cuda_session_test: phony"; exit 0; }
[[ $* == *--build* ]] || exit 0
mkdir -p build-gpu/tests/conformance build-gpu/tests/cuda
for name in conformance/conformance_suite parity_test bench_test bench_cuda_test bench_results_test \
  bench_deterministic_test kernels_test kernel_sources_test kernel_call_test kernel_docs_test kernel_op_test \
  device_array_test streams_test judgement_test padding_test windows_test trainer_ahead_test layers_test losses_test trainer_devices_test \
  cuda/cuda_session_test; do
  cp "$HOME_BIN/a_test" "build-gpu/tests/$name"
done
cp "$HOME_BIN/a_systole" build-gpu/systole'
# shellcheck disable=SC2016
tool a_test 'echo "[  PASSED  ] 2 tests."
if [[ $0 == *"$BROKEN" ]]; then echo "[  FAILED  ] T.one"; exit 1; fi'
# shellcheck disable=SC2016
tool a_systole 'echo "systole $*" >>"$LOG"
case $1 in
  devices) echo "${DEVICE:-cuda:0     141 GiB  a card}" ;;
  bench) echo "{\"workload\":\"$2\",\"metric\":\"samples_per_s\",\"value\":12.5,\"extra\":{\"low\":1.5,\"high\":2.5,\"warmup_s\":3.5}}" ;;
esac'
# shellcheck disable=SC2016
tool compute-sanitizer 'while [[ $1 == --* ]]; do [[ $1 == *=* ]] || shift; shift; done; exec "$@"'
tool nvidia-smi 'echo Card'
tool nproc 'echo 3'
tool ninja ''

check() {  # arguments of gpu-check; what it says
  : >"$log"
  (cd "$tree" && LOG=$log HOME_BIN=$home/bin BROKEN=${BROKEN:-none} DEVICE=${DEVICE:-} PATH=$home/bin:$PATH \
    scripts/gpu-check "$@" 2>&1)
}
row() { grep -q "^| $1 | $2" "$tree/docs/gpu-check.md" || fail "no row: $1 $2"; }

out=$(check --verify) && fail "verified nothing"
[[ $out == *"no result"* ]] || fail "$out"
out=$(check) || fail "$out"
row conformance '6 rows' # two in each of three processes
row losses '4 tests passed'
row parity '4 tests passed'
row training '6 tests passed'
row tests '26 tests passed'
row memcheck '6 rows and 6 steps'
row races '6 rows'
row T4 '256 | bf16 | compile | 12.5 samples_per_s | 3.5 |'
row card 'Card, driver Card'
check --verify >/dev/null || fail "its own result is not known"
grep -q -- '--pairs' "$log" && fail "peers without being asked"

echo change >>"$tree/docs/other.md"
check --verify >/dev/null || fail "a page is no part of the hash"
(cd "$tree" && git init -q . && git add -A) >/dev/null 2>&1
check --verify >/dev/null || fail "the hash differs with .git"
echo change >>"$tree/src/a.cpp"
out=$(check --verify) && fail "a changed tree is verified"
[[ $out == *"another tree"* ]] || fail "$out"

for broken in conformance_suite parity_test bench_cuda_test cuda_session_test; do
  out=$(BROKEN=$broken check) && fail "$broken fails, gpu-check does not"
  grep -q '^| [a-z]* | FAILED' "$tree/docs/gpu-check.md" || fail "no word of $broken"
done
grep -q '^| tests | FAILED: .*, not all of cuda_session_test |' "$tree/docs/gpu-check.md" || fail "not named"
out=$(check --verify) && fail "a failure is verified"
[[ $out == *"something failed"* ]] || fail "$out"

rm "$tree/docs/gpu-check.md"
out=$(check --only peers --peers peers --pairs T1@64,T1@64:many) || fail "$out"
[[ $out == *"| T1 | 64 | tf32 | compile+many | jax jit+scan | 12.5 | 1.5–2.5 |"* ]] || fail "$out"
[[ $(grep -c -- --pairs "$log") == 2 ]] || fail "other pairs"
[[ ! -e $tree/docs/gpu-check.md ]] || fail "a part wrote the result"

out=$(DEVICE='cuda       -         not available: no driver' check) && fail "no GPU is no failure"
[[ $out == *"no GPU here: not available: no driver"* ]] || fail "$out"
