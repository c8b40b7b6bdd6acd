#!/usr/bin/env bash
# cloud_tpu_check.sh SOURCE PART: scripts/cloud-tpu with a gcloud, sudo and docker that only write down what they are
# told. The gcloud "copies" to and "logs in" on this machine, in a home folder of its own.
set -uo pipefail
source=$1 part=$2
script=$source/scripts/cloud-tpu
# shellcheck source=pretended.sh
. "$(dirname "$0")/pretended.sh"
# shellcheck disable=SC2016
tool gcloud 'echo "gcloud $*" | head -1 >>"$HOME/log"
case $4 in
  scp) cp "$5" "$HOME/systole.tar.gz" ;;
  ssh) for word; do [[ $word != --command=* ]] || { cd "$HOME" && bash -c "${word#--command=}"; exit; }; done ;;
esac'
# shellcheck disable=SC2016
tool sudo 'exec "$@"'
# shellcheck disable=SC2016
tool docker 'echo "docker $1" >>"$HOME/log"
case $1 in
  restart) exit 1 ;;
  run) echo "$*" >>"$HOME/log" ;;
  exec) bash -n -c "$5" && [[ -x tree/scripts/setup && ! -e tree/.git ]] && echo "$5" >>"$HOME/log"; exit "${RESULT:-0}" ;;
esac'

run() { HOME=$home PATH=$home/bin:$PATH "$script" "$@" </dev/null; }
says() { [[ $1 == *"$2"* ]] || fail "expected '$2' in: $1"; }
logged() { grep -qF -- "$1" "$log" || fail "not done: $1"; }
need_git() {
  git -C "$source" rev-parse HEAD >/dev/null 2>&1 || { echo "not a git checkout"; exit 77; }
}

case $part in
  commands)  # printed with --dry-run, and nothing done
    at="--zone=us-west4-a"
    while read -r type version; do
      want="gcloud compute tpus tpu-vm create my-tpu --accelerator-type=$type --version=$version $at"
      [[ $(run create my-tpu --zone us-west4-a --type "$type" --dry-run) == "$want" ]] || fail "$type"
    done <<<'v2-8 tpu-ubuntu2204-base
v3-8 tpu-ubuntu2204-base
v4-8 tpu-ubuntu2204-base
v5litepod-4 v2-alpha-tpuv5-lite
v5p-8 v2-alpha-tpuv5
v6e-1 v2-alpha-tpuv6e'
    says "$(run create my-tpu --zone us-west4-a --type v6e-4 --version own --spot --project p --dry-run)" \
      "--accelerator-type=v6e-4 --version=own --spot --zone=us-west4-a --project=p"
    [[ $(run delete my-tpu --zone us-west4-a --dry-run) == "gcloud compute tpus tpu-vm describe my-tpu '--format=value(state)' $at
gcloud compute tpus tpu-vm delete my-tpu --quiet $at" ]] || fail delete
    [[ $(run status --zone us-west4-a --dry-run) == "gcloud compute tpus tpu-vm list $at" ]] || fail list
    says "$(run status my-tpu --zone us-west4-a --dry-run)" "gcloud compute tpus tpu-vm describe my-tpu"
    out=$(run run my-tpu --zone us-west4-a --delete-after --dry-run -- echo "it's me" 2>/dev/null)
    says "$out" "git archive --format=tar.gz --output="
    says "$out" "systole.tar.gz my-tpu:systole.tar.gz --worker=all $at"
    says "$out" "gcloud compute tpus tpu-vm ssh my-tpu --worker=all"
    says "$out" "cmake --build --preset release"
    [[ ${out##*$'\n'} == "gcloud compute tpus tpu-vm delete my-tpu --quiet $at" ]] || fail "the VM stays: $out"
    # What is printed is what a shell would take.
    bash -n -c "$out" || fail "not a script: $out"
    [[ ! -s $log ]] || fail "a dry run did something"
    ;;
  refusals)
    refused() {  # words of the message, arguments
      local words=$1 out
      shift
      out=$(run "$@" 2>&1) && fail "accepted: $*"
      says "$out" "$words"
    }
    refused "is not create, run, status or delete" destroy my-tpu --zone us-west4-a
    refused "needs the name" create --zone us-west4-a --type v6e-4
    refused "not a name" create 'My_TPU;ls' --zone us-west4-a --type v6e-4
    refused "needs --zone" delete my-tpu
    refused "not a zone" delete my-tpu --zone us-west4
    refused "needs --type" create my-tpu --zone us-west4-a
    refused "give --version" create my-tpu --zone us-west4-a --type v99-4
    refused "unknown argument" run my-tpu --zone us-west4-a --native
    refused "unknown argument" create my-tpu --zone us-west4-a --type v6e-4 --sport
    refused "needs a value" create my-tpu --zone
    refused "are for create" delete my-tpu --zone us-west4-a --spot
    refused "are for run" delete my-tpu --zone us-west4-a --delete-after
    refused "nobody is there to answer" delete my-tpu --zone us-west4-a
    mkdir "$home/few"
    for needed in bash dirname sed env; do ln -s "$(command -v $needed)" "$home/few/"; done
    out=$(PATH=$home/few "$script" status --zone us-west4-a 2>&1) && fail "worked without gcloud"
    says "$out" "gcloud is not installed"
    says "$("$script" --help)" "scripts/cloud-tpu create NAME"
    [[ ! -s $log ]] || fail "a refusal did something"
    ;;
  run)  # the tree goes over and is built in a container
    need_git
    out=$(run run my-tpu --zone us-west4-a -- build/examples/digits_by_hand --out 'a b' 2>&1) || fail "$out"
    logged "gcloud compute tpus tpu-vm scp"
    logged "docker run"
    logged "--privileged --network host"
    logged "build/examples/digits_by_hand --out 'a b'"
    says "$out" "costs money until: scripts/cloud-tpu delete my-tpu --zone us-west4-a"
    mkdir "$home/systole/tree/.deps" && touch "$home/systole/tree/old"
    run run my-tpu --zone us-west4-a >/dev/null 2>&1 || fail "a second run"
    logged "build/systole devices && build/examples/tpu_connect"
    [[ -d $home/systole/tree/.deps && ! -e $home/systole/tree/old ]] || fail "the wrong things stayed"
    if RESULT=7 run run my-tpu --zone us-west4-a >/dev/null 2>&1; then fail "a failure passed"; fi
    ;;
  delete)
    run delete my-tpu --zone us-west4-a --yes >/dev/null 2>&1 || fail "not deleted"
    logged "gcloud compute tpus tpu-vm delete my-tpu --quiet"
    : >"$log"
    # shellcheck disable=SC2016
    tool gcloud 'echo "gcloud $*" >>"$HOME/log"
echo "ERROR: (gcloud.compute.tpus.tpu-vm.$4) NOT_FOUND: Resource my-tpu was not found" >&2; exit 1'
    out=$(run delete my-tpu --zone us-west4-a --yes 2>&1) && fail "a VM that is not there was deleted"
    says "$out" "there is none: no my-tpu in us-west4-a"
    [[ $out != *"COULD NOT"* ]] || fail "$out"
    ! grep -q 'tpu-vm delete' "$log" || fail "deleted what is not there"
    # A question without an answer is no reason to keep a VM.
    # shellcheck disable=SC2016
    tool gcloud 'echo "gcloud $*" >>"$HOME/log"; [[ $4 == delete ]]'
    run delete my-tpu --zone us-west4-a --yes >/dev/null 2>&1 || fail "not deleted"
    logged "gcloud compute tpus tpu-vm delete my-tpu --quiet"
    ;;
  delete_after)  # whether the command works or not
    need_git
    run run my-tpu --zone us-west4-a --delete-after >/dev/null 2>&1 || fail "the run failed"
    [[ $(grep -c 'tpu-vm delete my-tpu --quiet' "$log") == 1 ]] || fail "not deleted once"
    RESULT=7 run run my-tpu --zone us-west4-a --delete-after >/dev/null 2>&1
    [[ $? == 7 ]] || fail "the exit code is lost"
    [[ $(grep -c 'tpu-vm delete my-tpu --quiet' "$log") == 2 ]] || fail "not deleted after a failure"
    # shellcheck disable=SC2016
    tool gcloud 'echo "gcloud $*" | head -1 >>"$HOME/log"; [[ $4 != delete ]]'
    out=$(run run my-tpu --zone us-west4-a --delete-after 2>&1) && fail "a VM that stays is a failure"
    says "$out" "COULD NOT BE DELETED"
    ;;
  interrupted)
    need_git
    # shellcheck disable=SC2016
    tool gcloud 'echo "gcloud $*" | head -1 >>"$HOME/log"; [[ $4 != ssh ]] || sleep 2'
    HOME=$home PATH=$home/bin:$PATH "$script" run my-tpu --zone us-west4-a --delete-after >/dev/null 2>&1 &
    for _ in {1..100}; do grep -q 'tpu-vm ssh' "$log" && break; sleep 0.1; done
    kill -TERM $!
    wait $!
    [[ $? == 143 ]] || fail "the exit code is lost"
    logged "gcloud compute tpus tpu-vm delete my-tpu --quiet"
    ;;
  *) fail "no part $part" ;;
esac
