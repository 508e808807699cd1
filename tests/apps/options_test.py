#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The options that all programs have: --version, --help, and the refusal of unknown ones.

options_test.py VERSION MPI PROGRAM... -- MPIEXEC [OPTION...]

VERSION is lockstep's, MPI is openmpi or mpich.
"""

import os
import re
import sys

from programs import Launcher, expect, expect_in, run_cases

version, mpi = sys.argv[1:3]
end = sys.argv.index("--")
programs = sys.argv[3:end]
launcher = Launcher(sys.argv[end + 1:])
MPI = {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi]
# these use neither MPI nor the library
ALONE = ["lockstep-diff", "lockstep-explain"]
# the programs that end before MPI is initialized
PLAIN = ["lockstep-hello", "lockstep-descent"]


def named(program):
    return os.path.basename(program)


def shows_its_version(program):
    def case():
        result = launcher.run(0, program, "--version")
        expect(result.returncode == 0 and not result.stderr, result.stderr)
        lines = result.stdout.splitlines()
        expect(lines[0] == f"{named(program)} {version}", result.stdout)
        if named(program) in ALONE:
            expect(len(lines) == 1, result.stdout)
            return
        expect(re.fullmatch(rf"MPI      .*{MPI}.*", lines[1]), result.stdout)
        kernels = re.fullmatch(r"kernels  (\w+), compiled for (\w+(?:, \w+)*)", lines[2])
        expect(kernels and kernels[1] in kernels[2].split(", "), result.stdout)
        expect(re.match(r"GPUs     (no GPU: |\d+ GPU)", lines[3]) and len(lines) == 4, result.stdout)

    return case


def shows_its_options(program):
    def case():
        result = launcher.run(0, program, "--help")
        expect(result.returncode == 0 and not result.stderr, result.stderr)
        expect_in(["--help", "--version", named(program)], result.stdout)

    return case


def refuses(program, *arguments):
    def case():
        result = launcher.run(0, program, *arguments)
        expect(result.returncode == 2, f"exit code {result.returncode}:\n{result.stdout}{result.stderr}")
        expect(result.stderr.startswith(named(program) + ": ") and result.stdout == "", result.stdout + result.stderr)
        expect_in([arguments[-1], "--help"], result.stderr)

    return case


def speaks_once_under_the_launcher(program):
    def case():
        result = launcher.run(2, program, "--version")
        expect(result.returncode == 0 and result.stdout.count(version) == 1, result.stdout + result.stderr)
        result = launcher.run(2, program, "--speed=3")
        expect(result.returncode == 2, f"exit code {result.returncode}:\n{result.stderr}")
        expect(result.stderr.count("--speed") == 1, result.stderr)

    return case


cases = []
for path in programs:
    cases += [(f"{named(path)} shows its version", shows_its_version(path)),
              (f"{named(path)} shows its options", shows_its_options(path)),
              (f"{named(path)} refuses an unknown option", refuses(path, "--speed"))]
    if named(path) in PLAIN:
        cases += [(f"{named(path)} refuses an argument", refuses(path, "fast")),
                  (f"{named(path)} refuses a second argument", refuses(path, "--help", "--fast")),
                  (f"{named(path)} speaks once under the launcher", speaks_once_under_the_launcher(path))]
sys.exit(run_cases(cases))
