#!/usr/bin/env bash
# gpu_check_check.sh SOURCE: scripts/gpu-check in a copied tree without .git, with a cmake that makes programs which say
# what tests and benchmarks say. Every part has its row, a failure is in the exit status, and the stamp tells trees apart.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
tree=$home/tree
mkdir -p "$tree"/{scripts,docs,cmake,src/{ir,cli,train,data},src/backend/{cpu,opencl,cuda},include/systole/tensor} \
  "$tree"/tests/{cuda,parity}
cp "$source"/scripts/{gpu-check,gpu-bench,peer-modes,check-names} "$tree/scripts"
touch "$tree/CMakeLists.txt" "$tree/src/ir/a.cpp" "$tree/src/cli/b.cpp" "$tree/tests/kernels_test.cpp"
peers "$tree/peers"
results=$home/results
{
  result T1 64 tf32 torch compile+cudagraph samples_per_s 1085300
  result T1 64 tf32 jax jit+scan samples_per_s 2678100
} >"$results"

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
  bench) echo "{\"workload\":\"$2\",\"metric\":\"samples_per_s\",\"value\":12.5,\"extra\":{\"low\":1.5,\"high\":2.5,\"warmup_s\":3.5,\"samples_per_s\":4e6,\"peer_samples_per_s\":2e6,\"peer_version\":\"2.15.0\"}}" ;;
esac'
# shellcheck disable=SC2016
tool compute-sanitizer 'while [[ $1 == --* ]]; do [[ $1 == *=* ]] || shift; shift; done; exec "$@"'
tool nvidia-smi 'echo Card'
# shellcheck disable=SC2016
tool nvcc 'echo "Cuda compilation tools, release 13.7, V13.7.88"'
tool nproc 'echo 3'
tool ninja ''

check() {  # arguments of gpu-check; what it says
  : >"$log"
  (cd "$tree" && LOG=$log RESULTS=$results HOME_BIN=$home/bin BROKEN=${BROKEN:-none} DEVICE=${DEVICE:-} CUDA_HOME=$home PATH=$home/bin:$PATH \
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
row commit "\`unknown\`"
row CUDA '13.7.88, NVRTC'
row date "$(date -u +%F), all parts together [0-9]* s on 3 threads |"
out=$(check --verify) || fail "its own result is not known: $out"
grep -q -- '--pairs' "$log" && fail "peers without being asked"

verify() {  # an exit status and words
  local expected=$1 words=$2 out status=0
  out=$(check --verify) || status=$?
  [[ $status == "$expected" && $out == *"$words"* ]] || fail "--verify: $status for $expected, no '$words' in: $out"
}
echo change >>"$tree/docs/other.md"
echo change >>"$tree/src/cli/b.cpp"
verify 0 "of this tree" # neither a page nor the command line is what a card runs
(cd "$tree" && git init -q . && git add -A) >/dev/null 2>&1
verify 0 "of this tree"
echo change >>"$tree/src/ir/a.cpp"
verify 3 "src/ir"
out=$(check --verify)
[[ $out != *src/cli* && $out == *"all of it passed"* ]] || fail "$out"

# What a card runs changes the hash, and nothing else does, in a checkout and in a copy.
hash_of() { (cd "$tree" && scripts/gpu-check --tree); }
change() { for file; do echo change >>"$tree/$file"; done; }
for git in yes no; do
  if [[ $git == no ]]; then mv "$tree/.git" "$home/git"; fi
  before=$(hash_of)
  change src/{cli/b,train/fit,data/csv,backend/cpu/jit,backend/opencl/session}.cpp docs/cuda.md tests/{cli,cpu_jit}_test.cpp
  [[ $(hash_of) == "$before" ]] || fail "what no card runs is in the hash (git: $git)"
  for file in src/ir/a.cpp src/backend/cuda/session.cpp src/backend/shared.cpp include/systole/tensor/tensor.h \
    tests/cuda/session_test.cpp tests/cuda_blas_test.cpp tests/kernels_test.cpp tests/model_devices.h tests/parity/layers.json; do
    change "$file"
    after=$(hash_of)
    [[ $after != "$before" ]] || fail "$file is not in the hash (git: $git)"
    before=$after
  done
done
mv "$home/git" "$tree/.git"

# With a commit, the files that have changed since are named.
(cd "$tree" && printf 'build-gpu\n' >.gitignore && git add -A && git -c user.name=a -c user.email=a@b commit -qm one) >/dev/null
out=$(check) || fail "$out"
row commit "\`$(cd "$tree" && git rev-parse --short=12 HEAD)\` |"
echo change >>"$tree/tests/kernels_test.cpp"
verify 3 "    tests/kernels_test.cpp"
out=$(check) || fail "$out"
grep -q '^| commit | .* and changes on it |' "$tree/docs/gpu-check.md" || fail "changes are not told"
out=$(check --commit 0123abc) || fail "$out"
row commit "\`0123abc\` |"

# Halves add up on one tree and card; another tree begins again.
rm "$tree/docs/gpu-check.md"
out=$(check --part 1/2) || fail "$out"
row parity '4 tests passed'
verify 1 "lacks tests memcheck races"
out=$(check --part 2/2) || fail "$out"
row parity '4 tests passed'
row races '6 rows'
row T4 '256 | bf16 | compile |'
seconds=$(awk -F'|' '/^\| [a-z]+ \| .* \| [0-9]+ \|$/ {s += $4} END {print s}' "$tree/docs/gpu-check.md")
row date "$(date -u +%F), all parts together $seconds s on"
verify 0 "of this tree"
[[ $(grep -c '^| build ' "$tree/docs/gpu-check.md") == 1 ]] || fail "two rows of the build"
echo change >>"$tree/src/ir/a.cpp"
out=$(check --part 2/2) || fail "$out"
verify 1 "lacks conformance bench losses parity training"
out=$(check --part 3/2) && fail "a third half: $out"

for broken in conformance_suite parity_test bench_cuda_test cuda_session_test; do
  out=$(BROKEN=$broken check) && fail "$broken fails, gpu-check does not"
  grep -q '^| [a-z]* | FAILED' "$tree/docs/gpu-check.md" || fail "no word of $broken"
  verify 1 "something failed"
done
grep -q '^| tests | FAILED: .*, not all of cuda_session_test |' "$tree/docs/gpu-check.md" || fail "not named"

# Names that match nothing, before anything is built.
refused() {  # words, arguments
  local words=$1 out status=0
  shift
  out=$(check "$@") || status=$?
  [[ $status == 2 && $out == *"$words"* && ! -s $log ]] || fail "$*: $status, $out"
}
refused "gpu-check: no test in the list; did you mean tests? There are conformance, bench, " --only losses,test
refused "gpu-check: no K3 in the list; did you mean K3@67108864? There are T1@64, " --peers peers --pairs T1@64,K3
refused "no E1 in the list" --peers peers --pairs E1
refused "--pairs and the part peers need --peers DIR" --only peers
refused "--pairs and the part peers need --peers DIR" --pairs T1@64

# The peers in their best modes on this card.
rm "$tree/docs/gpu-check.md"
out=$(check --only peers --peers peers --pairs T1@64,T1@64:many) || fail "$out"
[[ $out == *"| T1@64, tf32 | compile+many | jax 2.15.0 jit+scan | 32.0 µs | 16.0 µs | 12.500 | 1.500–2.500 | 2.2 | | |"* ]] ||
  fail "$out"
[[ $out == *"| peers | 2 ratios, below |"* && $(grep -c -- --pairs "$log") == 2 ]] || fail "other pairs: $out"
grep -qF -- "--hold T1@64:compile+cudagraph" "$log" || fail "another mode"
[[ ! -e $tree/docs/gpu-check.md ]] || fail "a part wrote the result"
out=$(check --part 1/2 --peers peers --pairs T1@64) || fail "$out"
out=$(check --part 2/2 --peers peers --pairs T1@64:many) || fail "$out"
[[ $(grep -c '^| T1@64, tf32 | ' "$tree/docs/gpu-check.md") == 2 && $(grep -c '^| work | mode' "$tree/docs/gpu-check.md") == 1 ]] ||
  fail "the ratios of two halves do not add up"
out=$(check --only peers --peers peers --pairs T5@64) && fail "a peer without a figure is no failure: $out"
[[ $out == *"| peers | FAILED: 0 ratios, below |"* ]] || fail "$out"

out=$(DEVICE='cuda       -         not available: no driver' check) && fail "no GPU is no failure"
[[ $out == *"no GPU here: not available: no driver"* ]] || fail "$out"
