#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that train with libtorch.

programs_test.py SOURCES EXAMPLE LAYOUTS -- MPIEXEC [OPTION...]
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "apps"))
from programs import Launcher, expect, run_cases  # noqa: E402

sources, example, layouts = sys.argv[1:4]
launcher = Launcher(sys.argv[sys.argv.index("--") + 1:])


def losses(ranks, *arguments):
    result = launcher.run(ranks, example, *arguments)
    expect(result.returncode == 0, result.stderr)
    lines = [re.fullmatch(r"epoch (\d+), loss (\d+\.\d+)", line) for line in result.stdout.splitlines()]
    expect(all(lines) and [int(line[1]) for line in lines] == list(range(1, 11)), result.stdout)
    return [float(line[2]) for line in lines]


def the_losses_are_those_of_one_process():
    alone = losses(2, "alone")
    expect(alone[-1] < alone[0] / 2, alone)
    for ranks in (1, 2, 3):
        together = losses(ranks)
        expect(all(abs(a - b) <= 1e-3 * a for a, b in zip(alone, together)), f"{ranks} ranks: {together}, alone: {alone}")


def a_wrong_argument_is_refused():
    result = launcher.run(1, example, "x")
    expect(result.returncode == 2 and 'the argument is "x"' in result.stderr, result.stderr)


def the_bits_depend_on_the_replicas_and_not_on_the_ranks():
    lines = []
    for ranks in (1, 2, 4):
        result = launcher.run(ranks, layouts, 4 // ranks)
        expect(result.returncode == 0, result.stderr)
        lines.append(result.stdout)
    expect(len(set(lines)) == 1 and re.fullmatch(r"4 replicas, [0-9a-f]{16}\n", lines[0]), lines)


def the_page_shows_the_example():
    with open(os.path.join(sources, "apps/torch/torch_training.cpp"), encoding="utf-8") as file:
        program = file.read().split("\n\n", 1)[1]
    with open(os.path.join(sources, "include/lockstep/interop/TORCH.md"), encoding="utf-8") as file:
        expect(f"```cpp\n{program}```\n" in file.read(), "TORCH.md has another program than apps/torch/torch_training.cpp")
    expect(len(program.splitlines()) <= 60, f"{len(program.splitlines())} lines")


cases = (the_losses_are_those_of_one_process, a_wrong_argument_is_refused,
         the_bits_depend_on_the_replicas_and_not_on_the_ranks, the_page_shows_the_example)
sys.exit(run_cases([(case.__name__.replace("_", " "), case) for case in cases]))
