#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The examples: what they print, and that they are short.

examples_test.py SOURCES PROGRAM... -- MPIEXEC [OPTION...]
"""

import os
import sys

from programs import Launcher, expect, run_cases

end = sys.argv.index("--")
sources = sys.argv[1]
programs = {os.path.basename(path): path for path in sys.argv[2:end]}
launcher = Launcher(sys.argv[end + 1:])

MOST_LINES = 60


def prints(expected, name, *arguments, ranks=0):
    def case():
        result = launcher.run(ranks, programs[name], *arguments)
        expect(result.returncode == 0, result.stderr)
        expect(result.stdout == expected, result.stdout)

    return case


def prints_the_same_on_every_layout():
    """Expects the same output from the same replicas on 1, 2 and 4 ranks."""
    lines = {launcher.run(ranks, programs["example-workers"], 4 // ranks).stdout for ranks in (1, 2, 4)}
    expect(len(lines) == 1, lines)
    expect(lines.pop().startswith("4 replicas, pi is about 3.14"), lines)


def refuses_a_number_that_is_none():
    result = launcher.run(1, programs["example-workers"], "x")
    expect(result.returncode == 2, f"exit code {result.returncode}:\n{result.stderr}")
    expect('usage: example-workers [REPLICAS]; REPLICAS is "x", not a positive number' in result.stderr, result.stderr)


def prints_what_its_mpi_twin_prints(name, lines):
    """`lines` has the number of lines by the number of ranks."""
    def case():
        for ranks, count in lines.items():
            ported, before = (launcher.run(ranks, programs[f"{name}{end}"]) for end in ("", "-before"))
            expect(before.returncode == 0 and ported.returncode == 0, before.stderr + ported.stderr)
            expect(len(before.stdout.splitlines()) == count and ported.stdout == before.stdout,
                   before.stdout + ported.stdout)

    return case


def prints_the_heat_of_a_rod():
    """Skipped if there is no compiler for Fortran."""
    if "example-heat" not in programs:
        print("# example-heat was not built: there is no compiler for Fortran, or none that fits MPI and the sanitizers", flush=True)
        return
    result = launcher.run(2, programs["example-heat"])
    expect(result.returncode == 0, result.stderr)
    expect(result.stdout == HEAT, result.stdout)


def is_refused_where_a_call_is_forgotten():
    result = launcher.run(3, programs["example-forgotten-call"])
    expect(result.returncode != 0 and "ranks disagree on operation #4 of world" in result.stderr, result.stderr)


def all_are_short_and_run_here():
    names = sorted(name for name in os.listdir(sources) if name.endswith((".cpp", ".c", ".F90")))
    expected = {f"example-{name.replace('.cpp', '').replace('.F90', '').replace('_', '-').replace('.', '-')}" for name in names}
    expect(expected | {"example-heat"} == set(programs) | {"example-heat"}, names)
    for name in names:
        with open(os.path.join(sources, name), encoding="utf-8") as file:
            lines = len(file.readlines())
        expect(lines <= MOST_LINES, f"{name} has {lines} lines, more than {MOST_LINES}")


LINE = "y = 3.00 x + 1.00, loss below 1e-6: yes\n"
V1_LINE = "y = 2.00 x after 50 steps, variables of each session's own: yes\n"
HEAT = "total 1.000000, first cell 0.028201\n"
LOG = "1: mean of 3 x f32[2]\n2: sum of 3 x f64[]\n3: mean of 3 x f32[]\nmean loss 2, total 6\n"
AVERAGES = "in a step of two replicas: 1.5\nin cross-replica context: 1.875\nwithout a strategy: 1.5\n"

sys.exit(run_cases([
    ("a training loop on 1 device", prints(LINE, "example-mirrored", "cpu:0")),
    ("a training loop on 2 devices", prints(LINE, "example-mirrored")),
    ("a training loop on 3 devices", prints(LINE, "example-mirrored", "cpu:0", "cpu:1", "cpu:2")),
    ("one device", prints("1 replica, sum 90\n", "example-one-device")),
    ("a reader of the user's own", prints("sum of all numbers 270\n" * 2, "example-own-reader")),
    ("a library function in each context", prints(AVERAGES, "example-library-function")),
    ("a v1 loop on 1 device", prints(V1_LINE, "example-v1-loop", "cpu:0")),
    ("a v1 loop on 2 devices", prints(V1_LINE, "example-v1-loop")),
    ("a v1 loop on 3 devices", prints(V1_LINE, "example-v1-loop", "cpu:0", "cpu:1", "cpu:2")),
    ("cross-device ops of the user", prints(LOG, "example-cross-device-ops")),
    ("workers have the same digits on every layout", prints_the_same_on_every_layout),
    ("an argument that is not a number is refused", refuses_a_number_that_is_none),
    ("a ported MPI program prints what it printed on MPI",
     prints_what_its_mpi_twin_prints("example-ported-mpi", {2: 3, 3: 4})),
    ("conjugate gradients have the residuals that they had on MPI",
     prints_what_its_mpi_twin_prints("example-conjugate-gradient", {3: 15})),
    ("a program in C", prints("3 ranks, total 6, slowest 20\n", "example-collectives-c", ranks=3)),
    ("a program in Fortran", prints_the_heat_of_a_rod),
    ("a forgotten call is an error", is_refused_where_a_call_is_forgotten),
    ("every example is short and is run here", all_are_short_and_run_here),
]))
