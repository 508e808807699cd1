#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what must be built for the tests of a build folder that are in none of the named suites, as paths for ninja.

  targets.py BUILD SUITE...
"""

import json
import os
import sys


def described(build, what):
    with open(os.path.join(build, 'meson-info', f'intro-{what}.json'), encoding='utf-8') as file:
        return json.load(file)


def main():
    build, left_out = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    files = {target['id']: target['filename'] for target in described(build, 'targets')}
    needed = {}
    for test in described(build, 'tests'):
        if not left_out & {suite.split(':')[-1] for suite in test['suite']}:
            for target in test['depends']:
                needed.update(dict.fromkeys(files[target]))
    print(*(os.path.relpath(path, build) for path in needed))


if __name__ == '__main__':
    main()
