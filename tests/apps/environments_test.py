#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that use lockstep twice: in main, in libraries, and in the drop-in that is loaded before them.

environments_test.py PROGRAM PROGRAM_WITH_A_COPY DROP_IN MPIEXEC [OPTION...]
"""

import glob
import os
import sys
import tempfile

from programs import Launcher, expect, expect_in, run_cases

program, with_copy, drop_in = sys.argv[1:4]
launcher = Launcher(sys.argv[4:])
RANKS = 2
SUM = "sum 3 of 2 ranks"
PRELOADED = {"LD_PRELOAD": drop_in, "LOCKSTEP_MPI": "on"}
TAKEN = "lockstep: rank 0: taken over: "


def output_of(steps, executable=program, **variables):
    """What the ranks of a job that makes these steps print; its exit code is 0."""
    result = launcher.run(RANKS, executable, *steps.split(), env=dict(os.environ, **variables), timeout=300)
    text = result.stdout + result.stderr
    expect(result.returncode == 0, f"exit code {result.returncode}:\n{text}")
    return text


def is_right(steps, parts=(), **variables):
    """Each step of a sum is right, MPI has been finalized after the last step and not before, and the output has `parts`."""

    def case():
        text = output_of(steps, **variables)
        words = steps.split()
        for part, name in (("m", "main"), ("a", "a"), ("b", "b")):
            wanted = words.count(f"{part}s") + words.count(f"{part}l")
            expect(text.count(f"{name}: {SUM}") == wanted, f"not {wanted} sums of {name}:\n{text}")
        expect(text.count("MPI: sum 3") == words.count("sum"), f"sums of MPI are wrong or missing:\n{text}")
        expect(text.count("MPI has been finalized") == 1, f"MPI is finalized too early, or not:\n{text}")
        expect_in([f"{words[-1]}: MPI has been finalized", "done", *parts], text)
        expect("lockstep: " not in text or parts, text)

    return case


def differing_options_are_refused():
    text = output_of("m9 a7 a+ as a- ms m-")
    expect_in(["a7: failed_precondition: Environment: EnvironmentOptions::finalize_after is 7 s at ", "environments.hpp:",
               "but an earlier Environment of this process set it to 9 s at ", f"a: {SUM}", f"main: {SUM}"], text)
    for steps in ("m7 a7 as a+ m- as a-", "m+ a7 as a- m-"):
        text = output_of(steps)
        expect("failed_precondition" not in text, text)
    expect("failed_precondition" not in output_of("m7 ms m-", **PRELOADED), "under the drop-in")


def copies_are_refused():
    result = launcher.run(RANKS, with_copy, "m+", env=dict(os.environ), timeout=300)
    text = result.stdout + result.stderr
    expect_in(["failed_precondition: Environment: this process has loaded several copies of lockstep", os.path.realpath(with_copy),
               "liblockstep.so", "link all of them with one liblockstep.so"], text)


def files_without_environment():
    with tempfile.TemporaryDirectory() as folder:
        text = output_of("init ms as finalize", LOCKSTEP_TRACE=f"{folder}/trace", LOCKSTEP_HASH_LOG=f"{folder}/hashes",
                         LOCKSTEP_METRICS=f"{folder}/metrics.prom")
        expect_in([f"main: {SUM}", f"a: {SUM}", "done"], text)
        for pattern, part in (("hashes/*", '"out":'), ("trace/*", "all_reduce"), ("metrics*", "all_reduce")):
            files = glob.glob(f"{folder}/{pattern}")
            expect(len(files) == RANKS, f"{pattern}: {files}")
            for file in files:
                with open(file, encoding="utf-8", errors="replace") as written:  # a trace is binary
                    expect_in([part], written.read())


def wrong_files_without_environment():
    """The rank whose file cannot be written says so, and the other one learns it."""
    on_rank_1 = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && export LOCKSTEP_HASH_LOG=/dev/null/folder; exec "$@"'
    result = launcher.run(RANKS, "sh", "-c", on_rank_1, "sh", program, "init", "ms", "finalize", env=dict(os.environ), timeout=300)
    text = result.stdout + result.stderr
    expect(result.returncode == 0, text)
    expect_in(['ms: invalid_argument: LOCKSTEP_HASH_LOG="/dev/null/folder"', "ms: unavailable: "], text)
    expect(text.count("/dev/null/folder") >= 2, text)


def an_exception_ends_the_job():
    result = launcher.run(RANKS, program, "init", "mx", "finalize", env=dict(os.environ, **PRELOADED), timeout=300)
    text = result.stdout + result.stderr
    expect(result.returncode == 1, f"exit code {result.returncode}:\n{text}")
    expect_in(["Environment is destroyed by an exception; aborting the job in 2 s"], text)


CASES = [
    ("main, then a library, which ends first", is_right("m+ a+ as ms a- ms m-")),
    ("a library, then main, which ends first: the library goes on", is_right("a+ m+ ms m- as a-")),
    ("two libraries, and nothing in main", is_right("a+ b+ as bs a- bs b-")),
    ("a library whose Environment does not delay the end", is_right("bp m+ bs ms m-")),
    ("a library that comes and goes", is_right("m+ a+ as a- a+ as a- ms m-")),
    ("a program that initializes MPI by itself", is_right("init a+ m+ as m- as a- m+ ms m- sum finalize")),
    ("a rank still has a communicator when the other one ends its Environment", is_right("init m+ ml m- al m+ ml m- as finalize")),
    ("an exception destroys the Environment of a library only", is_right("m+ ax ms m-")),
    ("options that differ from those of the first are refused", differing_options_are_refused),
    ("two copies of lockstep are refused, with the path of each", copies_are_refused),
    ("without an Environment, there are metrics, traces and hash logs, too", files_without_environment),
    ("without an Environment, a file that cannot be written is an error on every rank", wrong_files_without_environment),
    ("a program with an Environment, under the drop-in", is_right("m+ sum ms a+ as sum a- m-", [TAKEN], **PRELOADED)),
    ("a program that initializes MPI, and a library, under the drop-in",
     is_right("init sum a+ as a- sum finalize", [TAKEN + "2 MPI_Allreduce"], **PRELOADED)),
    ("an Environment that does not delay the end, and initializes MPI, under the drop-in", is_right("mp ms sum m-", [TAKEN], **PRELOADED)),
    ("an exception that destroys the only Environment of a program under the drop-in ends the job", an_exception_ends_the_job),
]
sys.exit(run_cases(CASES))
