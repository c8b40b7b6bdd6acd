#!/usr/bin/env bash
# gpu_bench_check.sh SOURCE: scripts/gpu-bench with a bench.py that gives what a file says and a program that says what
# `systole bench --pairs` says. The best mode of a peer on this card is held ready, timings of another card are refused,
# rows are appended with a stamp, --table never mixes two stamps, and a row that failed is in the exit status and not in
# the file.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
tree=$home/tree
mkdir -p "$tree/scripts" "$tree/src/ir" "$tree/tests" "$tree/mnist"
cp "$source"/scripts/{gpu-check,gpu-bench,peer-modes,check-names} "$tree/scripts"
touch "$tree/CMakeLists.txt" "$tree/src/ir/a.cpp"
peers "$tree/peers"
# shellcheck disable=SC2016
tool a_systole 'echo "systole $*" >>"$LOG"
[[ $2 == "$BROKEN" ]] && { echo "no device" >&2; exit 1; }
case "$1 $2" in
  "bench E1") echo "{\"value\":0.0125}" ;;
  bench*) echo "{\"value\":${RATIO:-1.5},\"extra\":{\"low\":1.25,\"high\":1.75,\"samples_per_s\":3000,\"peer_samples_per_s\":2000,\"peer\":\"torch\",\"peer_version\":\"2.15.0+cu130\"}}" ;;
  profile*) echo "{\"steps\":2,\"rows\":[{\"least_seconds\":0.001,\"calls\":2}]}" ;;
esac'
# shellcheck disable=SC2016
tool nvidia-smi 'if [[ $* == *driver* ]]; then echo 580.1; else echo "${CARD:-Card}"; fi'
results=$home/results
bench() {
  : >"$log"
  (cd "$tree" && LOG=$log RESULTS=$results ENDS=${ENDS:-0} BROKEN=${BROKEN:-none} PATH=$home/bin:$PATH scripts/gpu-bench "$@" 2>&1)
}
measure() { bench --peers peers --systole "$home/bin/a_systole" "$@"; }
run() { measure --commit 0123abc --append rows.jsonl "$@"; }
held() { grep -qF -- "--hold $1" "$log" || fail "not held: $1"; }
{
  result T1 64 tf32 torch compile+cudagraph samples_per_s 1085300
  result T1 64 tf32 jax jit samples_per_s 597970
  result T1 64 tf32 jax jit+scan samples_per_s 2678100
  result T1 512 tf32 torch compile+cudagraph samples_per_s 6924000
  result T4 256 bf16 torch compile+cudagraph samples_per_s 6997
  result T4 256 bf16 jax jit samples_per_s 6762
  result T5 64 tf32 jax jit samples_per_s 23654
  result T6 16 bf16 torch compile+cudagraph samples_per_s 487
  result I3 1 tf32 torch eager+cudagraph ms 0.6
  result E1 64 tf32 torch dataloader s_per_epoch 1.4
  result E1 64 tf32 jax preloaded+scan s_per_epoch 0.025
} >"$results"

# Names are looked at before anything is measured, and E1 needs data.
out=$(measure --only K3,T4@256); status=$?
[[ $status == 2 && $out == "gpu-bench: no K3 in the list; did you mean K3@67108864? There are T1@64, "* ]] || fail "$status: $out"
out=$(measure --only T4@256,E1); status=$?
[[ $status == 2 && $out == *"E1 needs --mnist DIR"* ]] || fail "$status: $out"
[[ ! -s $log ]] || fail "measured before the names were looked at"
[[ $(bench --list | head -2) == T1@64$'\n'T1@64:many ]] || fail "the list"

# Scans stand beside many steps in a launch alone, and a mode is held as it was timed.
out=$(measure --only T1@64,T1@64:many,T5@64 --no-floor) || fail "$out"
held T1@64:compile+cudagraph
held T1@64:jit+scan
[[ $(grep -o 'bench[.]py .*' "$log" | grep -- '--hold T1' | grep -c -- --quick) == 0 ]] || fail "T1's modes are not of --quick"
grep -o 'bench[.]py .*' "$log" | grep -- '--hold T5@64:jit' | grep -q -- --quick || fail "T5's modes are of --quick"
[[ $(grep -c '^bench.py' "$log") == 2 ]] || fail "the modes of T1 were timed twice"
sed -i 's/"jit+scan"/"jit"/' "$results"
out=$(measure --only T1@64:many --no-floor) || fail "$out"
held T1@64:jit
sed -i '3s/"jit"/"jit+scan"/' "$results"

# Whole trainings: all modes once, then in turn with the best.
out=$(measure --only E1 --mnist mnist --windows 7) || fail "$out"
[[ $(grep -c -- '--only E1 .*--frameworks jax --modes preloaded+scan' "$log") == 7 ]] || fail "not seven of the best"
[[ $(grep -c -- '^bench.py .*--only E1' "$log") == 8 ]] || fail "the modes are not timed once"
[[ $out == *"| E1, 64, tf32 | s an epoch | jax 2.15.0 preloaded+scan | 0.0250 s | 0.0125 s | 2.00 | 2.00–2.00 | 1.3 | | |"* ]] || fail "$out"

# Timings that are kept are of one card, and what a budget left out is said again.
result T4 256 bf16 torch reduce-overhead error null '"error": "TimeoutError: skipped: out of budget"' >>"$results"
out=$(measure --only T4@256 --no-floor --modes modes.jsonl --budget 90) || fail "$out"
grep -q -- '^bench.py .*--budget 90' "$log" || fail "no budget"
out=$(measure --only T4@256 --no-floor --modes modes.jsonl) || fail "$out"
grep -q '^bench.py' "$log" && fail "timed again"
held T4@256:compile+cudagraph
[[ $out == *"T4@256: nothing of torch reduce-overhead: TimeoutError: skipped: out of budget"* ]] || fail "$out"
out=$(CARD=Other measure --only T4@256 --no-floor --modes modes.jsonl); status=$?
[[ $status == 2 && $out == *"modes.jsonl was timed on Card, driver 580.1 with "*"; this is Other, driver 580.1 with "* ]] || fail "$status: $out"
[[ ! -s $log ]] || fail "measured with modes of another card"

out=$(run --only T4@256,I3@1) || fail "$out"
[[ $out == *"| work | mode | best peer | its | ours | ratio | 90 % interval | bar | floor | of it |"* ]] || fail "$out"
[[ $out == *"| T4@256, bf16 | compile | torch 2.15.0 compile+cudagraph | 128,000.0 µs | 85,333.3 µs | 1.500 | 1.250–1.750 | 1.08 | 1000.00 µs | 1 % |"* ]] ||
  fail "$out"
out=$(RATIO=2 run --only T4@256,T6@16 --no-floor) || fail "$out"
[[ $(wc -l <"$tree/rows.jsonl") == 4 ]] || fail "four rows"
out=$(bench --table rows.jsonl) || fail "$out"
[[ $(grep -c '^| work' <<<"$out") == 1 && $(grep -c '^| T4@256' <<<"$out") == 1 ]] || fail "one stamp, one table: $out"
[[ $out == *"| 2.000 |"* && $out == *"Card, driver 580.1, commit 0123abc, tree "* ]] || fail "the last row of a work: $out"

out=$(CARD=Other run --only T5@64) || fail "$out"
echo change >>"$tree/src/ir/a.cpp"
out=$(run --only T5@64) || fail "$out"
out=$(bench --table rows.jsonl) || fail "$out"
[[ $(grep -c '^| work' <<<"$out") == 3 ]] || fail "three stamps: $out"
[[ $(grep -A 4 '^Other' <<<"$out" | grep -c '^| T') == 1 ]] || fail "stamps are mixed: $out"

before=$(wc -l <"$tree/rows.jsonl")
out=$(BROKEN=T6 run --only T6@16) && fail "a failure is none: $out"
[[ $out == *"| T6@16 | compile | torch 2.15.0 compile+cudagraph | FAILED: no device |"* ]] || fail "$out"
out=$(run --only K1@67108864) && fail "no figure of a peer is a failure: $out"
[[ $out == *"| K1@67108864 | compile | | FAILED: bench.py gave no result | | | | 1.0 | | |"* ]] || fail "$out"
out=$(ENDS=3 run --only T5@64) && fail "a bench.py that fails: $out"
[[ $out == *"| FAILED: bench.py ended with 1: no device: 3 |"* ]] || fail "$out"
[[ $(wc -l <"$tree/rows.jsonl") == "$before" ]] || fail "a failed row was appended"
echo '{"tree": 1}' >"$tree/bad.jsonl"
out=$(bench --table bad.jsonl) && fail "a broken file: $out"
[[ $out == *"bad.jsonl, line 1: expected a row"* ]] || fail "$out"

# The page has the table as it is printed.
grep -qF "| work | mode | best peer | its | ours | ratio | 90 % interval | bar | floor | of it |" "$source/docs/performance.md" ||
  fail "docs/performance.md has another head"
