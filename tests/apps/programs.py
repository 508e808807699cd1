#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs programs under mpiexec; test cases are those of tap.py."""

import os
import pathlib
import signal
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
        for _ in range(3):
            start = time.monotonic()
            result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, check=False)
            result.seconds = time.monotonic() - start
            if not (ranks and result.returncode == -signal.SIGSEGV):
                break  # mpirun of Open MPI 4.1 itself crashes now and then while it ends an aborted job
        return result


def descendants_of(process):
    """Processes that `process` has started, directly or not."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass  # it has ended
    found = [process.pid]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def ranks_under(process, program):
    """The process ids of the ranks that run `program`."""
    name = pathlib.Path(program).name[:15]
    ranks = []
    for pid in descendants_of(process):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                ranks.append(pid)
        except OSError:
            pass
    return ranks


def kill(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def marked_line(source, name, comment):
    """"NAME:N" for the line of the file NAME in tests/ that ends with this comment, as error texts name it."""
    with open(os.path.join(source, "tests", name), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.rstrip().endswith("// " + comment):
                return f"{name}:{number}"
    raise AssertionError(f"no line of {name} ends with // {comment}")


def expect_in(parts, text):
    for part in parts:
        expect(part in text, f"{part!r} is missing in:\n{text}")
