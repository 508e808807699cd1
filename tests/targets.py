#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what must be built for tests of a build folder, as paths for ninja.

  targets.py BUILD [defaults] [of SUITE...] [without SUITE...]     the tests that are in one of the first suites (default: all), and in none
                                                                   of the others; defaults: and what a default build has beside tests

(Ninja's own default has the programs of all tests and benchmarks, also those that take minutes to compile.)
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
    words = sys.argv[2:]
    has_defaults = words[:1] == ['defaults']
    for word in words[has_defaults:]:
        if word in suites:
            chosen = suites[word]
        else:
            chosen.add(word)
    targets = described(build, 'targets')
    files = {target['id']: target['filename'] for target in targets}
    needed = {}
    tests = described(build, 'tests')
    of_tests = {target for test in tests for target in test['depends']}
    for target in targets:
        is_for_tests = target['id'] in of_tests or target['type'] == 'static library'
        if has_defaults and target['build_by_default'] and (target['installed'] or not is_for_tests):
            needed.update(dict.fromkeys(target['filename']))
    for test in tests:
        own = {suite.split(':')[-1] for suite in test['suite']}
        if (not suites['of'] or suites['of'] & own) and not suites['without'] & own:
            for target in test['depends']:
                needed.update(dict.fromkeys(files[target]))
    print(*(os.path.relpath(path, build) for path in needed))


if __name__ == '__main__':
    main()
