#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# PBS (OpenPBS, PBS Professional).
#
#   qsub pbs.sh          after changing the last line, or: qsub -v PROGRAM="lockstep-train --epochs 5" pbs.sh
#
#PBS -N lockstep
#PBS -l select=2:ncpus=2:mpiprocs=2
#PBS -l walltime=01:00:00
#PBS -j oe

cd "$PBS_O_WORKDIR" || exit 1

# At the end of its time the batch system sends TERM, which mpirun answers itself: the ranks have about 1 s to save a
# checkpoint, and the exit code is 1 instead of 75. Have it send USR1 to mpirun some time before, as slurm_requeue.sh does.
# The file has a line for each rank. An Open MPI that is built for PBS finds it by itself; Debian's is not.
# shellcheck disable=SC2086
exec mpirun --hostfile "$PBS_NODEFILE" -n "$(wc -l <"$PBS_NODEFILE")" ${PROGRAM:-lockstep-train --epochs 5}
