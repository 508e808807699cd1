#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs programs in virtual time with random delays of their threads, as on a busy machine, with new seeds.

  as_if_busy.py [--first SEED] [--seconds S] PROGRAM...   (default: a seed from the clock, 60 s)

Each program runs with one seed after the other until the time is over. Prints the command that repeats a failure; ends with "N runs, N failed".
"""

import os
import re
import subprocess
import sys
import time

# these compare thousands of layouts
FILTER = '--gtest_filter=-*many_replicas*:*most_replicas*'


def run(program, seed):
    """The names of the tests that failed, or another reason; empty if all passed."""
    environment = {**os.environ, 'LOCKSTEP_VIRTUAL_SEED': str(seed), 'LOCKSTEP_VIRTUAL_DELAYS': '8'}
    done = subprocess.run([program, FILTER], env=environment, capture_output=True, text=True, errors='replace', check=False)
    if done.returncode == 0:
        return ''
    failed = re.findall(r'^\[  FAILED  \] ([^,\s]+).* \(\d+ ms\)$', done.stdout, re.MULTILINE)
    return ' '.join(failed) or (done.stderr or done.stdout)[-500:]


def main():
    arguments = sys.argv[1:]
    options = {'--first': int(time.time()), '--seconds': 60}
    while arguments[:1] and arguments[0] in options:
        options[arguments[0]] = int(arguments[1])
        arguments = arguments[2:]
    if not arguments:
        sys.exit(__doc__)
    end = time.monotonic() + options['--seconds']
    seed, runs, failures = options['--first'], 0, 0
    while time.monotonic() < end:
        for program in arguments:
            runs += 1
            if reason := run(program, seed):
                failures += 1
                print(f'LOCKSTEP_VIRTUAL_SEED={seed} LOCKSTEP_VIRTUAL_DELAYS=8 {program}: {reason}', flush=True)
        seed += 1
    print(f'{runs} runs, {failures} failed')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
