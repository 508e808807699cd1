#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--quick] [--minutes N] [--only NAME[,NAME...]]... [FOLDER]: checks and measures lockstep on this machine's GPU,
# in a folder that kit.sh has made. Prints all output. Needs neither root nor network.
# run.sh --list: prints the names of the steps.
#
#   --quick      small sizes and few repetitions
#   --minutes N  end after about N minutes (default: 30): the last step gets the remaining time, and further steps are
#                skipped. Neither counts as failed.
#   --only NAME  run only this step, or the steps whose names begin with NAME
#   FOLDER       folder of the results (default: the current one)
#
# FOLDER/report.json has all figures and the result of each step, and is complete after each step. FOLDER/report.tar.gz
# has the output of each step, and its figures in separate files. These files are in FOLDER/report.files until the
# archive is complete; a run that is interrupted leaves them there.
#
# Exit code: 0 if no step failed, 1 if one failed, 2 for invalid arguments. On a machine without a GPU it prints "no GPU"
# and runs the steps that do not need one.

set -fu
here=$(cd "$(dirname "$0")" && pwd)

# refuse TEXT...: ends the script because of invalid arguments
refuse() {
  echo "run.sh: $*" >&2
  exit 2
}

quick='' minutes=30 only='' out='' lists=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=--quick ;;
    --list) lists=yes ;;
    --minutes)
      minutes=${2:-}
      case $minutes in '' | . | *[!0-9.]* | *.*.*) refuse "--minutes \"$minutes\": give a number of minutes" ;; esac
      shift
      ;;
    --only)
      case $(echo "${2:-}" | tr -d ', ') in '' | -*) refuse "--only \"${2:-}\": give the name of a step; --list prints them" ;; esac
      only="$only $(echo "$2" | tr ',' ' ')"
      shift
      ;;
    -*) refuse "\"$1\": unknown option; the first lines of run.sh describe the options" ;;
    *)
      [ -z "$out" ] || refuse "\"$1\": give only one folder"
      out=$1
      ;;
  esac
  shift
done

# all_steps: calls `step` for each step, in their order. `lacking` says what this machine lacks for the next steps.
all_steps() {
  lacking=
  step tables 120 unit-bindings --gtest_output=json:"$files/tables.json"

  lacking=$no_gpu
  # shellcheck disable=SC2086
  step kernel-rates 420 kernel-rates $quick "$files/kernel-rates.json"
  step gpu-tests 300 gpu-tests --gtest_output=json:"$files/gpu-tests.json"
  calls='-n 20 -w 5' sizes='-b 4K -e 64M -f 4' large='-b 256M -e 256M'
  [ -n "$quick" ] && calls='-n 3 -w 1' sizes='-b 4K -e 1M -f 16' large='-b 4M -e 4M'
  # shellcheck disable=SC2086
  {
    for replicas in 1 2 4 8; do
      perf canonical-$replicas 1 --memory cuda --order canonical --replicas-per-rank $replicas $sizes $calls
    done
    perf large 1 --memory cuda --order canonical --replicas-per-rank 4 $large -n 3 -w 1
    perf types 1 --memory cuda --order canonical --replicas-per-rank 3 -b 100000 -e 100000 -d all -o all -n 2 -w 1
    perf collectives 1 --memory cuda --replicas-per-rank 3 --collective all -b 64K -e 64K -n 3 -w 1
    perf list 1 --memory cuda --order canonical --replicas-per-rank 4 --list resnet50 -n 5 -w 2
    perf ranks-on-one-gpu 2 --memory cuda --order canonical --replicas-per-rank 2 -b 4K -e 1M -f 16 -n 5 -w 2
    lacking=${no_gpu:-$no_nccl}
    perf beside-nccl 1 --memory cuda --compare nccl $sizes $calls
  }

  lacking=
  perf hosts 2 --memory arena --compare mpi -b 64 -e 1M -f 16 -n 10 -w 2
  [ -x "$here/bin/lockstep-train" ] || return
  step train-cpu 120 mpirun -n 2 lockstep-train --data synthetic --steps 20 --json "$files/train-cpu.json"
  lacking=$no_gpu
  # the same bits as on CPUs
  # shellcheck disable=SC2016
  step train-gpu 240 sh -c 'export LOCKSTEP_ORDER=canonical LOCKSTEP_TRAIN_DATA=synthetic LOCKSTEP_TRAIN_STEPS=20
    mpirun -n 2 lockstep-train --json "$1" &&
    mpirun -n 2 lockstep-train --device gpu --arithmetic cpu --json "$2" &&
    grep -q -F "$(grep "\"parameters\"" "$1")" "$2"' sh "$files/train-gpu-expected.json" "$files/train-gpu.json"
  # If there is cuBLAS, the report says "arithmetic": "gpu". The bits are those of cuBLAS, the same on one rank and on two.
  # shellcheck disable=SC2016
  step train-cublas 240 sh -c 'export LOCKSTEP_ORDER=canonical LOCKSTEP_TRAIN_DEVICE=gpu LOCKSTEP_TRAIN_DATA=synthetic
    mpirun -n 2 lockstep-train --steps 20 --json "$1" &&
    mpirun -n 1 lockstep-train --steps 20 --replicas-per-rank 2 --json "$2" &&
    grep -q -F "$(grep "\"parameters\"" "$1")" "$2" &&
    { [ "$3" = no ] || grep -q "\"arithmetic\": \"gpu\"" "$1"; }' sh "$files/train-cublas.json" \
    "$files/train-cublas-alone.json" "$has_cublas"
}

# perf NAME RANKS ARGUMENT...: a step that runs lockstep-perf, whose rows are added to the report
perf() {
  name=perf-$1 ranks=$2
  shift 2
  step "$name" 120 mpirun -n "$ranks" lockstep-perf --json "$files/$name.json" "$@"
}

# The first call of all_steps collects the names.
names='' files='' no_gpu='' no_nccl='' has_cublas=''
step() { names="$names $1"; }
all_steps
names=${names# }
# shellcheck disable=SC2086
[ -z "$lists" ] || { printf '%s\n' $names; exit 0; }

# steps_of NAME: the step of this name, otherwise the steps whose names begin with it
steps_of() {
  case " $names " in *" $1 "*) echo "$1"; return ;; esac
  for name in $names; do case $name in "$1"*) echo "$name" ;; esac; done
}
selected=$names
if [ -n "$only" ]; then
  selected=
  for wanted in $only; do
    found=$(steps_of "$wanted" | tr '\n' ' ')
    [ -n "$found" ] || refuse "--only \"$wanted\": there is no such step; the steps are: $names"
    selected="$selected $found"
  done
fi

started=$(date +%s)
budget=$(awk "BEGIN { printf \"%d\", $minutes * 60 }")
out=${out:-.}
if ! { mkdir -p "$out" && out=$(cd "$out" && pwd) && files=$out/report.files && rm -rf "$files" && mkdir "$files" &&
  rm -f "$out/report.json" "$out/report.tar.gz"; }; then
  refuse "cannot write to \"$out\""
fi

# Everything comes from the kit, wherever it is, except the machine's own libraries for its GPU.
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PATH="$here/bin:$PATH:/usr/sbin:/sbin"
if ldd "$here/bin/gpu-tests" 2>&1 | grep -q 'not found'; then
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$here/lib/compiler  # the machine's C++ library is too old or missing
fi
export OPAL_PREFIX="$here" OPAL_BINDIR="$here/bin" OPAL_LIBDIR="$here/lib" OPAL_PKGLIBDIR="$here/lib/openmpi"
export OPAL_DATADIR="$here/share" OPAL_PKGDATADIR="$here/share/openmpi" OPAL_SYSCONFDIR="$here/etc/openmpi"
export PMIX_INSTALL_PREFIX="$here" PMIX_LIBDIR="$here/lib" PMIX_PKGLIBDIR="$here/lib/pmix"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export LOCKSTEP_TIMEOUT="${LOCKSTEP_TIMEOUT:-20,60}"

# NCCL and cuBLAS are the machine's own: in the loader's path, or among Python's packages.
loader_finds() {
  ldconfig -p 2>/dev/null | grep -q -F "$1" && return
  for folder in $(echo "$LD_LIBRARY_PATH" | tr ':' ' '); do [ -e "$folder/$1" ] && return; done
  return 1
}
if [ -z "${LOCKSTEP_NCCL:-}" ] && ! loader_finds libnccl.so.2; then
  nccl=$(find /usr /opt -name libnccl.so.2 2>/dev/null | head -n 1)
  [ -n "$nccl" ] && export LOCKSTEP_NCCL="$nccl"
fi
has_cublas=yes
if ! loader_finds libcublas.so.13 && ! loader_finds libcublas.so.12; then
  cublas=$(find /usr /opt -name 'libcublas.so.1[23]' 2>/dev/null | head -n 1)
  if [ -n "$cublas" ]; then LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(dirname "$cublas"); else has_cublas=no; fi  # libcublasLt is beside it
fi

# What the machine lacks. If the program fails, the steps for GPUs run, and fail too.
status=$(timeout -k 10 60 kernel-rates --status 2>&1)
[ $? -eq 77 ] && no_gpu='no GPU'
case $status in *'no NCCL'*) no_nccl='no NCCL' ;; esac
smi=$(timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv,noheader 2>/dev/null) || smi=
cat "$here/versions"
echo "GPU: ${smi:-nvidia-smi finds none}; lockstep: $status; NCCL: ${LOCKSTEP_NCCL:-found by the loader}"

quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n\t' '  ')"; }
# whole FILE: its JSON, or null
whole() { if [ -s "$1" ]; then cat "$1"; else printf null; fi; }

failed=0 incomplete=0 results='' perfs=''

# step NAME SECONDS COMMAND...: runs it with that time limit, or with the time that is left; exit code 77 means that the
# step is skipped
step() {
  name=$1 most=$2
  shift 2
  case " $selected " in *" $name "*) ;; *) return ;; esac
  echo
  start=$(date +%s)
  left=$((budget - (start - started)))
  code=null
  if [ -n "$lacking" ]; then
    result="skipped: $lacking"
  elif [ "$left" -le 0 ]; then
    result='skipped: no time left' incomplete=$((incomplete + 1))
  else
    run_step "$@"
  fi
  echo "== $name: $result"
  results="$results${results:+,
  }{\"name\": $(quoted "$name"), \"code\": $code, \"seconds\": $(($(date +%s) - start)), \"result\": $(quoted "$result")}"
  case $name in perf-*) perfs="$perfs $name" ;; esac
  write_report
}

# run_step COMMAND...: sets `code` and `result`
run_step() {
  echo "== $name: $*"
  limit=$most
  [ "$left" -lt "$most" ] && limit=$left
  { timeout -k 10 "$limit" "$@" 2>&1; echo $? >"$files/code"; } </dev/null | tee "$files/$name.txt"
  code=$(cat "$files/code")
  rm -f "$files/code"
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    *) result=failed ;;
  esac
  [ $result = failed ] || return
  # 124: timeout ended the step; 137: it killed the step, or something else did, such as the system for its memory
  if [ "$code" = 124 ] || { [ "$code" = 137 ] && [ $(($(date +%s) - start)) -ge "$limit" ]; }; then
    result="failed after $limit s"
    if [ "$limit" -lt "$most" ]; then
      result="stopped after $limit s: no time left" incomplete=$((incomplete + 1))
      return
    fi
  fi
  failed=$((failed + 1))
}

write_report() {
  {
    printf '{"versions": %s,\n "kernel": %s,\n' "$(quoted "$(cat "$here/versions")")" "$(quoted "$(uname -sr)")"
    printf ' "gpu": %s,\n "gpu_status": %s,\n "nccl": %s,\n' "$(quoted "$smi")" "$(quoted "$status")" "$(quoted "${LOCKSTEP_NCCL:-}")"
    printf ' "budget_s": %d,\n "seconds": %d,\n "failed": %d,\n "incomplete": %d,\n' "$budget" \
      $(($(date +%s) - started)) "$failed" "$incomplete"
    printf ' "steps": [\n  %s],\n' "$results"
    for name in tables gpu-tests kernel-rates train-cpu train-gpu train-cublas; do
      printf ' "%s": ' "$(echo "$name" | tr '-' '_')"
      whole "$files/$name.json"
      echo ,
    done
    printf ' "perf": {'
    comma=
    for name in $perfs; do
      printf '%s\n  %s: ' "$comma" "$(quoted "$name")"
      whole "$files/$name.json"
      comma=,
    done
    printf '}}\n'
  } >"$files/report.json" && mv "$files/report.json" "$out/report.json"
}

all_steps

echo
archive=$out/report.tar.gz
if tar -czf "$archive" -C "$out" report.files; then
  rm -rf "$files"
else
  rm -f "$archive"
  archive=$files
fi
echo "report: $out/report.json, $archive; $failed of the steps failed, $incomplete had no time left"
[ "$failed" -eq 0 ]
