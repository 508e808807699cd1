#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# nvcc.sh LOG NVCC ARGUMENT...: compiles. All that the compilers say goes to LOG, and all but ptxas' figures is printed.

log=$1
shift
"$@" 2>"$log"
code=$?
grep -v -e '^ptxas info ' -e '^    [0-9]* bytes stack frame' "$log" >&2
exit $code
