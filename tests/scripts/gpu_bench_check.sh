#!/usr/bin/env bash
# gpu_bench_check.sh SOURCE: scripts/gpu-bench with a program that says what `systole bench --pairs` says. Rows are
# appended with a stamp, --table never mixes two stamps, and a row that failed is in the exit status and not in the file.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
tree=$home/tree
mkdir -p "$tree/scripts" "$tree/src/ir" "$tree/peers"
cp "$source/scripts/gpu-check" "$source/scripts/gpu-bench" "$tree/scripts"
touch "$tree/CMakeLists.txt" "$tree/src/ir/a.cpp" "$tree/peers/bench.py"
# shellcheck disable=SC2016
tool a_systole 'echo "systole $*" >>"$LOG"
[[ $2 == "$BROKEN" ]] && { echo "no device"; exit 1; }
case $1 in
  bench) echo "{\"value\":${RATIO:-1.5},\"extra\":{\"low\":1.25,\"high\":1.75,\"samples_per_s\":3000,\"peer_samples_per_s\":2000}}" ;;
  profile) echo "{\"steps\":2,\"rows\":[{\"least_seconds\":0.001,\"calls\":2}]}" ;;
esac'
# shellcheck disable=SC2016
tool nvidia-smi 'if [[ $* == *driver* ]]; then echo 580.1; else echo "${CARD:-Card}"; fi'
bench() {
  (cd "$tree" && LOG=$log BROKEN=${BROKEN:-none} PATH=$home/bin:$PATH scripts/gpu-bench "$@" 2>&1)
}
run() { bench --peers peers --systole "$home/bin/a_systole" --commit 0123abc --append rows.jsonl "$@"; }

out=$(run --only T4@256,I3@1) || fail "$out"
[[ $out == *"| T4@256, bf16 | compile | torch compile+cudagraph | 128,000.0 µs | 85,333.3 µs | 1.500 | 1.250–1.750 | 1.08 | 1000.00 µs | 1 % |"* ]] ||
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
[[ $out == *"| T6@16 | compile | torch compile+cudagraph | FAILED:"* ]] || fail "$out"
[[ $(wc -l <"$tree/rows.jsonl") == "$before" ]] || fail "a failed row was appended"
echo '{"tree": 1}' >"$tree/bad.jsonl"
out=$(bench --table bad.jsonl) && fail "a broken file: $out"
[[ $out == *"bad.jsonl, line 1: expected a row"* ]] || fail "$out"
