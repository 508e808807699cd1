#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs programs under mpiexec; test cases are those of tap.py."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import expect, run_cases  # noqa: E402, F401 (for the tests)


class Launcher:
    """The launcher that precedes a program on the command line: mpiexec with its options."""

    def __init__(self, command):
        self.command = command

    def run(self, ranks, *arguments, env=None, timeout=100):
        """Returns the finished process; without mpiexec if ranks is 0."""
        command = [str(a) for a in arguments]
        if ranks:
            command = self.command + ["-n", str(ranks)] + command
        start = time.monotonic()
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, check=False)
        result.seconds = time.monotonic() - start
        return result


def expect_in(parts, text):
    for part in parts:
        expect(part in text, f"{part!r} is missing in:\n{text}")
