#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Slurm; mpirun starts the ranks inside the allocation, and finds the nodes and their tasks itself.
#
#   sbatch slurm_mpirun.sh [PROGRAM [ARGUMENT...]]
#
#SBATCH --job-name=lockstep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out

[ $# -gt 0 ] || set -- lockstep-train --epochs 5

# At the end of its time the batch system sends TERM, which mpirun answers itself: the ranks have about 1 s to save a
# checkpoint, and the exit code is 1 instead of 75. Have it send USR1 to mpirun some time before, as slurm_requeue.sh does.
# Under mpirun, SLURM_PROCID and SLURM_LOCALID are those of mpirun's daemon. lockstep queries MPI instead.
exec mpirun "$@"
