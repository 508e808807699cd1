#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# Slurm, with an end before the end: two minutes before its time is over, or when it has to make room, the job saves a
# checkpoint, goes back into the queue, and continues from there, to the same bits as if it had never stopped.
#
#   sbatch slurm_requeue.sh [PROGRAM [ARGUMENT...]]
#
# The program has a lockstep::PreemptionGuard, which all ranks leave at the same step with exit code 75.
#
#SBATCH --job-name=lockstep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

[ $# -gt 0 ] || set -- lockstep-train --epochs 50 --checkpoint-dir "checkpoints-$SLURM_JOB_ID" --save-every 500 --resume

# B: above gives the signal to this script alone; mpirun hands it to all ranks. (srun does so, too.)
mpirun "$@" &
ranks=$!
trap 'kill -USR1 "$ranks"' USR1 TERM

# A signal to this script only wakes its wait.
while kill -0 "$ranks" 2>/dev/null; do wait "$ranks"; done
wait "$ranks"
code=$?
echo "ranks ended with exit code $code"
if [ "$code" = 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  sleep 60 # Slurm ends this script meanwhile
fi
exit "$code"
