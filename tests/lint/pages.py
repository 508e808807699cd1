#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the table of the pages' samples in tests/README.md with the tests in tests/pages/.

  pages.py [ROOT]     prints each difference; exits 1 if there is one

A row is `| sample | `Suite.test` |`, under a heading row that names the page's suite. Each test has one row,
and each row names a test.
"""

import glob
import os
import re
import sys

TEST = re.compile(r'^TEST\((\w+Page), (\w+)\)', re.MULTILINE)
ROW = re.compile(r'^\|[^|]*\| `(\w+Page\.\w+)` \|$', re.MULTILINE)
SUITES = ('MirroredStrategyPage', 'OneDeviceStrategyPage', 'StrategyPage', 'V1MirroredStrategyPage', 'StrategyExtendedPage')


def differences(tests, rows):
    for name in sorted(set(tests) - set(rows)):
        yield f'{name}: a test of tests/pages/ that is not in the table of tests/README.md'
    for name in sorted(set(rows) - set(tests)):
        yield f'{name}: in the table of tests/README.md, but there is no such test in tests/pages/'
    for name in sorted({name for name in rows if rows.count(name) > 1}):
        yield f'{name}: twice in the table of tests/README.md'
    for suite in SUITES:
        if not any(name.startswith(suite + '.') for name in tests):
            yield f'{suite}: a page without tests'


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
    tests = []
    for path in sorted(glob.glob(os.path.join(root, 'tests/pages/*_test.cpp'))):
        with open(path, encoding='utf-8') as file:
            tests += ['.'.join(found) for found in TEST.findall(file.read())]
    with open(os.path.join(root, 'tests/README.md'), encoding='utf-8') as file:
        rows = ROW.findall(file.read())
    found = list(differences(tests, rows))
    for text in found:
        print(text)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
