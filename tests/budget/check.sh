#!/bin/sh
# check.sh PROBE LIMIT record | PROBE LIMIT evaluate: instructions as callgrind counts them, against a limit. Recording
# is counted per op; evaluation from eval() to the moment the first kernel is entered.
set -eu
probe=$1 limit=$2 mode=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no --callgrind-out-file="$dir/out" \
  --dump-before='systole::eval::elementwise(*' "$probe" "$mode" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
case $mode in
record) count=$(sed -n 's/^totals: *\([0-9]*\).*/\1/p' "$dir/out" | awk '{n += $1} END {printf "%d", n / 60}') ;;
evaluate) count=$(sed -n 's/^totals: *\([0-9]*\).*/\1/p' "$dir/out.1") ;;
esac
echo "$mode: $count instructions, at most $limit"
[ "$count" -gt 0 ] && [ "$count" -le "$limit" ]
