#!/usr/bin/env bash
# check_check.sh SOURCE: scripts/check fails on a recorded result of the card that failed or is not there, and takes one of
# an older tree.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
mkdir "$home/scripts"
cp "$source/scripts/check" "$home/scripts"
for part in setup lint; do
  tool $part ''
  mv "$home/bin/$part" "$home/scripts"
done
# shellcheck disable=SC2016
tool gpu-check '[[ $1 == --verify ]] || exit 9; exit "$VERIFIED"'
mv "$home/bin/gpu-check" "$home/scripts"
while read -r verified expected words; do
  out=$(VERIFIED=$verified "$home/scripts/check" layout 2>&1)
  status=$?
  [[ $status == "$expected" && $out == *"check: docs/gpu-check.md: $words"* ]] ||
    fail "gpu-check --verify exits with $verified: $status, $out"
done <<'EXITS'
0 0 passed in
3 0 passed in
1 1 FAILED
EXITS
