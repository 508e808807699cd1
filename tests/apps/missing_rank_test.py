#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""A rank that does not make a communicator, or whose process has ended, under an mpiexec that does not see the end.

missing_rank_test.py MISSING_RANK MPIEXEC [OPTION...]
"""

import os
import sys
import tempfile

from programs import Launcher, expect, expect_in, run_cases

program = sys.argv[1]
launcher = Launcher(sys.argv[2:])
TIMED_OUT = ["deadline_exceeded: ", "timed out after 3 s"]


def the_others_fail(ranks, how, what, parts, warning):
    """All other ranks get an error with `parts` in time; the lowest has logged `warning` before."""

    def case():
        with tempfile.TemporaryDirectory() as folder:
            # newer launchers end all ranks if one has another exit code than 0, whatever their options
            result = launcher.run(ranks, "sh", "-c", '"$@" || true', "sh", program, how, what, os.path.join(folder, "done"),
                                  timeout=100)
        output = result.stdout + result.stderr
        for rank in range(ranks - 1):
            said = [line for line in result.stdout.splitlines() if line.startswith(f"rank {rank}: ")]
            expect(len(said) == 1, f"rank {rank} says nothing:\n{output}")
            expect_in(parts, said[0])
        expect_in(warning, result.stderr)

    return case


def named(rank):
    return [*TIMED_OUT, f"for rank {rank}"], ["this rank has waited", f"for rank {rank}"]


def dead(rank):
    return ["unavailable: ", f"rank {rank} has died of signal 9 (Killed)"], []


sys.exit(run_cases([
    ("a strategy names the rank that makes none", the_others_fail(2, "never", "strategy", *named(1))),
    ("a strategy names the rank that has died", the_others_fail(2, "dies", "strategy", *dead(1))),
    ("world_communicator names the rank that makes none", the_others_fail(3, "never", "world", *named(2))),
    ("duplicate names the rank that has died", the_others_fail(3, "dies", "duplicate", *dead(2))),
    ("split names the rank that does not call it", the_others_fail(2, "never", "split", *named(1))),
    ("an Environment does not wait for ever", the_others_fail(2, "never", "environment", [*TIMED_OUT, "all ranks of the job"], ["all ranks of the job"])),
    ("communicator_from without an Environment does not wait for ever",
     the_others_fail(2, "never", "own", [*TIMED_OUT, "MPI_Comm_idup", "known only if there is a lockstep::Environment"], ["MPI_Comm_idup"])),
]))
