#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Slurm; srun starts the ranks, for an MPI with PMIx ("srun --mpi=list" must show pmix).
#
#   sbatch slurm_srun.sh [PROGRAM [ARGUMENT...]]
#
#SBATCH --job-name=lockstep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out

[ $# -gt 0 ] || set -- lockstep-train --epochs 5

# Without --kill-on-bad-exit, the step waits for the other ranks after one has failed.
exec srun --mpi=pmix --kill-on-bad-exit=1 "$@"
