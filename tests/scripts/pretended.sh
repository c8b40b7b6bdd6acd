# shellcheck shell=bash
# Sourced by the checks here: a home folder of its own, with tools that pretend and a log of what they were told.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/bin"
log=$home/log
: >"$log"

fail() {
  echo "FAILED: $*"
  echo "-- log:"
  cat "$log"
  exit 1
}
tool() {  # a name and its body
  printf '#!/bin/bash\n%s\n' "$2" >"$home/bin/$1"
  chmod +x "$home/bin/$1"
}
