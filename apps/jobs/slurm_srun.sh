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

fail() { echo "slurm_srun.sh: $1" >&2; exit 2; }
command -v srun >/dev/null || fail "srun is not found in PATH: load the module of the MPI library"
command -v "$1" >/dev/null || fail "program $1 is not found: give its path, or add its folder to PATH"

# MPICH and Intel MPI: --mpi=pmi2 (Intel MPI needs I_MPI_PMI_LIBRARY=.../libpmi2.so too); Cray MPICH: --mpi=cray_shasta. Not run here.
# srun gives a task its CPUs only if it is told so (Slurm 22.05 and newer):  export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
# Without --kill-on-bad-exit, the step waits for the other ranks after one has failed.
exec srun --mpi=pmix --kill-on-bad-exit=1 "$@"
