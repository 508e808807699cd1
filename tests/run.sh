#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what is missing, builds, runs the tests; ends with "N passed, N failed, N skipped".
#
#   sh tests/run.sh                    the plain lane: the tests that a change should pass before review
#   sh tests/run.sh --changed BASE     what a change since the commit BASE can affect: lints, clang-format, clang-tidy, tests of the plain lane
#   sh tests/run.sh --all              every lane that CI runs: plain slow hosts kernels mpich clang tsan
#   sh tests/run.sh --lanes LANE...    these lanes; also the long ones, which --all leaves out: repeats tidy sanitizers mpich_apps cuda
#                                      fuzz faults soak mutations torch (installs a wheel of PyTorch) programs (installs CP2K, LAMMPS, PETSc, mpi4py)
#
# README.md beside this file says what each lane is. With --all, plain is not repeated if it has passed on these sources.

set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
all_lanes='plain slow hosts kernels mpich clang tsan'
long_lanes='repeats tidy sanitizers mpich_apps cuda fuzz faults soak mutations torch programs'
base=
only_build=
only_targets=

case ${1:-} in
  '') lanes=plain ;;
  --all) lanes=$all_lanes ;;
  --lanes) shift; lanes=$* ;;
  --changed)
    lanes=changed
    base=$(git rev-parse --verify --quiet "${2:-}^{commit}") || { echo "tests/run.sh: no commit ${2:-}" >&2; exit 2; } ;;
  --build) shift; lanes=$*; only_build=yes ;;  # of this script: compiles for these lanes, and says of each when it is done
  # for other scripts: --targets LANE TARGET... compiles targets of ninja in the folder of a lane
  --targets) lanes=${2:?LANE}; only_targets=${3:?TARGET}; shift 2; only_targets=$*; only_build=yes ;;
  *) sed -n '5,13s/^# \{0,1\}//p' tests/run.sh; exit 2 ;;
esac
groups='build test data'
case $lanes in plain) ;; changed) groups="$groups lint" ;; *) groups="$groups plot pictures lint lanes" ;; esac
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
# The headers of a source are those that the compiler names: otherwise ccache runs the preprocessor before each compilation, a second
# for a source without a precompiled header.
export CCACHE_DEPEND=1
# It links in a third of the time.
if command -v ld.lld >/dev/null 2>&1; then export CC_LD=lld CXX_LD=lld; fi

# Several sources at once: the compiler would spend most of its time on the same headers again and again. For the same reason
# there is little optimization, and no debug information: with SANITIZER_LINES=-g1 sanitizers print lines beside functions. The kernels are those for
# few processors, and none for GPUs, except in the lane that tests all of them.
common='-Dtests=enabled -Dwerror=true -Dkernels=few -Dcuda=disabled -Dman=auto -Dunity=on -Dunity_size=16 -Dbuildtype=debugoptimized
  -Doptimization=1 -Ddebug=false'
# GCC takes a twentieth less time, and some 60 MB more, if it collects garbage from 512 MB on. In lanes with sanitizers, options for lines.
lines=--param=ggc-min-heapsize=524288
case ${CXX:-} in *clang*) lines= ;; esac

jobs=$(nproc 2>/dev/null || echo 2)
# Many tests wait for deadlines: two more than there are processors keep these busy.
tests_at_once=$((jobs + 2))
counts=$(mktemp)
has_built=$(mktemp)
trap 'rm -f "$counts" "$has_built"' EXIT

note() { echo "== $*"; }

# Two at a time would fail: what Meson asks CMake about the system is written to one folder.
if command -v flock >/dev/null; then alone="flock tests/run.sh"; else alone=; fi

# configure DIRECTORY OPTION...: sets it up, or brings it to these options and to the packages that are installed
configure() {
  directory=$1; shift
  state="$* $(stat -c %y /var/lib/dpkg/status 2>/dev/null)"
  if [ -f "$directory/build.ninja" ]; then
    if [ "$(cat "$directory/configured" 2>/dev/null)" = "$state" ] && $alone ninja -C "$directory" build.ninja; then return 0; fi
    $alone meson setup --reconfigure "$directory" "$@" && echo "$state" >"$directory/configured" && return 0
    rm -rf "$directory"
  fi
  $alone meson setup "$directory" "$@" && echo "$state" >"$directory/configured"
}

# compile DIRECTORY: $targets and what the tests of $suites need, or all
compile() {
  if [ -n "$only_targets" ]; then targets=$only_targets; suites=; fi
  # shellcheck disable=SC2086
  if [ -n "${suites:-}" ]; then targets="${targets:-} $(python3 tests/targets.py "$1" $suites)" || return; fi
  if [ -n "$base" ]; then
    python3 tests/changed.py "$base" "$1" >"$1/changed.txt" || return
    [ -s "$1/changed/plain" ] || targets=$(cat "$1/changed/targets")
  fi
  # shellcheck disable=SC2086
  env ${compile_with:-} ninja -C "$1" -j "$jobs" ${targets:-}
}

# Clang allocates so much that huge pages save it a twelfth of its time.
for_clang='GLIBC_TUNABLES=glibc.malloc.hugetlb=1'

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
    [ -n "$only_build" ] || touch "$has_built"
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
  [ -z "$only_build" ] || return 0
  note "$lane: testing"
  prefer_builder 19
  rm -f "$directory"/*.xml "$directory/meson-logs/$lane.json"
  ${run_with:-} meson test -C "$directory" --no-rebuild --logbase "$lane" --num-processes "$tests_at_once" "$@" </dev/null
  python3 tests/tally.py "$lane" "$directory" "$lane" "$counts"
}

# judge NAME COMMAND...: one case, whose reason is the end of the command's output
judge() {
  name=$1; shift
  log=$(mktemp)
  "$@" >"$log" 2>&1
  case $? in
    0) echo 1 0 0 >>"$counts" ;;
    77) echo 0 0 1 >>"$counts"; echo "skipped [$lane] $name: $(tail -n 1 "$log")" ;;
    *) echo 0 1 0 >>"$counts"; echo "FAILED  [$lane] $name"; grep -v '^ok ' "$log" | tail -n 60 | sed 's/^/        /' ;;
  esac
  rm -f "$log"
}

# The suites that the plain lane leaves out.
not_plain='slow consumers hosts gpu'

# check_plain LANE: runs the tests of the plain lane
check_plain() {
  # shellcheck disable=SC2046,SC2086
  check "$1" build $(printf -- '--no-suite %s ' $not_plain)
}

# In the folder of the plain lane, because its objects are those of the last run, and of the next.
lane_changed() {
  suites="without $not_plain"
  build changed build || return
  cat build/changed.txt
  # shellcheck disable=SC2046
  if [ -s build/changed/plain ]; then
    check_plain changed
  else
    check changed build $(cat build/changed/tests)
  fi
  # shellcheck disable=SC2046
  [ ! -s build/changed/format ] || judge format python3 tests/lint/format.py . $(cat build/changed/format)
  # shellcheck disable=SC2046
  [ ! -s build/changed/headers ] || judge headers python3 tests/lint/headers.py . build $(cat build/changed/headers)
  # shellcheck disable=SC2046
  [ ! -s build/changed/tidy ] || judge tidy python3 tests/lint/tidy.py . build $(cat build/changed/tidy)
}

lane_plain() {
  if [ "$lanes" != plain ] && [ -f build/passed ] &&
    [ -z "$(find include lib apps bench docs testing tests meson.build meson_options.txt -newer build/passed -type f | head -n 1)" ]; then
    note "plain: it has passed on these sources ($(cat build/passed) passed failed skipped)"
    cat build/passed >>"$counts"
    return
  fi
  mkdir -p build
  [ -n "$only_build" ] || rm -f build/passed
  touch build/started
  suites="without $not_plain"
  build plain build && check_plain plain || return
  last=$(tail -n 1 "$counts")
  case $last in *' 0 '*) echo "$last" >build/passed && touch -r build/started build/passed ;; esac
}

# Ranks on several hosts, each a network namespace; skips where those are not allowed.
lane_hosts() {
  suites='of hosts'
  build hosts build && check hosts build --suite hosts
}

# What needs minutes, or tools that only this lane installs; the code for GPUs on fake ones; programs built against an installed lockstep.
lane_slow() {
  suites='defaults of slow consumers without repeats'
  build slow build && check slow build --suite slow --suite consumers --no-suite repeats
}

# More cases of what other tests show.
lane_repeats() {
  suites='of repeats'
  build repeats build && check repeats build --suite repeats
}

# The kernels for all processors, and, if nvcc is found, those for one kind of GPU: the lane `cuda` compiles them for all.
lane_kernels() {
  suites='of kernels'
  build kernels build-kernels -Dkernels=processors -Dcuda=auto && check kernels build-kernels --suite kernels
}

# All kernels and CUDA: what `slow` and `kernels` run, in such a build, and tests that need a GPU.
lane_cuda() {
  if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then
    echo 0 0 1 >>"$counts"; note 'cuda: skipped, there is no nvcc'; return
  fi
  # the library without CUDA, to compare with
  (suites='of kernels'; build cuda build) || return
  build cuda build-cuda -Dkernels=all -Dcuda=enabled || return
  check cuda build-cuda --suite slow --suite consumers --suite kernels --suite gpu
  check cuda-abi build-cuda abi
}

lane_mpich() {
  export QUICK_TESTS=1
  targets='tests/mpi/mpi-communicator tests/mpi/mpi-creation tests/mpi/mpi-creation-calls tests/mpi/mpi-memory
    tests/mpi/mpi-processes tests/mpi/mpi-transport drop-in-programs'
  # but for MPI the build of the plain lane
  build mpich build-mpich -Dmpi=mpich || return
  check mpich build-mpich --timeout-multiplier 2 communicator-3 communicator-messages-2 \
    creation-2 creation-calls memory-2 memory-messages-2 processes-1 processes-2 processes-messages-2 transport-2 drop-in abi hosts-programs
}

lane_mpich_apps() {
  export QUICK_TESTS=1
  targets='tests/conformance/mpi-conformance user-programs'
  build mpich_apps build-mpich -Dmpi=mpich && check mpich_apps build-mpich --timeout-multiplier 2 conformance-2 conformance-3 programs examples
}

# build_clang LANE: the other compiler, with its warnings, and its address and undefined-behaviour sanitizers
build_clang() {
  lines="${SANITIZER_LINES:-} -fno-sanitize-recover=undefined"
  CC=clang-19 CXX=clang++-19 compile_with=$for_clang build "$1" build-clang -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=0
}

clang_environment() {
  export QUICK_TESTS=1
  export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
}

# Tests of `collectives` that only compare values: other tests run the same code under the sanitizers.
of_values='SeveralNodes.and_one_node_give_the_values_of_*:*CarriedData.has_the_bits_*'

# Leaks of MPI are recognized by whole call stacks, which makes every allocation slow: only for programs that start MPI.
leaks_of_mpi() {
  export LSAN_OPTIONS="suppressions=$root/tests/sanitizers/lsan.supp:fast_unwind_on_malloc=0:print_suppressions=0"
}

# The unit tests but those on fake GPUs and those of results, and clang-tidy of what has changed.
lane_clang() {
  clang_environment
  suites='of unit without slow results'
  targets='tests/mpi/mpi-communicator tests/mpi/mpi-memory tests/mpi/mpi-processes'
  build_clang clang || return
  run_with="env $for_clang" check clang build-clang format tidy
  # tests of delays look for races: the lane tsan runs them
  run_with="env GTEST_FILTER=-$of_values:*Delays*" check clang-unit build-clang --suite unit --no-suite slow --no-suite results --timeout-multiplier 4
  leaks_of_mpi
  check clang-mpi build-clang --timeout-multiplier 4 communicator-1 communicator-2 memory-2 processes-2
}

lane_tidy() {
  suites='of lint without slow'
  build_clang tidy && run_with="env $for_clang" check tidy build-clang --benchmark --suite tidy
}

# Each reader of files for a minute.
lane_fuzz() {
  clang_environment
  targets=fuzz-programs
  build_clang fuzz && check fuzz build-clang --benchmark --suite fuzz
}

# build_tsan LANE
build_tsan() {
  lines=${SANITIZER_LINES:-}
  CC=clang-19 CXX=clang++-19 compile_with=$for_clang build "$1" build-tsan -Db_sanitize=thread -Db_lundef=false -Doptimization=0
}

# Ranks as threads only: MPI is not instrumented, and what two processes share no sanitizer sees.
tsan_environment() {
  export QUICK_TESTS=1
  # What a GPU that never ends may still use is kept for ever: of one that is not there, its threads.
  export TSAN_OPTIONS="suppressions=$root/tests/sanitizers/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=0:report_thread_leaks=0"
  # Older runtimes do not start where the kernel spreads addresses over more than 28 bits.
  setarch "$(uname -m)" -R true 2>/dev/null && run_with="setarch $(uname -m) -R"
}

lane_tsan() {
  tsan_environment
  suites='of threads without results'
  build_tsan tsan || return
  run_with="${run_with:-} env GTEST_FILTER=-$of_values" check tsan build-tsan --suite threads --no-suite results --timeout-multiplier 6
}

# All of the unit tests under each sanitizer, a communicator without shared memory, and without the leak checker, through which their parts have been, the small programs of apps/
# and the conformance cases on ranks.
lane_sanitizers() {
  (
    clang_environment
    targets='unit-programs user-programs tests/conformance/mpi-conformance tests/mpi/mpi-communicator'
    build_clang sanitizers || return
    check clang-fakes build-clang --suite unit --timeout-multiplier 4
    leaks_of_mpi
    check clang-messages build-clang --timeout-multiplier 4 communicator-messages-2
    export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1
    check clang-apps build-clang --timeout-multiplier 4 programs examples conformance-2
  )
  tsan_environment
  suites='of threads'
  build_tsan sanitizers && check tsan-results build-tsan --suite threads --timeout-multiplier 6
}

# A part of the fault matrix that the seed chooses; faults/README.md has all of it.
lane_faults() {
  targets=tests/faults/fault-job
  build faults build && check faults build --benchmark --suite faults
}

lane_soak() {
  targets='tests/faults/fault-soak tests/mpi/mpi-stopped-ranks apps/train/lockstep-train tests/model/model-of-all-nests tests/unit/unit-layouts
    tests/simulation/simulate busy-programs'
  build soak build && check soak build --benchmark --suite soak
}

# In a copy of the sources, with a build of its own.
lane_mutations() {
  lane=mutations
  [ -n "$only_build" ] || judge 'defects that are planted for the simulator' python3 tests/simulation/mutations.py
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
  case " $all_lanes $long_lanes changed " in *" $name "*) ;; *) echo "tests/run.sh: no lane $name; there are: $all_lanes $long_lanes" >&2; exit 2 ;; esac
done

# Later lanes are compiled beside the tests of the lanes before them, which mostly wait, at the lowest priority: that of their session, if
# the kernel has priorities of sessions. They begin when the first lane has been compiled, so that ccache finds what they have in common
# with it. What the plain lane needs beside that is the first of them, as two processes of ninja must not work in one folder.
ahead=
[ -n "$only_build" ] || for name in $(echo "$lanes" | cut -s -d ' ' -f 2-); do
  case $name in kernels | mpich | clang | tsan) ahead="$ahead $name" ;; esac
done
case "$lanes" in 'slow '*) [ -z "$ahead" ] || ahead="plain$ahead" ;; esac
command -v setsid >/dev/null && command -v flock >/dev/null || ahead=
built=$(mktemp)
builder=
trap 'rm -f "$counts" "$built" "$has_built"; [ -z "$builder" ] || kill -- "-$builder" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
rm -f "$has_built"
if [ -n "$ahead" ]; then
  # shellcheck disable=SC2016,SC2086
  setsid nice -n 10 sh -c 'until [ -e "$1" ]; do sleep 1; done; shift; echo 19 2>/dev/null >/proc/self/autogroup
    sh tests/run.sh --build "$@"; echo "== the end"' sh "$has_built" $ahead >"$built" 2>&1 &
  builder=$!
fi

# prefer_builder NICE: while a lane waits for its build, nothing else needs the processors; other programs must not get all of them. That
# lasts until its tests begin: before, it may wait for the lock under which the builder configures a folder.
prefer_builder() {
  [ -n "$builder" ] || return 0
  echo "$1" 2>/dev/null >"/proc/$builder/autogroup"
  [ "$1" != 0 ] || renice -n 0 -g "$builder" >/dev/null 2>&1  # root may
}

# await LANE: until it has been compiled, or could not be, which its own build then shows. A first lane that does not build ends the wait.
await() {
  case " $ahead " in *" $1 "*) ;; *) return ;; esac
  touch "$has_built"
  begin_wait=$(date +%s)
  prefer_builder 0
  until grep -q -e "^== $1: [0-9]* s\$" -e '^== the end' "$built"; do sleep 1; done
  sed -n "s/^\(== $1: built in .*\)/\1, beside tests/p" "$built"
  note "$1: waited $(($(date +%s) - begin_wait)) s for its build"
}

for name in $lanes; do
  begin=$(date +%s)
  case $name in
    slow) ;;
    hosts | repeats | faults | soak | programs) await plain ;;  # they are compiled in its folder
    *) await "$name" ;;
  esac
  ("lane_$name")
  note "$name: $(($(date +%s) - begin)) s"
done
builder=

note "lanes: $lanes"
awk -v only_build="$only_build" '{ passed += $1; failed += $2; skipped += $3 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || passed == 0 && !only_build }' "$counts"
