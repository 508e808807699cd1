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
##SBATCH --account=ACCOUNT
##SBATCH --partition=PARTITION
##SBATCH --exclusive
##SBATCH --cpus-per-task=8
##SBATCH --mem=64G
##SBATCH --gpus-per-node=2   # a rank for each GPU; not --gpus-per-task, which hides the other GPUs of the node from NCCL
#SBATCH --output=%x-%j.out

# module load gcc openmpi
# export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}

[ $# -gt 0 ] || set -- lockstep-train --epochs 5

fail() { echo "slurm_mpirun.sh: $1" >&2; exit 2; }
command -v mpirun >/dev/null || fail "mpirun is not found in PATH: load the module of the MPI library"
command -v "$1" >/dev/null || fail "program $1 is not found: give its path, or add its folder to PATH"

# At the end of its time the batch system sends TERM, which mpirun answers itself: the ranks have about 1 s to save a
# checkpoint, and the exit code is 1 instead of 75. Have it send USR1 to mpirun some time before, as slurm_requeue.sh does.
# Under mpirun, SLURM_PROCID and SLURM_LOCALID are those of mpirun's daemon. lockstep queries MPI instead.
exec mpirun "$@"
