#!/bin/bash
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
#
# PBS (OpenPBS, PBS Professional).
#
#   qsub pbs.sh          after changing the lines of the program, or: qsub -v PROGRAM="lockstep-train --epochs 5" pbs.sh
#
#PBS -N lockstep
#PBS -l select=2:ncpus=2:mpiprocs=2
#PBS -l walltime=01:00:00
#PBS -j oe
##PBS -A ACCOUNT
##PBS -q QUEUE
##PBS -l place=scatter:excl
##PBS -l select=2:ncpus=16:mpiprocs=2:ompthreads=8:mem=64gb:ngpus=2

cd "$PBS_O_WORKDIR" || exit 1

# module load gcc openmpi
# export OMP_NUM_THREADS=8

# The program and its arguments. A path with spaces, or an argument with spaces, is an element of its own:
#   program=("/path with spaces/program" --name "two words")
program=(lockstep-train --epochs 5)
if [ -n "${PROGRAM:-}" ]; then
  if [ -x "$PROGRAM" ]; then program=("$PROGRAM"); else read -ra program <<<"$PROGRAM"; fi
fi
fail() { echo "pbs.sh: $1" >&2; exit 2; }
command -v mpirun >/dev/null || fail "mpirun is not found in PATH: load the module of the MPI library"
command -v "${program[0]}" >/dev/null || fail "program ${program[0]} is not found: give its path, or add its folder to PATH"
[ -r "${PBS_NODEFILE:-}" ] || fail "PBS_NODEFILE is not set to a file that can be read: is this script started by qsub?"

# At the end of its time the batch system sends TERM, which mpirun answers itself: the ranks have about 1 s to save a
# checkpoint, and the exit code is 1 instead of 75. Have it send USR1 to mpirun some time before, as slurm_requeue.sh does.
# The file has a line for each rank. An Open MPI that is built for PBS finds it by itself; Debian's is not.
# MPICH and Intel MPI: exec mpiexec -f "$PBS_NODEFILE" -n "$(wc -l <"$PBS_NODEFILE")" "${program[@]}"
exec mpirun --hostfile "$PBS_NODEFILE" -n "$(wc -l <"$PBS_NODEFILE")" "${program[@]}"
