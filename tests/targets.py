#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what must be built for tests of a build folder, as paths for ninja.

  targets.py BUILD [of SUITE...] [without SUITE...]     the tests that are in one of the first suites (default: all), and in none of the others
"""

import json
import os
import sys


def described(build, what):
    with open(os.path.join(build, 'meson-info', f'intro-{what}.json'), encoding='utf-8') as file:
        return json.load(file)


def main():
    build = os.path.abspath(sys.argv[1])
    suites = {'of': set(), 'without': set()}
    for word in sys.argv[2:]:
        if word in suites:
            chosen = suites[word]
        else:
            chosen.add(word)
    files = {target['id']: target['filename'] for target in described(build, 'targets')}
    needed = {}
    for test in described(build, 'tests'):
        own = {suite.split(':')[-1] for suite in test['suite']}
        if (not suites['of'] or suites['of'] & own) and not suites['without'] & own:
            for target in test['depends']:
                needed.update(dict.fromkeys(files[target]))
    print(*(os.path.relpath(path, build) for path in needed))


if __name__ == '__main__':
    main()
