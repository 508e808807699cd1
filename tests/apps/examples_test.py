#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The examples: what they print, and that they are short.

examples_test.py SOURCES PROGRAM... -- MPIEXEC [OPTION...]
"""

import os
import pathlib
import random
import shutil
import sys
import tempfile

from programs import Launcher, expect, run_cases
from tap import Skip

end = sys.argv.index("--")
sources = sys.argv[1]
programs = {os.path.basename(path): path for path in sys.argv[2:end]}
launcher = Launcher(sys.argv[end + 1:])

MOST_LINES = 60
# Built where their compiler or library is found; the last two are not run without a GPU.
OPTIONAL = {"example-heat", "example-eigen", "example-mpi-nccl", "example-mpi-nccl-before"}


def prints(expected, name, *arguments, ranks=0):
    def case():
        result = launcher.run(ranks, programs[name], *arguments)
        expect(result.returncode == 0, result.stderr)
        expect(result.stdout == expected, result.stdout)

    return case


def program_if_built(name, reason):
    """The path of an optional example; skips the case if it was not built, for this reason."""
    if name not in programs:
        raise Skip(f"{name} was not built: {reason}")
    return programs[name]


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


def makes_the_same_iterations():
    results = [launcher.run(ranks, programs["example-reproducible-solver"]) for ranks in (1, 2, 3, 4)]
    for result in results:
        expect(result.returncode == 0, result.stderr)
        expect(result.stdout == results[0].stdout and " steps, residual 0x1." in result.stdout, result.stdout)


def prints_the_heat_of_a_rod():
    result = launcher.run(2, program_if_built("example-heat", "there is no compiler for Fortran, or none that fits MPI and the sanitizers"))
    expect(result.returncode == 0, result.stderr)
    expect(result.stdout == HEAT, result.stdout)


def prints_a_fit_with_eigen():
    result = launcher.run(3, program_if_built("example-eigen", "there is no Eigen 3.4 (Debian package libeigen3-dev)"))
    expect(result.returncode == 0, result.stderr)
    expect(result.stdout == FIT, result.stdout)


def write_csv(path):
    """400 rows, of which some have the wrong label."""
    numbers = random.Random(1)
    lines = ["id,label,x0,x1,x2,x3"]
    for row in range(400):
        x = [numbers.uniform(-1, 1) for _ in range(4)]
        label = int(3 * x[0] - 2 * x[1] + x[2] + numbers.gauss(0, 0.3) > 0)
        lines.append(f"{row},{label}," + ",".join(f"{value:.4f}" for value in x))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def trains_from_csv(ranks, path, folder, steps):
    """The steps of this run, its loss and its accuracy, as printed; and the bytes of its last checkpoint."""
    result = launcher.run(ranks, programs["example-csv-training"], path, folder, steps)
    expect(result.returncode == 0, result.stderr)
    done, numbers = result.stdout.split(": ")
    return done, numbers, (folder / f"step-{steps:012}" / "state.safetensors").read_bytes()


def csv_training_resumes_with_the_same_numbers():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        path = scratch / "rows.csv"
        write_csv(path)
        final = {}
        for ranks in (1, 2):
            first = trains_from_csv(ranks, path, scratch / f"resumed-{ranks}", 55)
            if ranks == 1:
                shutil.copytree(scratch / "resumed-1", scratch / "moved")
            second = trains_from_csv(ranks, path, scratch / f"resumed-{ranks}", 130)
            whole = trains_from_csv(ranks, path, scratch / f"whole-{ranks}", 130)
            expect((first[0], second[0], whole[0]) == ("steps 0 to 55", "steps 55 to 130", "steps 0 to 130"),
                   (first[0], second[0], whole[0]))
            expect(second[1:] == whole[1:] and first[1] != whole[1], (first[1], second[1], whole[1]))
            accuracy = float(whole[1].split()[-1])
            expect(0.9 <= accuracy <= 1, whole[1])
            final[ranks] = whole[1]
        moved = trains_from_csv(2, path, scratch / "moved", 130)
        expect(final[1] == final[2] == moved[1], (final, moved[1]))


def csv_training_refuses_wrong_arguments():
    for arguments in (["rows.csv", "folder"], ["rows.csv", "folder", "0"]):
        result = launcher.run(0, programs["example-csv-training"], *arguments)
        expect(result.returncode == 2 and "usage: example-csv-training FILE" in result.stderr, result.stderr)


def nccl_loop_needs_a_gpu():
    """Prints its result on a machine with a GPU, and fails elsewhere."""
    result = launcher.run(2, program_if_built("example-mpi-nccl", "this is a build without CUDA or without nccl.h"))
    if result.returncode == 0:
        expect(result.stdout == "2 ranks, weights 0.500\n", result.stdout)
    else:
        expect("no GPU" in result.stderr, result.stderr)


def is_refused_where_a_call_is_forgotten():
    result = launcher.run(3, programs["example-forgotten-call"])
    expect(result.returncode != 0 and "ranks disagree on operation #4 of world" in result.stderr, result.stderr)


def all_are_short_and_run_here():
    names = sorted(name for name in os.listdir(sources) if name.endswith((".cpp", ".c", ".F90")))
    expected = {f"example-{name.replace('.cpp', '').replace('.F90', '').replace('_', '-').replace('.', '-')}" for name in names}
    expect(expected | OPTIONAL == set(programs) | OPTIONAL, names)
    for name in names:
        with open(os.path.join(sources, name), encoding="utf-8") as file:
            lines = len(file.readlines())
        expect(lines <= MOST_LINES, f"{name} has {lines} lines, more than {MOST_LINES}")


LINE = "y = 3.00 x + 1.00, loss below 1e-6: yes\n"
V1_LINE = "y = 2.00 x after 50 steps, variables of each session's own: yes\n"
FIT = ("y = 1.000 -2.000 x +3.000 x^2\nrank 0: x from 0.00 to 0.33\nrank 1: x from 0.33 to 0.67\n"
       "rank 2: x from 0.67 to 1.00\n")
LARGE_BATCH = "{} replica(s): distance to the solution below 0.01: yes; state of this rank: {} of 128 numbers\n"
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
    ("a reproducible solver makes the same iterations on 1, 2, 3 and 4 ranks", makes_the_same_iterations),
    ("large batches on 1 rank", prints(LARGE_BATCH.format(1, "128"), "example-large-batch", ranks=1)),
    ("large batches on 4 ranks", prints(LARGE_BATCH.format(4, "32"), "example-large-batch", ranks=4)),
    ("a program in C", prints("3 ranks, total 6, slowest 20\n", "example-collectives-c", ranks=3)),
    ("a program in Fortran", prints_the_heat_of_a_rod),
    ("a fit with Eigen", prints_a_fit_with_eigen),
    ("CSV training ends with the same numbers after a restart", csv_training_resumes_with_the_same_numbers),
    ("CSV training refuses wrong arguments", csv_training_refuses_wrong_arguments),
    ("a loop of MPI and NCCL, moved over", nccl_loop_needs_a_gpu),
    ("a forgotten call is an error", is_refused_where_a_call_is_forgotten),
    ("every example is short and is run here", all_are_short_and_run_here),
]))
