#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# LSF.
#
#   bsub <lsf.sh         after changing the last line
#
#BSUB -J lockstep
#BSUB -n 4
#BSUB -R "span[ptile=2]"
#BSUB -W 1:00
#BSUB -o lockstep-%J.out

# At the end of its time the batch system sends TERM, which mpirun answers itself: the ranks have about 1 s to save a
# checkpoint, and the exit code is 1 instead of 75. Have it send USR1 to mpirun some time before, as slurm_requeue.sh does.
# The file has a line for each rank. An Open MPI that is built for LSF finds it by itself; Debian's is not.
# shellcheck disable=SC2086
exec mpirun --hostfile "$LSB_DJOB_HOSTFILE" -n "$(wc -l <"$LSB_DJOB_HOSTFILE")" ${PROGRAM:-lockstep-train --epochs 5}
