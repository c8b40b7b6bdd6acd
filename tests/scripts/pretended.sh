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
# peers DIR: a bench.py there that writes down its arguments and, of the file $RESULTS, gives the lines of the workload
# and the mode that it is asked for. With $ENDS it fails, and with $ABSENT that framework does.
peers() {
  mkdir -p "$1"
  cat >"$1/bench.py" <<'PYTHON'
import json, os, sys
given = sys.argv[1:]
option = lambda name: given[given.index(name) + 1]
with open(os.environ["LOG"], "a") as log:
    print("bench.py", *given, file=log)
print("# torch 2.15.0 on a card")
with open(os.environ["RESULTS"]) as results:
    lines = [line for line in results if json.loads(line)["workload"] == option("--only")]
if "--modes" in given:
    lines = [line for line in lines if json.loads(line)["mode"] == option("--modes")]
if lines:
    with open(option("--out"), "a") as out:
        out.writelines(lines)
if "ABSENT" in os.environ:
    with open(option("--log"), "a") as log:
        print(f"Traceback\nModuleNotFoundError: No module named '{os.environ['ABSENT']}'\nTraceback", file=log)
    print(f"# {os.environ['ABSENT']} worker ended with 1 in task None; see {option('--log')}")
if os.environ.get("ENDS", "0") != "0":
    sys.exit("no device: " + os.environ["ENDS"])
PYTHON
}
# One line of $RESULTS.
result() {  # workload, batch, dtype, framework, mode, metric, value, more of extra
  printf '{"workload": "%s", "batch": %s, "dtype": "%s", "framework": "%s", "mode": "%s", "metric": "%s", "value": %s' "${@:1:7}"
  printf ', "extra": {"version": "2.15.0+cu130"%s}}\n' "${8:+, $8}"
}
