#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the readers of files with libFuzzer, under the address and undefined-behaviour sanitizers.
#
#   sh tests/fuzz/fuzz.sh BUILD LIMIT [TARGET...]     fuzzes each TARGET (default: all); LIMIT is -max_total_time=SECONDS or -runs=INPUTS
#
# BUILD is a build folder of clang with -Db_sanitize=address,undefined, such as that of the lane `clang`; its target `fuzz-programs` must
# be up to date. Additions to the corpus, logs and the inputs that fail are written to BUILD/fuzz. Prints one line for each target at
# the end, the end of the log of each that failed, and exits with code 1 if one has crashed, hung, or exceeded the memory bound.

set -eu
corpus=$(cd "$(dirname "$0")" && pwd)/corpus
build=${1:?which build folder}
limit=${2:?-max_total_time=SECONDS or -runs=INPUTS}
shift 2
# As many inputs are the same ones each time; a time is for new ones.
case $limit in -runs=*) seed=1 ;; *) seed=0 ;; esac
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(cd "$corpus" && echo *)

# ASan keeps freed memory in quarantine; a small quarantine makes the memory bound apply to what a parser really uses.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=16"
out=$build/fuzz
failed=0
for target in "$@"; do
  mkdir -p "$out/found/$target" "$out/crashes"
  log=$out/$target.log
  result=passed
  "$build/tests/fuzz/fuzz-$target" "$out/found/$target" "$corpus/$target" "$limit" -seed=$seed -timeout=60 \
    -rss_limit_mb=512 -malloc_limit_mb=128 -artifact_prefix="$out/crashes/$target-" -print_final_stats=1 \
    >"$log" 2>&1 || { result=FAILED; failed=1; tail -n 40 "$log"; }
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "$target: $result, ${runs:-0} inputs, log in $log"
done
exit $failed
