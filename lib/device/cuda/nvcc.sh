#!/bin/sh
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# nvcc.sh LOG NVCC ARGUMENT...: compiles. Writes the output of the compilers to LOG, and prints the output
# without the figures of ptxas.

log=$1
shift
"$@" 2>"$log"
code=$?
grep -v -e '^ptxas info ' -e '^    [0-9]* bytes stack frame' "$log" >&2
exit $code
