#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Small programs under mpiexec: the first one of the README, and programs that fail.

programs_test.py HELLO DESCENT FAULTS MPIEXEC [OPTION...]
"""

import os
import sys

from programs import Launcher, expect, expect_in, run_cases

hello, descent, faults = sys.argv[1:4]
launcher = Launcher(sys.argv[4:])
REPEATED_AFTER_S = 7


def says_hello(ranks):
    def case():
        result = launcher.run(ranks, hello)
        expect(result.returncode == 0, result.stderr)
        replicas = ranks or 1
        expect(result.stdout == f"{replicas} replica{'s' if replicas > 1 else ''}, sum of ids {replicas * (replicas - 1) // 2}\n", result.stdout)

    return case


def descends(ranks):
    def case():
        result = launcher.run(ranks, descent)
        expect(result.returncode == 0, result.stderr)
        expect(result.stdout == "y = 3.00 x + 1.00\n", result.stdout)

    return case


def descends_within_little_address_space():
    """The arena is smaller then, without a message."""
    result = launcher.run(2, "sh", "-c", f"ulimit -v 3000000 && exec {descent}")
    expect(result.returncode == 0, result.stderr)
    expect(result.stdout == "y = 3.00 x + 1.00\n", result.stdout)
    expect("lockstep:" not in result.stderr, result.stderr)


def ends_badly(fault, parts, ranks=2, **variables):
    """The job ends with a non-zero code, in time, and its text is printed once."""

    def case():
        result = launcher.run(ranks, faults, fault, env=dict(os.environ, **variables), timeout=100)
        expect(result.returncode != 0, "exit code 0:\n" + result.stderr)
        expect_in(parts, result.stderr)
        # where Open MPI's own daemon fails to end the job in time, the other ranks print the text, too: at the earliest
        # REPEATED_AFTER_S after the first one
        if "ORTE_ERROR_LOG" not in result.stderr and result.seconds < REPEATED_AFTER_S:
            expect(result.stderr.count(parts[0]) == 1, f"{parts[0]!r} is printed more than once:\n{result.stderr}")

    return case


def wrong_launcher():
    result = launcher.run(0, hello, env=dict(os.environ, PMI_SIZE="4", OMPI_COMM_WORLD_SIZE="4"))
    expect(result.returncode != 0, "exit code 0")
    expect_in(["MPI sees one rank", "LOCKSTEP_ALLOW_SINGLETON"], result.stderr)


def batch_script():
    result = launcher.run(0, hello, env=dict(os.environ, SLURM_NTASKS="4", SLURM_PROCID="0"))
    expect(result.returncode == 0, result.stderr)


def first_task_of_a_step():
    env = dict(os.environ, SLURM_NTASKS="4", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="4")
    result = launcher.run(0, hello, env=env)
    expect(result.returncode != 0, "exit code 0")
    expect_in(["MPI sees one rank", "SLURM_STEP_NUM_TASKS=4", "srun"], result.stderr)


def unknown_variable():
    result = launcher.run(2, hello, env=dict(os.environ, LOCKSTEP_TIMOUT="3"))
    expect(result.returncode == 0, result.stderr)
    expect(result.stderr.count("LOCKSTEP_TIMOUT") == 1, result.stderr)


# a program under AddressSanitizer needs all of the address space
LITTLE_SPACE = [] if "ASAN_OPTIONS" in os.environ else [("little address space is enough", descends_within_little_address_space)]

sys.exit(run_cases([
    ("hello runs without mpiexec", says_hello(0)),
    ("hello runs on 1 rank", says_hello(1)),
    ("an MPI program adopts lockstep on 1 rank", descends(1)),
    ("an MPI program adopts lockstep on 2 ranks", descends(2)),
    ("an MPI program adopts lockstep on 3 ranks", descends(3)),
    *LITTLE_SPACE,
    ("hello runs on 2 ranks", says_hello(2)),
    ("hello runs on 3 ranks", says_hello(3)),
    ("an uncaught exception on one rank ends the job", ends_badly("throw-on-one", ["out of apples", "uncaught"], ranks=3)),
    ("an uncaught error that all ranks share is printed once", ends_badly("mismatch", ["ranks disagree", "[3]", "[4]"], ranks=3)),
    ("an exception caught outside the environment ends the job", ends_badly("throw-through", ["out of apples"], ranks=3)),
    ("a rank that never calls is named", ends_badly("absent", ["waiting for rank 1"])),
    ("an exception in one replica reaches the other ranks", ends_badly("throw-in-step", ["out of apples"], ranks=3)),
    ("a timeout that is not a number is refused", ends_badly("none", ["LOCKSTEP_TIMEOUT=\"soon\""], ranks=3, LOCKSTEP_TIMEOUT="soon")),
    ("a launcher of another MPI is refused", wrong_launcher),
    ("a batch script is not a launcher", batch_script),
    ("the first task of a step of several is not the only rank", first_task_of_a_step),
    ("an unknown variable is reported once", unknown_variable),
]))
