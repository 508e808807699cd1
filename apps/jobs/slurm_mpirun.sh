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

# Under mpirun, SLURM_PROCID and SLURM_LOCALID are those of mpirun's daemon. lockstep queries MPI instead.
exec mpirun "$@"
