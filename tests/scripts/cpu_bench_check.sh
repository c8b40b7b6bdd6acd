#!/usr/bin/env bash
# cpu_bench_check.sh SOURCE: scripts/cpu-bench with a bench.py that gives what a file says and a program that says what
# `systole bench --pairs` says. The best mode of a peer here is the one that is held ready; a name that matches nothing,
# or a peer without a figure, is no success.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
tree=$home/tree
mkdir -p "$tree/scripts"
cp "$source"/scripts/{cpu-bench,peer-modes,check-names} "$tree/scripts"
peers "$tree/peers"
# shellcheck disable=SC2016
tool a_systole 'echo "systole $*" >>"$LOG"
case "$*" in
  *--roofline*) echo "{\"roof\":{\"GB/s\":50.0,\"TFLOP/s\":0.2,\"ridge\":4}}" ;;
  *"$BROKEN"*) echo "no device" >&2; exit 1 ;;
  *"bench I1 "*) echo "{\"value\":3.2,\"extra\":{\"low\":3.1,\"high\":3.3,\"pairs\":9,\"ms\":0.0025,\"peer_ms\":0.008,\"peer\":\"ort\",\"peer_version\":\"1.31.0\",\"foreign_cpu_pct\":0.4}}" ;;
  *) echo "{\"value\":2.617,\"extra\":{\"low\":2.6,\"high\":2.7,\"pairs\":9,\"samples_per_s\":11860.0,\"peer_samples_per_s\":4534.0,\"peer\":\"torch\",\"peer_mode\":\"eager\",\"peer_version\":\"2.15.0+cu130\",\"foreign_cpu_pct\":${LOAD:-0.4}}}" ;;
esac'
results=$home/results
bench() {  # what it says; the log has only this run
  : >"$log"
  (cd "$tree" && LOG=$log RESULTS=$results ENDS=${ENDS:-0} BROKEN=${BROKEN:-none} PYTHONPATH=$home/site \
    scripts/cpu-bench --peers peers --systole "$home/bin/a_systole" "$@" 2>&1)
}
held() { grep -qF -- "--hold $1" "$log" || fail "not held: $1"; }

# A name that matches nothing, before anything is measured.
: >"$results"
out=$(bench --only K3); status=$?
[[ $status == 2 && $out == "cpu-bench: no K3 in the list; did you mean K3@67108864? There are T1@64, "* ]] || fail "$status: $out"
out=$(bench --only T1@64,T2); status=$?
[[ $status == 2 && $out == *"no T2 in the list; did you mean T2@64?"* ]] || fail "one bad name of two: $status: $out"
out=$(bench --only ,); status=$?
[[ $status == 2 && $out == *"no '' in the list. There are"* ]] || fail "no name at all: $status: $out"
[[ ! -s $log ]] || fail "measured before the names were looked at"

# The fastest mode of any framework: samples take the most, milliseconds the least; what is no equal work never wins.
{
  result T2 64 fp32 torch compile samples_per_s 2424
  result T2 64 fp32 torch eager samples_per_s 4534
  result T2 64 fp32 jax jit+reshape-pool samples_per_s 3987
  result T2 64 fp32 jax jit+scan samples_per_s 9000
  result T2 64 fp32 torch max-autotune error null '"error": "skipped: out of budget"'
  result T2 512 fp32 torch compile samples_per_s 90000
  result I1 1 fp32 torch eager ms 0.05
  result I1 1 fp32 ort fp32 ms 0.018
  result I1 1 int8 ort int8 ms 0.002
  result I1 64 fp32 ort fp32 ms 0.001
} >"$results"
out=$(bench --only T2@64,I1@1) || fail "$out"
held T2@64:eager
held I1@1:fp32
grep -F -- "--hold I1@1:fp32" "$log" | grep -qF -- "--frameworks ort" || fail "another framework's"
[[ $out == *"| work | batch | best peer | its | ours | ratio | 90 % interval | bar | floor |"* ]] || fail "$out"
# 64 samples of 1647e6 operations at 0.2e12 a second: 64 / 8.235 ms
[[ $out == *"| T2 | 64 | torch 2.15.0 eager | 4,534 | 11,860/s | 2.617 | 2.6–2.7 | 1.3 | 7,772 |"* ]] || fail "$out"
[[ $out == *"| I1 | 1 | ort 1.31.0 fp32 | 0.008 | 0.0025 ms | 3.2 | 3.1–3.3 | 3 | "* ]] || fail "$out"
[[ $out == *"T2@64: torch eager 4534, jax jit+reshape-pool 3987, torch compile 2424 samples_per_s"* ]] || fail "$out"
[[ $out == *"T2@64: nothing of torch max-autotune: skipped: out of budget"* ]] || fail "what was left out is not told: $out"
[[ $(grep -c '^bench.py' "$log") == 2 ]] || fail "modes were timed twice"
head -1 "$log" | grep -q '^bench.py' || fail "the modes are not first"
out=$(LOAD=12.3 bench --only T2@64) || fail "$out"
[[ $out == *"| 2.6–2.7, other load 12 % |"* ]] || fail "other load is not told: $out"

# A peer that is not installed is named beneath the table, since the best is then of the others.
result T2 64 fp32 jax jit samples_per_s 3987 >"$results"
out=$(ABSENT=torch bench --only T2@64) || fail "$out"
[[ $out == *"best is of the others:"*"- T2 without torch: torch worker ended with 1 in task None: ModuleNotFoundError: No module named 'torch'"* ]] ||
  fail "$out"
[[ $out == *"/tmp/"* ]] && fail "a log is named that is gone: $out"

# --quick leaves out a mode of T4, and I2 has its batch of 16 with it alone: held as it was timed.
{
  result T4 8 fp32 torch compile samples_per_s 6
  result I2 16 fp32 ort fp32 samples_per_s 26
} >"$results"
out=$(bench --only T4@8,I2@16) || fail "$out"
asked=$(grep -o 'bench[.]py .*' "$log")
[[ $(grep -c -E -- '--(only|hold) T4' <<<"$asked") == 2 ]] || fail "T4 is not timed and held"
grep -E -- '--(only|hold) T4' <<<"$asked" | grep -q -- --quick && fail "T4 has no compile with --quick"
[[ $(grep -E -- '--(only|hold) I2' <<<"$asked" | grep -c -- --quick) == 2 ]] || fail "I2@16 is with --quick alone"

# Timings that are kept: taken again, and never of other versions.
mkdir -p "$home/site/torch-2.15.0.dist-info"
printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n' >"$home/site/torch-2.15.0.dist-info/METADATA"
result T2 64 fp32 torch eager samples_per_s 4534 >"$results"
result T3 128 fp32 torch eager samples_per_s 1800 >>"$results"
out=$(bench --only T2@64 --modes modes.jsonl) || fail "$out"
out=$(bench --only T2@64,T3@128 --modes modes.jsonl) || fail "$out"
[[ $(grep -c '^bench.py' "$log") == 1 && $(wc -l <"$tree/modes.jsonl") == 2 ]] || fail "T2 was timed again"
held T2@64:eager
mv "$home/site/torch-2.15.0.dist-info" "$home/site/torch-2.16.0.dist-info"
sed -i s/2.15.0/2.16.0/ "$home/site/torch-2.16.0.dist-info/METADATA"
out=$(bench --only T2@64 --modes modes.jsonl); status=$?
[[ $status == 2 && $out == *"modes.jsonl was timed on "*"torch 2.15.0; this is "*"torch 2.16.0: "* ]] || fail "$status: $out"
grep -q 'systole' "$log" && fail "measured with modes of another version"
echo '{"stamp": 1}' >"$tree/bad.jsonl"
out=$(bench --only T2@64 --modes bad.jsonl); status=$?
[[ $status == 2 && $out == *"bad.jsonl, line 1: expected"* ]] || fail "$status: $out"

# No figure, a bench.py that fails, a pair that fails.
out=$(bench --only T5@32) && fail "no result is no success: $out"
[[ $out == *"| T5 | 32 | | FAILED: bench.py gave no result | | | | 1.5 | |"* ]] || fail "$out"
result T2 64 int8 ort int8 samples_per_s 9999 >"$results"
out=$(bench --only T2@64) && fail "int8 is no equal work: $out"
[[ $out == *"| T2 | 64 | | FAILED: no mode of a peer gave a figure in fp32 | | | | 1.3 | |"* ]] || fail "$out"
result T2 64 fp32 torch eager samples_per_s 4534 >"$results"
out=$(ENDS=3 bench --only T2@64) && fail "a bench.py that fails is no success: $out"
[[ $out == *"FAILED: bench.py ended with 1: no device: 3"* ]] || fail "$out"
out=$(BROKEN=--pairs bench --only T2@64) && fail "a pair that fails is no success: $out"
[[ $out == *"| T2 | 64 | torch 2.15.0 eager | FAILED: no device | | | | 1.3 | |"* ]] || fail "$out"

# The page has the table as it is printed.
grep -qF "| work | batch | best peer | its | ours | ratio | 90 % interval | bar | floor |" "$source/docs/performance.md" ||
  fail "docs/performance.md has another head"
