#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs programs under mpiexec and reports test cases in TAP, the format that Meson counts."""

import subprocess
import sys
import time
import traceback


class Launcher:
    """What stands before a program on the command line: mpiexec with its options."""

    def __init__(self, command):
        self.command = command

    def run(self, ranks, *arguments, env=None, timeout=100):
        """The finished process; ranks 0 means: without mpiexec."""
        command = [str(a) for a in arguments]
        if ranks:
            command = self.command + ["-n", str(ranks)] + command
        start = time.monotonic()
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, check=False)
        result.seconds = time.monotonic() - start
        return result


def run_cases(cases):
    """Runs each (name, function) and prints its result; the exit code is for sys.exit."""
    print(f"TAP version 13\n1..{len(cases)}")
    failed = 0
    for number, (name, case) in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {name}", flush=True)
        except Exception:  # a failed case is a result
            failed += 1
            print(f"not ok {number} - {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            sys.stdout.flush()
    return 1 if failed else 0


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def expect_in(parts, text):
    for part in parts:
        expect(part in text, f"{part!r} is missing in:\n{text}")
