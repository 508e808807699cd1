#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Slurm, for a job that may be preempted: two minutes before its time limit, or when it is preempted, the job saves a
# checkpoint, is queued again, and resumes from the checkpoint, with the same bits as an uninterrupted run.
#
#   sbatch slurm_requeue.sh [PROGRAM [ARGUMENT...]]
#
# The program has a lockstep::PreemptionGuard, so that all ranks exit after the same step with code 75.
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
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

# module load gcc openmpi
# export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}

[ $# -gt 0 ] || set -- lockstep-train --epochs 50 --checkpoint-dir "checkpoints-$SLURM_JOB_ID" --save-every 500 --resume

fail() { echo "slurm_requeue.sh: $1" >&2; exit 2; }
command -v mpirun >/dev/null || fail "mpirun is not found in PATH: load the module of the MPI library"
command -v "$1" >/dev/null || fail "program $1 is not found: give its path, or add its folder to PATH"

# "B:" above sends the signal to this script only; mpirun passes USR1 on to all ranks, as srun would. Not TERM: mpirun
# answers that itself: the ranks have about 1 s to save, and its exit code is 1. So this script turns TERM into USR1.
mpirun "$@" &
ranks=$!
trap 'kill -USR1 "$ranks"' USR1 TERM

# A signal ends this script's wait, not the ranks.
while kill -0 "$ranks" 2>/dev/null; do wait "$ranks"; done
wait "$ranks"
code=$?
echo "ranks ended with exit code $code"
if [ "$code" = 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  sleep 60 # Slurm ends this script during this time
fi
exit "$code"
