#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the simulator of jobs and runs it.
#
#   sh tests/simulation/run.sh [OPTION...]           --help lists the options; README.md beside this file explains them
#   sh tests/simulation/run.sh --mutations [NAME...] plants one defect after another, and lets the simulator search for each

set -eu
cd "$(dirname "$0")/../.."
sh tests/setup.sh build test data
if [ "${1:-}" = --mutations ]; then
  shift
  exec python3 tests/simulation/mutations.py "$@"
fi
[ -f build/build.ninja ] || meson setup build -Dtests=enabled -Dkernels=few -Dcuda=disabled -Dunity=on -Doptimization=1 -Ddebug=false
ninja -C build tests/simulation/simulate >build/simulate.log || { tail -n 30 build/simulate.log; exit 1; }
exec build/tests/simulation/simulate "$@"
