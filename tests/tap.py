# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Test cases printed as TAP, the format that Meson counts. Tests in other folders put its folder on sys.path."""

import traceback


class Skip(Exception):
    """Says why a case cannot run here."""


class Checks:
    """Prints results as they come."""

    def __init__(self):
        self.number = 0
        self.failed = 0

    def check(self, what, holds, detail=''):
        self.number += 1
        self.failed += not holds
        print(f'{"ok" if holds else "not ok"} {self.number} - {what}', flush=True)
        if not holds:
            print(*(f'# {line}' for line in str(detail).splitlines()[-60:]), sep='\n', flush=True)

    def end(self):
        """Where no plan came first; the exit code is for sys.exit."""
        print(f'1..{self.number}', flush=True)
        return 1 if self.failed else 0


def run_cases(cases):
    """Runs each (name, function); the exit code is for sys.exit."""
    print(f'1..{len(cases)}', flush=True)
    checks = Checks()
    for name, case in cases:
        try:
            case()
            checks.check(name, True)
        except Skip as reason:
            checks.check(f'{name} # SKIP {reason}', True)
        except Exception:  # a failed case is a result
            checks.check(name, False, traceback.format_exc())
    return 1 if checks.failed else 0


def expect(holds, what):
    if not holds:
        raise AssertionError(what)
