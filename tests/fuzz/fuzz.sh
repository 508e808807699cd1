#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the readers of files with libFuzzer, under the address and undefined-behaviour sanitizers. Not part of the
# automatic tests: it needs clang, and time.
#
#   sh tests/fuzz/fuzz.sh SECONDS [TARGET...]     fuzzes each TARGET (default: all) for SECONDS
#
# Programs, crashes and additions to the corpus are written to build-fuzz/. Prints one line for each target at the end, and
# exits with code 1 if one has crashed, hung, or exceeded the memory bound.

set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?how many seconds for each target}
shift
[ $# -gt 0 ] || set -- csv hostlist idx npy npz records safetensors text tf_config tfrecord
compiler=${CXX:-clang++-19}
out=build-fuzz
mkdir -p $out/objects

# The library without the sources that communicate with other ranks; the linker selects the objects that the targets need.
flags='-std=c++20 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -Iinclude -Ilib -Itests/fuzz'
input=$(find lib/input -maxdepth 1 -name '*.cpp' ! -name 'distributed*')
checkpoint=$(ls lib/checkpoint/file.cpp lib/checkpoint/safetensors*.cpp)
cluster=$(ls lib/cluster/cluster_resolver.cpp lib/cluster/cluster_spec.cpp lib/cluster/cluster_tasks.cpp \
  lib/cluster/host_list.cpp lib/cluster/tf_config.cpp)
for source in lib/base/*.cpp lib/core/*.cpp lib/device/host/*.cpp $input $checkpoint $cluster; do
  object=$out/objects/$(echo "$source" | tr / _).o
  [ "$object" -nt "$source" ] || echo "$source $object"
done | xargs -r -n 2 -P "$(nproc)" sh -c "$compiler $flags -fsanitize=fuzzer-no-link -c \$0 -o \$1"
rm -f $out/lockstep.a
ar rcs $out/lockstep.a $out/objects/*.o
for target in "$@"; do
  # shellcheck disable=SC2086
  $compiler $flags -fsanitize=fuzzer "tests/fuzz/$target.cpp" $out/lockstep.a -lfmt -lz -o "$out/fuzz-$target"
done

# ASan keeps freed memory in quarantine; a small quarantine makes the memory bound apply to what a parser really uses.
export ASAN_OPTIONS=quarantine_size_mb=16
failed=0
for target in "$@"; do
  mkdir -p "$out/found/$target" "$out/crashes"
  log=$out/$target.log
  result=passed
  "$out/fuzz-$target" "$out/found/$target" "tests/fuzz/corpus/$target" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=512 -malloc_limit_mb=128 -artifact_prefix="$out/crashes/$target-" -print_final_stats=1 \
    >"$log" 2>&1 || { result=FAILED; failed=1; }
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "$target: $result, $seconds s, ${runs:-0} inputs, log in $log"
done
exit $failed
