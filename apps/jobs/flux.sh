#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Flux; not run here.
#
#   flux batch -N2 -n4 flux.sh [PROGRAM [ARGUMENT...]]
#
#FLUX: --job-name=lockstep
#FLUX: --time-limit=1h
#FLUX: --output=lockstep-{{id}}.out
# Further options: --queue=QUEUE --bank=ACCOUNT --exclusive --cores-per-task=8 --gpus-per-task=1

# module load gcc openmpi
# export OMP_NUM_THREADS=8

[ $# -gt 0 ] || set -- lockstep-train --epochs 5

fail() { echo "flux.sh: $1" >&2; exit 2; }
command -v flux >/dev/null || fail "flux is not found in PATH"
command -v "$1" >/dev/null || fail "program $1 is not found: give its path, or add its folder to PATH"

# Open MPI 5 needs PMIx (the plugin flux-pmix); for MPICH and Intel MPI leave the option out.
exec flux run -N2 -n4 -o pmi=pmix "$@"
