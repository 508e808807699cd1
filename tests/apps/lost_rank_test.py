#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""A rank whose process ends inside a call of NCCL, under an mpiexec that does not end the others.

lost_rank_test.py LOST_RANK MPIEXEC [OPTION...]
"""

import os
import sys

from programs import Launcher, expect, expect_in, run_cases

program = sys.argv[1]
launcher = Launcher(sys.argv[2:])


def errors_of_the_others(ranks):
    """All other ranks get an error in time that names the lost rank, in this call and in the next."""

    def case():
        # newer launchers end all ranks if one has another exit code than 0, whatever their options
        result = launcher.run(ranks, "sh", "-c", '"$@" || true', "sh", program, env=dict(os.environ, LOCKSTEP_TIMEOUT="60,200"), timeout=200)
        output = result.stdout + result.stderr
        expect(result.seconds < 60, f"took {result.seconds} s:\n{output}")
        lines = result.stdout.splitlines()
        expect(not [line for line in lines if line.startswith("rank 1")], "rank 1 has not died:\n" + output)
        for rank in set(range(ranks)) - {1}:
            for call in ("all_reduce", "barrier"):
                said = [line for line in lines if line.startswith(f"rank {rank}, {call}: ")]
                expect(len(said) == 1, f"rank {rank} says nothing of {call}:\n{output}")
                expect("deadline_exceeded: " in said[0] or "unavailable: " in said[0], said[0])
                expect_in(["rank 1"], said[0].split(": ", 1)[1])

    return case


sys.exit(run_cases([
    ("a rank that dies inside NCCL is an error of the other one", errors_of_the_others(2)),
    ("a rank that dies inside NCCL is an error of all others", errors_of_the_others(4)),
]))
