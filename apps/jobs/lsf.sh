#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# LSF.
#
#   bsub <lsf.sh         after changing the lines of the program
#
#BSUB -J lockstep
#BSUB -n 4
#BSUB -R "span[ptile=2]"
#BSUB -W 1:00
#BSUB -o lockstep-%J.out
##BSUB -P PROJECT
##BSUB -q QUEUE
##BSUB -x
##BSUB -R "affinity[core(8)] rusage[mem=32GB]"
##BSUB -gpu "num=2/host"

# module load gcc openmpi
# export OMP_NUM_THREADS=8

# The program and its arguments. A path with spaces, or an argument with spaces, is an element of its own:
#   program=("/path with spaces/program" --name "two words")
program=(lockstep-train --epochs 5)
if [ -n "${PROGRAM:-}" ]; then
  if [ -x "$PROGRAM" ]; then program=("$PROGRAM"); else read -ra program <<<"$PROGRAM"; fi
fi
fail() { echo "lsf.sh: $1" >&2; exit 2; }
command -v mpirun >/dev/null || fail "mpirun is not found in PATH: load the module of the MPI library"
command -v "${program[0]}" >/dev/null || fail "program ${program[0]} is not found: give its path, or add its folder to PATH"
[ -r "${LSB_DJOB_HOSTFILE:-}" ] || fail "LSB_DJOB_HOSTFILE is not set to a file that can be read: is this script started by bsub?"

# At the end of its time the batch system sends TERM, which mpirun answers itself: the ranks have about 1 s to save a
# checkpoint, and the exit code is 1 instead of 75. Have it send USR1 to mpirun some time before, as slurm_requeue.sh does.
# The file has a line for each rank. An Open MPI that is built for LSF finds it by itself; Debian's is not.
# MPICH and Intel MPI: exec mpiexec -f "$LSB_DJOB_HOSTFILE" -n "$(wc -l <"$LSB_DJOB_HOSTFILE")" "${program[@]}"
exec mpirun --hostfile "$LSB_DJOB_HOSTFILE" -n "$(wc -l <"$LSB_DJOB_HOSTFILE")" "${program[@]}"
