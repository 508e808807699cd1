#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that leave the job, under a launcher that sees it and under one that does not.

leaving_test.py PART LEAVING COUNT_ABORTS MPIEXEC [OPTION...]     PART: most, rest
"""

import os
import re
import sys

from programs import Launcher, expect, expect_in, run_cases

part, program, count_aborts = sys.argv[1:4]
launcher = Launcher(sys.argv[4:])
RANKS = 3
# The shell of each rank goes on after the rank, and hides its exit code.
HIDDEN = ["sh", "-c", '"$@"; sleep 300; exit 0', "sh"]
ON_ONE_RANK = ["sh", "-c", '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && export LOCKSTEP_TIMEOUT=soon; "$@"; sleep 300; exit 0', "sh"]
MESSAGES = {"LOCKSTEP_SHARED_MEMORY": "0"}
LEFT = "has destroyed its communicator"
LEFT_BY_EXCEPTION = "an exception has destroyed its communicator"


def run(*arguments, wrapper=(), **variables):
    # a deadline after which a test would have failed already
    environment = dict(os.environ, **{"LOCKSTEP_TIMEOUT": "100,200", **variables})
    for _ in range(2):
        result = launcher.run(RANKS, *wrapper, program, *arguments, env=environment, timeout=150)
        if "ORTE_ERROR_LOG: Out of resource" not in result.stderr:
            break  # otherwise mpirun of Open MPI 4.1 may have lost output while it ended an aborted job
    return result


def tells_the_others(fault, text, code, wrapper=HIDDEN, **variables):
    """Each other rank gets Error(unavailable) with `text` in its present and in its next call, long before the deadline; then
    the job ends."""

    def case():
        for _ in range(3):
            result = run(fault, wrapper=wrapper, **variables)
            # an exception aborts the job 2 s later, which may be too soon for the other ranks to print
            if code != 1 or len(re.findall(r"^rank [0-9], [0-9.]+ s: ", result.stdout, re.MULTILINE)) == 2 * (RANKS - 1):
                break
        output = result.stdout + result.stderr
        expect(result.returncode == code, f"exit code {result.returncode}:\n{output}")
        for rank in range(RANKS - 1):
            errors = re.findall(rf"^rank {rank}, ([0-9.]+) s: (.*)$", result.stdout, re.MULTILINE)
            expect(len(errors) == 2, f"rank {rank} has {len(errors)} errors:\n{output}")
            for seconds, error in errors:
                expect_in(["unavailable: ", "rank 2 ", text], error)
                expect(float(seconds) < 90, f"rank {rank} waited {seconds} s:\n{output}")
            expect_in(["no longer works, because of an earlier failure: "], errors[1][1])

    return case


def ends_the_job(fault, code, parts=(), catcher="all", wrapper=(), **variables):
    def case():
        for _ in range(3):
            result = run(fault, catcher, wrapper=wrapper, **variables)
            output = result.stdout + result.stderr
            # one rank prints; the others abort the job a moment later, which may be too soon
            if all(part in output for part in parts):
                break
        if code is not None:
            expect(result.returncode == code, f"exit code {result.returncode}:\n{output}")
        expect_in(parts, output)

    return case


def leaves_in_order(fault, **variables):
    def case():
        result = run(fault, **variables)
        expect(result.returncode == 0, f"exit code {result.returncode}:\n{result.stderr}")
        expect(not result.stdout and "lockstep:" not in result.stderr, result.stdout + result.stderr)

    return case


def aborts_once(fault):
    def case():
        result = run(fault, LD_PRELOAD=count_aborts)
        calls = re.findall("^MPI_Abort in process ([0-9]+) ", result.stderr, re.MULTILINE)
        expect(calls, "no call of MPI_Abort:\n" + result.stderr)
        expect(len(calls) == len(set(calls)), "a process calls MPI_Abort twice:\n" + result.stderr)
        expect("egmentation" not in result.stderr, result.stderr)

    return case


def told(name, variables):
    return [
        ("an exit is told" + name, tells_the_others("exit", "has exited", 69, **variables)),
        ("an exit without cleaning up is told" + name, tells_the_others("_exit", "has exited", 69, **variables)),
        ("an exit with a code is told" + name, tells_the_others("_exit3", "has exited with code 3", 69, **variables)),
        ("a killed rank is told" + name, tells_the_others("kill", "has died of signal 9 (Killed)", 69, **variables)),
        ("a communicator that is destroyed is told" + name, tells_the_others("scope", LEFT, 0, wrapper=[], **variables)),
        ("a return from main is told" + name, tells_the_others("return", LEFT, 0, wrapper=[], **variables)),
        ("a call of MPI_Finalize is told" + name,
         tells_the_others("finalize", "has finalized MPI", 69, **variables)),
        ("an uncaught exception is told" + name, tells_the_others("throw", "failed: out of apples", 1, **variables)),
        ("an exception that main catches is told" + name, tells_the_others("throw-through", LEFT_BY_EXCEPTION, 1, **variables)),
        ("nothing is told at an orderly end" + name, leaves_in_order("none", **variables)),
        ("nothing is told if ranks end at different times" + name, leaves_in_order("late", **variables)),
        ("a communicator that exists when MPI is finalized ends" + name, leaves_in_order("static", **variables)),
    ]


def ended(name, wrapper):
    return [
        ("an exit ends the job" + name, ends_the_job("exit", None, wrapper=wrapper)),
        ("a killed rank ends the job" + name, ends_the_job("kill", None, wrapper=wrapper)),
        ("a stopped rank ends the job" + name,
         ends_the_job("stop", 69, ["waiting for rank 2; aborting the job with exit code 69"], wrapper=wrapper)),
        ("a lost rank that is not caught has its exit code" + name,
         ends_the_job("scope", 69, ["uncaught exception: unavailable: ", LEFT], catcher="none", wrapper=wrapper)),
        ("an exception has its exit code" + name,
         ends_the_job("throw", 1, ["uncaught exception: out of apples"], catcher="none", wrapper=wrapper)),
        ("an exception that main catches has its exit code" + name,
         ends_the_job("throw-through", 1, ["caught: out of apples"], catcher="none", wrapper=wrapper)),
    ]


PARTS = {
    "most": told("", {}) + [
        ("a stopped rank ends the job",
         ends_the_job("stop", 69, ["waiting for rank 2; aborting the job with exit code 69"])),
        ("a wrong variable on one rank ends the job", ends_the_job("none", 2, ['rank 1: LOCKSTEP_TIMEOUT="soon"'], wrapper=ON_ONE_RANK)),
        ("MPI_Abort is called once after an uncaught exception", aborts_once("throw")),
        ("MPI_Abort is called once after an exception that main catches", aborts_once("throw-through")),
    ],
    "rest": told(", without shared memory", MESSAGES) + ended("", []) + ended(", unseen by the launcher", HIDDEN),
}
sys.exit(run_cases(PARTS[part]))
