#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the simulator of jobs and runs it.
#
#   sh tests/simulation/run.sh [OPTION...]           --help lists the options; README.md beside this file explains them
#   sh tests/simulation/run.sh --races [OPTION...]   also searches for data races, which takes some ten times as long
#   sh tests/simulation/run.sh --mutations [NAME...] plants one defect after another, and lets the simulator search for each

set -eu
cd "$(dirname "$0")/../.."
sh tests/setup.sh build test data
if [ "${1:-}" = --mutations ]; then
  shift
  exec python3 tests/simulation/mutations.py "$@"
fi
lane=plain
build=build
if [ "${1:-}" = --races ]; then
  shift
  lane=tsan
  build='build-tsan'
fi
log=$(mktemp)
[ -f "$build/tests/simulation/simulate" ] || echo "compiling in $build, which takes some minutes" >&2
if ! sh tests/run.sh --targets "$lane" tests/simulation/simulate >"$log" 2>&1; then
  tail -n 30 "$log"
  rm -f "$log"
  exit 1
fi
rm -f "$log"
exec "$build"/tests/simulation/simulate "$@"
