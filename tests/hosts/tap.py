# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Test cases on simulated hosts, printed as TAP."""

import sys
import traceback

import hosts


def enter_or_skip(name):
    """Enters namespaces; where that cannot be, prints `name` as skipped and ends the program."""
    try:
        hosts.enter()
        with hosts.Hosts(2) as pair:
            tried = pair.run([1, 1], ['hostname'], timeout=30)
            if sorted(tried.stdout.split()) != ['h1', 'h2']:
                raise hosts.Unavailable(f'mpirun does not start ranks there: {" ".join(tried.stderr.split())[-300:]}')
    except hosts.Unavailable as reason:
        print(f'1..1\nok 1 - {name} # SKIP no simulated hosts: {reason}', flush=True)
        sys.exit(0)


def run_cases(cases):
    """Runs each (name, function); the exit code is for sys.exit."""
    failed = 0
    print(f'1..{len(cases)}', flush=True)
    for number, (name, case) in enumerate(cases, 1):
        try:
            case()
            print(f'ok {number} - {name}', flush=True)
        except Exception:  # a failed case is a result
            failed += 1
            print(f'not ok {number} - {name}')
            print(*(f'# {line}' for line in traceback.format_exc().splitlines()), sep='\n', flush=True)
    return 1 if failed else 0


def expect(holds, what):
    if not holds:
        raise AssertionError(what)
