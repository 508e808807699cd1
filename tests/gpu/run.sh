#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--quick] [FOLDER]: checks and measures lockstep on this machine's GPU, in a folder that kit.sh has made.
# Prints all output, and writes it to FOLDER (default: this one): report.json with all figures, and a text file for each
# step. Needs neither root nor network. Exit code: 0 if no step failed. On a machine without a GPU it prints "no GPU"
# and runs the steps that do not need one.

set -u
here=$(cd "$(dirname "$0")" && pwd)
quick=
[ "${1:-}" = --quick ] && { quick=--quick; shift; }
out=${1:-.}
if ! { mkdir -p "$out" && out=$(cd "$out" && pwd) && : >"$out/steps.json"; }; then
  echo "run.sh: cannot write to \"$out\"" >&2
  exit 2
fi

# results of an earlier run
rm -f "$out"/perf-*.json "$out/tables.json" "$out/gpu-tests.json" "$out/kernel-rates.json" "$out"/train*.json

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

quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr '\n\t' '  ')"; }
# whole FILE: its JSON, or null
whole() { if [ -s "$1" ]; then cat "$1"; else printf null; fi; }
failed=0

# step NAME SECONDS COMMAND...: runs it with that time limit; exit code 77 means that the step is skipped
step() {
  name=$1 most=$2
  shift 2
  echo
  echo "== $name: $*"
  start=$(date +%s)
  { timeout -k 10 "$most" "$@" 2>&1; echo $? >"$out/code"; } </dev/null | tee "$out/$name.txt"
  code=$(cat "$out/code")
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124) result="failed after $most s" ;;
    *) result=failed ;;
  esac
  case $result in failed*) failed=$((failed + 1)) ;; esac
  echo "== $name: $result"
  printf '%s{"name": %s, "code": %d, "seconds": %d, "result": %s}' "$([ -s "$out/steps.json" ] && echo ',')" "$(quoted "$name")" \
    "$code" $(($(date +%s) - start)) "$(quoted "$result")" >>"$out/steps.json"
}

# perf NAME RANKS ARGUMENT...: runs lockstep-perf and adds its rows to the report
perfs=
perf() {
  name=perf-$1 ranks=$2
  shift 2
  perfs="$perfs $name"
  step "$name" 120 mpirun -n "$ranks" lockstep-perf --json "$out/$name.json" "$@"
}

cat "$here/versions"
smi=$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem --format=csv,noheader 2>/dev/null) || smi=
echo "GPU: ${smi:-nvidia-smi finds none}; NCCL: ${LOCKSTEP_NCCL:-found by the loader}"

step tables 120 unit-bindings --gtest_output=json:"$out/tables.json"
step kernel-rates 300 kernel-rates $quick "$out/kernel-rates.json"
has_gpu=yes
[ "$(cat "$out/code")" = 77 ] && has_gpu=no

if [ $has_gpu = yes ]; then
  step gpu-tests 300 gpu-tests --gtest_output=json:"$out/gpu-tests.json"
  calls='-n 20 -w 5' sizes='-b 4K -e 64M -f 4' large='-b 256M -e 256M'
  [ -n "$quick" ] && calls='-n 3 -w 1' sizes='-b 4K -e 1M -f 16' large='-b 4M -e 4M'
  # shellcheck disable=SC2086
  {
    for replicas in 1 2 4 8; do
      perf "canonical-$replicas" 1 --memory cuda --order canonical --replicas-per-rank $replicas $sizes $calls
    done
    perf large 1 --memory cuda --order canonical --replicas-per-rank 4 $large -n 3 -w 1
    perf types 1 --memory cuda --order canonical --replicas-per-rank 3 -b 100000 -e 100000 -d all -o all -n 2 -w 1
    perf collectives 1 --memory cuda --replicas-per-rank 3 --collective all -b 64K -e 64K -n 3 -w 1
    perf list 1 --memory cuda --order canonical --replicas-per-rank 4 --list resnet50 -n 5 -w 2
    perf ranks-on-one-gpu 2 --memory cuda --order canonical --replicas-per-rank 2 -b 4K -e 1M -f 16 -n 5 -w 2
    grep -q 'no NCCL' "$out/kernel-rates.txt" || perf beside-nccl 1 --memory cuda --compare nccl $sizes $calls
  }
else
  echo
  sed -n 's/^# kernel-rates, //p' "$out/kernel-rates.txt"
fi
perf hosts 2 --memory arena --compare mpi -b 64 -e 1M -f 16 -n 10 -w 2
if [ -x "$here/bin/lockstep-train" ]; then
  step train 120 mpirun -n 2 lockstep-train --data synthetic --steps 20 --json "$out/train.json"
  if [ $has_gpu = yes ]; then
    hash=$(sed -n 's/^parameters //p' "$out/train.txt")
    # shellcheck disable=SC2016
    step train-gpu 120 sh -c 'LOCKSTEP_ORDER=canonical mpirun -n 2 lockstep-train --device gpu --arithmetic cpu \
      --data synthetic --steps 20 --json "$1" && grep -q "$2" "$1"' sh "$out/train-gpu.json" "${hash:-none}"  # the same bits
    # If there is cuBLAS, the report says "arithmetic": "gpu". The bits are those of cuBLAS, the same on one rank and on two.
    # shellcheck disable=SC2016
    step train-cublas 240 sh -c 'export LOCKSTEP_ORDER=canonical LOCKSTEP_TRAIN_DEVICE=gpu LOCKSTEP_TRAIN_DATA=synthetic
      mpirun -n 2 lockstep-train --steps 20 --json "$1" &&
      mpirun -n 1 lockstep-train --steps 20 --replicas-per-rank 2 --json "$2" &&
      grep -q -F "$(grep "\"parameters\"" "$1")" "$2" &&
      { [ "$3" = no ] || grep -q "\"arithmetic\": \"gpu\"" "$1"; }' sh "$out/train-cublas.json" \
      "$out/train-cublas-alone.json" $has_cublas
  fi
fi

{
  printf '{"versions": %s,\n "kernel": %s,\n "gpu": %s,\n "nccl": %s,\n' "$(quoted "$(cat "$here/versions")")" \
    "$(quoted "$(uname -sr)")" "$(quoted "$smi")" "$(quoted "${LOCKSTEP_NCCL:-}")"
  printf ' "failed": %d,\n "steps": [%s],\n' "$failed" "$(cat "$out/steps.json")"
  printf ' "tables": %s,\n "gpu_tests": %s,\n' "$(whole "$out/tables.json")" "$(whole "$out/gpu-tests.json")"
  printf ' "kernel_rates": %s,\n "train": %s,\n "train_gpu": %s,\n' "$(whole "$out/kernel-rates.json")" \
    "$(whole "$out/train.json")" "$(whole "$out/train-gpu.json")"
  printf ' "train_cublas": %s,\n "perf": {' "$(whole "$out/train-cublas.json")"
  comma=
  for name in $perfs; do
    printf '%s\n  %s: %s' "$comma" "$(quoted "$name")" "$(whole "$out/$name.json")"
    comma=,
  done
  printf '}}\n'
} >"$out/report.json"
rm -f "$out/steps.json" "$out/code"
echo
echo "report: $out/report.json; $failed of the steps failed"
[ "$failed" -eq 0 ]
