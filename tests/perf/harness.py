# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs lockstep-perf under mpiexec, as a user would, and tests with it. Prints TAP.

Arguments of the test programs: RANKS PROGRAM FAULT MPIEXEC [OPTION...]

FAULT is a library to be preloaded that corrupts results of MPI's own collectives; "none" if that is not possible.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import Skip, run_cases  # noqa: E402


class Harness:
    def __init__(self, ranks, program, fault, launcher):
        self.ranks, self.program, self.fault, self.launcher = ranks, program, fault, launcher
        self.folder = tempfile.TemporaryDirectory()
        self.files = 0

    def file(self, text=None, end=''):
        self.files += 1
        name = os.path.join(self.folder.name, f'file{self.files}{end}')
        if text is not None:
            with open(name, 'w', encoding='utf-8') as file:
                file.write(text)
        return name

    def run(self, arguments, variables=None, before=()):
        command = self.launcher + ['-n', str(self.ranks), *before, self.program, *arguments]
        return subprocess.run(command, env={**os.environ, **(variables or {})}, capture_output=True, text=True, timeout=200)

    def rows(self, arguments, code=0, calls=('3', '1'), **how):
        """Runs a sweep; returns its rows, its environment and its output. `calls`: timed calls, calls for warm-up."""
        name = self.file()
        done = self.run(['-n', calls[0], '-w', calls[1], *arguments, '--json', name], **how)
        assert done.returncode == code, f'exit code {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}'
        with open(name, encoding='utf-8') as file:
            content = json.load(file)
        return content['rows'], content['environment'], done.stdout

    def rows_with_fault(self, arguments):
        if self.fault == 'none':
            raise Skip('a sanitizer must be the first library that is loaded')
        return self.rows(arguments, code=1, before=['env', 'LD_PRELOAD=' + self.fault])

    def refuses(self, arguments, parts, variables=None, before=()):
        """Expects that one rank prints the reason, in one line that contains `parts`."""
        done = self.run(arguments, variables, before)
        spoken = [line for line in done.stderr.splitlines() if line.startswith('lockstep-perf:')]
        assert done.returncode == 2, f'{arguments}: exit code {done.returncode}:\n{done.stdout}{done.stderr}'
        assert len(spoken) == 1, spoken
        assert [part for part in parts if part not in spoken[0]] == [], (parts, spoken)
        assert done.stdout.strip() == '' or 'lockstep' not in done.stdout, done.stdout


def run_tests(tests):
    ranks, program, fault, launcher = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    harness = Harness(ranks, program, fault, launcher)
    return run_cases([(f'{test.__name__} ({ranks} ranks)', lambda test=test: test(harness)) for test in tests])
