#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds, runs the tests; ends with "N passed, N failed, N skipped".
#
#   sh tests/run.sh                    the plain lane: the tests that a change should pass before review
#   sh tests/run.sh --all              every lane: plain hosts slow mpich clang tsan
#   sh tests/run.sh --lanes LANE...    these lanes; also those that --all leaves out: faults (40 minutes), soak (30 minutes),
#                                      torch (installs a wheel of PyTorch) and programs (installs CP2K, LAMMPS, PETSc and mpi4py)
#
# README.md beside this file says what each lane is. With --all, plain is not repeated if it has passed on these sources.

set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
all_lanes='plain hosts slow mpich clang tsan'
long_lanes='faults soak torch programs'

case ${1:-} in
  '') lanes=plain ;;
  --all) lanes=$all_lanes ;;
  --lanes) shift; lanes=$* ;;
  *) sed -n '5,12s/^# \{0,1\}//p' tests/run.sh; exit 2 ;;
esac
groups='build test data plot'
[ "$lanes" = plain ] || groups="$groups lanes"
# shellcheck disable=SC2086
sh tests/setup.sh $groups || exit $?

# shellcheck source=/dev/null
. tests/launch.env
# All ranks are on this machine. Without TCP, Open MPI ignores unusual network interfaces. The variable replaces the list
# of Debian's /etc/openmpi/openmpi-mca-params.conf, so it repeats that list: with ofi, small messages take twice as long.
export OMPI_MCA_btl=^tcp,uct,openib,ofi
# Containers without ptrace forbid reading a neighbour's memory; Open MPI then floods the output. Correctness needs no speed.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma

# Python's own cache would be a newer file among the sources, so that the plain lane would be repeated.
export PYTHONDONTWRITEBYTECODE=1

# With ccache, kernels are compiled once for all lanes that compile them alike. It caches uses of precompiled headers only
# with this sloppiness. Comments count: a precompiled header holds the checksums of its files, and with `#pragma once` gcc reads
# a file again whose checksum is another.
export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1

# Several sources at once: the compiler would spend most of its time on the same headers again and again. For the same reason
# there is little optimization, and no debug information but in the lanes whose sanitizers print lines. The kernels are those for
# few processors, and none for GPUs, except in the lane that tests all of them.
common='-Dtests=enabled -Dwerror=true -Dkernels=few -Dcuda=disabled -Dman=disabled -Dunity=on -Dunity_size=16 -Dbuildtype=debugoptimized
  -Doptimization=1 -Ddebug=false'
lines=

jobs=$(nproc 2>/dev/null || echo 2)
# Many tests wait for deadlines: one more than there are processors keeps these busy.
tests_at_once=$((jobs + 1))
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT

note() { echo "== $*"; }

# configure DIRECTORY OPTION...: sets it up, or brings it to these options
configure() {
  directory=$1; shift
  if [ -f "$directory/build.ninja" ]; then
    meson setup --reconfigure "$directory" "$@" && return 0
    rm -rf "$directory"
  fi
  meson setup "$directory" "$@"
}

# compile DIRECTORY: $targets, or what the tests need that are not in the suites $without, or all
compile() {
  # shellcheck disable=SC2086
  if [ -n "${without:-}" ]; then targets=$(python3 tests/targets.py "$1" $without) || return; fi
  # shellcheck disable=SC2086
  ninja -C "$1" -j "$jobs" ${targets:-}
}

# build LANE DIRECTORY OPTION...: configures and compiles, several sources at once; a failure is one failed case
build() {
  lane=$1; directory=$2; shift 2
  note "$lane: building in $directory"
  begin_build=$(date +%s)
  log=$(mktemp)
  # shellcheck disable=SC2086
  if configure "$directory" $common "-Dcpp_args=$lines" "$@" >"$log" 2>&1 && compile "$directory" >>"$log" 2>&1; then
    note "$lane: built in $(($(date +%s) - begin_build)) s"
    rm -f "$log"
    return 0
  fi
  grep -v '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 60
  rm -f "$log"
  echo "FAILED  [$lane] it does not build in $directory"
  echo 0 1 0 >>"$counts"
  return 1
}

# check LANE DIRECTORY OPTION...: runs the tests that meson's options choose
check() {
  lane=$1; directory=$2; shift 2
  note "$lane: testing"
  rm -f "$directory"/*.xml "$directory/meson-logs/$lane.json"
  ${run_with:-} meson test -C "$directory" --no-rebuild --logbase "$lane" --num-processes "$tests_at_once" "$@" </dev/null
  python3 tests/tally.py "$lane" "$directory" "$lane" "$counts"
}

lane_plain() {
  if [ "$lanes" != plain ] && [ -f build/passed ] &&
    [ -z "$(find include lib apps bench docs tests meson.build meson_options.txt -newer build/passed -type f | head -n 1)" ]; then
    note "plain: it has passed on these sources ($(cat build/passed) passed failed skipped)"
    cat build/passed >>"$counts"
    return
  fi
  mkdir -p build
  rm -f build/passed
  touch build/started
  without='slow consumers hosts gpu'
  build plain build && check plain build --no-suite slow --no-suite consumers --no-suite hosts --no-suite gpu || return
  last=$(tail -n 1 "$counts")
  case $last in *' 0 '*) echo "$last" >build/passed && touch -r build/started build/passed ;; esac
}

# Ranks on several hosts, each a network namespace; skips where those are not allowed.
lane_hosts() {
  build hosts build && check hosts build --suite hosts
}

# What needs minutes, or tools that only this lane installs; programs built against an installed lockstep; and all kernels.
lane_slow() {
  build slow build -Dkernels=all -Dcuda=auto -Dman=auto && check slow build --suite slow --suite consumers --suite kernels --suite gpu
}

lane_mpich() {
  export QUICK_TESTS=1
  targets='tests/mpi/mpi-communicator tests/mpi/mpi-creation tests/mpi/mpi-creation-calls tests/mpi/mpi-memory
    tests/mpi/mpi-processes tests/mpi/mpi-transport
    tests/conformance/mpi-conformance user-programs drop-in-programs'
  # but for MPI the build of the plain lane
  build mpich build-mpich -Dmpi=mpich || return
  check mpich build-mpich --timeout-multiplier 2 communicator-2 communicator-3 communicator-messages-2 \
    creation-2 creation-calls memory-2 memory-messages-2 processes-1 processes-2 processes-messages-2 transport-2 conformance-2 conformance-3 drop-in abi hosts-programs
  check mpich-apps build-mpich --timeout-multiplier 2 programs examples
}

# The other compiler, its warnings and clang-tidy, with its address and undefined-behaviour sanitizers.
lane_clang() {
  export QUICK_TESTS=1
  lines='-g1 -fno-sanitize-recover=undefined'
  export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  targets='unit-programs rank-programs user-programs'
  CC=clang-19 CXX=clang++-19 build clang build-clang -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=0 || return
  check clang build-clang format tidy
  check clang-unit build-clang --suite unit --timeout-multiplier 4
  # Leaks of MPI are recognized by whole call stacks, which makes every allocation slow: only for programs that start MPI.
  export LSAN_OPTIONS="suppressions=$root/tests/sanitizers/lsan.supp:fast_unwind_on_malloc=0:print_suppressions=0"
  check clang-mpi build-clang --timeout-multiplier 4 communicator-1 communicator-2 communicator-messages-2 memory-2 processes-2 conformance-2
  # Their parts have been through the leak checker above.
  export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
  check clang-apps build-clang --timeout-multiplier 4 programs examples
}

# Ranks as threads only: MPI is not instrumented, and what two processes share no sanitizer sees.
lane_tsan() {
  export QUICK_TESTS=1
  # What a GPU that never ends may still use is kept for ever: of one that is not there, its threads.
  export TSAN_OPTIONS="suppressions=$root/tests/sanitizers/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=0:report_thread_leaks=0"
  # Older runtimes do not start where the kernel spreads addresses over more than 28 bits.
  setarch "$(uname -m)" -R true 2>/dev/null && run_with="setarch $(uname -m) -R"
  targets=thread-programs
  lines=-g1
  CC=clang-19 CXX=clang++-19 build tsan build-tsan -Db_sanitize=thread -Db_lundef=false -Doptimization=0 &&
    check tsan build-tsan --suite threads --timeout-multiplier 6
}

# A part of the fault matrix that the seed chooses; faults/README.md has all of it.
lane_faults() {
  targets=tests/faults/fault-job
  build faults build && check faults build --benchmark --suite faults
}

lane_soak() {
  targets='tests/faults/fault-soak tests/mpi/mpi-stopped-ranks apps/train/lockstep-train tests/model/model tests/unit/unit-layouts'
  build soak build && check soak build --benchmark --suite soak
}

# Programs from elsewhere under the drop-in: the only lane that installs them.
lane_programs() {
  sh tests/setup.sh programs || { echo 0 0 1 >>"$counts"; note 'programs: skipped, they cannot be installed'; return; }
  targets='apps/drop_in/liblockstep_mpi.so apps/drop_in/liblockstep_drop_in.so tests/programs/libstop_before.so'
  build programs build && check programs build --benchmark --suite programs
}

# interop/torch.hpp with a libtorch: the folder LOCKSTEP_TORCH, or a wheel that this lane installs into a folder of its own.
lane_torch() {
  torch=$(python3 tests/torch/install.py build-torch-wheel)
  case $? in
    0) ;;
    77) note 'torch: skipped'; echo 0 0 1 >>"$counts"; return ;;
    *) echo 'FAILED  [torch] install.py'; echo 0 1 0 >>"$counts"; return ;;
  esac
  targets='torch-programs'
  build torch build-torch "-Dtorch=$torch" && check torch build-torch --suite torch
}

for name in $lanes; do
  case " $all_lanes $long_lanes " in *" $name "*) ;; *) echo "tests/run.sh: no lane $name; there are: $all_lanes $long_lanes" >&2; exit 2 ;; esac
done
for name in $lanes; do
  begin=$(date +%s)
  ("lane_$name")
  note "$name: $(($(date +%s) - begin)) s"
done

note "lanes: $lanes"
awk '{ passed += $1; failed += $2; skipped += $3 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || passed == 0 }' "$counts"
