#!/usr/bin/env bash
# setup_check.sh SOURCE: scripts/setup in a folder of its own, on a machine that has every package and whose pip writes
# down what it is told. Plugins are fetched once, a failure is not tried again within the hour.
set -uo pipefail
source=$1
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
mkdir "$home/scripts"
cp "$source/scripts/setup" "$source/scripts/plugins.txt" "$home/scripts"

# shellcheck disable=SC2016
tool dpkg-query 'shift 3; echo "packages $*" >>"$LOG"; for name; do echo "ii $name 1-1"; done'
for present in apt-get c++ cmake ninja; do tool $present ''; done
tool uname 'echo Linux x86_64'
# shellcheck disable=SC2016
tool python3 'echo "$*" >>"$LOG"
case "$*" in
  *--version) exit 0 ;;
  *" download "*) [[ ${LINE:-} == up ]] || { echo "ERROR: the line is down"; exit 1; }; touch .deps/wheels/one.whl ;;
  *" install "*) [[ -e .deps/wheels/one.whl ]] ;;
esac'

setup() {  # what it says; the log has only this run
  : >"$log"
  LOG=$log PATH=$home/bin:$PATH "$home/scripts/setup" </dev/null 2>&1
}
downloads() { grep -c ' download ' "$log"; }
plugins=$(grep -c == "$source/scripts/plugins.txt")

out=$(setup) || fail "no plugin is no failure: $out"
grep -q 'packages .*python3-pip' "$log" || fail "pip is not among the packages"
[[ $(downloads) == "$plugins" ]] || fail "not fetched"
grep ' download ' "$log" | grep -qv -- '--retries 1 --timeout 15' && fail "waits for long"
[[ $out == *"skipped libtpu (ERROR: the line is down): nothing is compiled for TPUs"* ]] || fail "$out"

out=$(setup)
[[ $(downloads) == 0 ]] || fail "tried again"
[[ $out == *"skipped libtpu (not tried again within an hour, SYSTOLE_SETUP_RETRY=1 does: ERROR: the line is down)"* ]] ||
  fail "$out"
SYSTOLE_SETUP_RETRY=1 setup >/dev/null
[[ $(downloads) == "$plugins" ]] || fail "not tried again when told to"
touch -d '61 minutes ago' "$home"/.deps/*.failed
setup >/dev/null
[[ $(downloads) == "$plugins" ]] || fail "not tried again after an hour"

touch -d '61 minutes ago' "$home"/.deps/*.failed
out=$(LINE=up setup)
[[ $out == *"libtpu installed in .deps"* ]] || fail "$out"
grep ' install ' "$log" | grep -qv -- '--no-index --find-links .deps/wheels' && fail "fetched twice"
[[ ! -e $home/.deps/wheels && ! -e $home/.deps/libtpu.failed ]] || fail "something was left"
LINE=up setup >/dev/null
[[ $(grep -c pip "$log") == 1 ]] || fail "installed again" # the line of packages
