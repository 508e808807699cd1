#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of tests/mpi on simulated hosts: programs_test.py MPIRUN PROGRAM... Prints TAP."""

import os
import sys

import hosts
import tap

mpirun, *programs = sys.argv[1:]
hosts.enter_or_skip('programs on simulated hosts')


def passes(program, ranks):
    def case():
        with hosts.Hosts(len(ranks), mpirun=mpirun) as these:
            result = these.run(ranks, [program], timeout=900)
            # MPICH before 4.2 may hang in MPI_Finalize between hosts that have only TCP (docs/troubleshooting.md)
            is_ended_late = these.version is None and result.returncode is not None and 'MPI_Finalize has not returned within' in result.stderr
        tap.expect(result.returncode == 0 or is_ended_late, f'exit code {result.returncode}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}')
        tap.expect('[  PASSED  ]' in result.stdout and '[  FAILED  ]' not in result.stdout, result.stdout[-3000:])

    return case


def layouts(program):
    """The layouts of a program. Slow programs whose results do not depend on the number of hosts run on two only, all in a quick run."""
    return ([2, 2], [2, 1, 1]) if 'communicator' in program and 'QUICK_TESTS' not in os.environ else ([2, 2],)


sys.exit(tap.run_cases([(f'{os.path.basename(program)} with {"+".join(map(str, ranks))} ranks', passes(program, ranks))
                        for program in programs for ranks in layouts(program)]))
