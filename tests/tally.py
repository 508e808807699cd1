#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of one `meson test`, and says why each failed or was skipped.

  tally.py LANE BUILD LOGBASE COUNTS

Reads BUILD/meson-logs/LOGBASE.json (one line per test), and for a GoogleTest program its XML: each TEST is one case. A test
that speaks TAP has one case per line of it; any other test is one case. Appends "passed failed skipped" to COUNTS.
"""

import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

TAIL_LINES = 40


def tail(run):
    lines = ((run.get('stdout') or '') + '\n' + (run.get('stderr') or '')).strip().split('\n')
    return lines[-TAIL_LINES:]


def declared_tests(build):
    """What meson knows of each test and benchmark: name, protocol, suites."""
    declared = []
    for kind in ('tests', 'benchmarks'):
        with open(os.path.join(build, 'meson-info', f'intro-{kind}.json'), encoding='utf-8') as file:
            declared += json.load(file)
    return declared


def declaration(run, tests):
    """The test that the log calls "project:suite+suite / name", or shorter. Two suites may have tests of one name."""
    def suites_in_log(test):
        return sum(re.search(r'\b' + re.escape(suite.split(':')[-1]) + r'\b', run['name']) is not None for suite in test['suite'])
    same = [test for test in tests if re.search(r'(^|[ :])' + re.escape(test['name']) + '$', run['name'])]
    return max(same, key=lambda test: (len(test['name']), suites_in_log(test)))


def gtest_report(name, build):
    """The XML that GoogleTest wrote, None when it did not live to write one."""
    try:
        return ElementTree.parse(os.path.join(build, name + '.xml')).getroot()
    except (OSError, ElementTree.ParseError):
        return None


def gtest_cases(report):
    """Yields (name, state, text)."""
    for case in report.iter('testcase'):
        name = case.get('classname', '') + '.' + case.get('name', '')
        failures = [failure.get('message') or failure.text or '' for failure in case.findall('failure')]
        skipped = case.find('skipped')
        if failures:
            yield name, 'failed', '\n'.join(failures)
        elif skipped is not None or case.get('result') == 'skipped':
            text = '' if skipped is None else skipped.get('message') or skipped.text or ''
            reason = [line for line in text.split('\n') if line.strip() and not re.match(r'\S+:\d+$', line.strip())]
            yield name, 'skipped', ' '.join(reason) or 'no reason given'
        elif case.get('status') == 'notrun':
            yield name, 'skipped', 'disabled'
        else:
            yield name, 'passed', ''


def tap_cases(run):
    name, state, text = None, None, []
    for line in (run.get('stdout') or '').split('\n'):
        found = re.match(r'(not ok|ok)\b\s*\d*\s*-?\s*([^#]*)(?:#\s*(SKIP|TODO)\S*\s*(.*))?', line, re.IGNORECASE)
        if found:
            if name is not None:
                yield name, state, '\n'.join(text)
            word, name, directive, reason = found.groups()
            name, text = name.strip(), []
            state = 'passed' if word == 'ok' else 'failed'
            if directive and directive.upper() == 'SKIP':
                state, text = 'skipped', [reason or 'no reason given']
        elif line.startswith('#') and state == 'failed':
            text.append(line[1:].strip())
    if name is not None:
        yield name, state, '\n'.join(text)


def cases_of(run, tests, build):
    """Yields (name, state, text) for each case of one test."""
    test = declaration(run, tests)
    name, protocol, result = test['name'], test['protocol'], run['result']
    good = result in ('OK', 'EXPECTEDFAIL', 'SKIP')
    cases = []
    if protocol == 'gtest':
        report = gtest_report(name, build)
        cases = [] if report is None else list(gtest_cases(report))
    elif protocol == 'tap':
        cases = list(tap_cases(run))
    for case, state, text in cases:
        yield f'{name}: {case}', state, text
    if good and cases:
        return
    if result == 'SKIP':
        yield name, 'skipped', next((line for line in reversed(tail(run)) if line.strip()), 'no reason given')
    elif good and protocol == 'exitcode':
        yield name, 'passed', ''
    elif good:
        yield name, 'failed', 'it ran no case'
    elif not any(state == 'failed' for _, state, _ in cases):
        yield name, 'failed', '\n'.join([f'{result}, exit code {run["returncode"]}; the end of its output:', *tail(run)])


def slowest(runs, tests, count=8):
    longest = sorted(runs, key=lambda run: run.get('duration', 0), reverse=True)[:count]
    return ', '.join(f'{declaration(run, tests)["name"]} {run.get("duration", 0):.0f} s' for run in longest)


def main():
    lane, build, logbase, counts = sys.argv[1:5]
    total = {'passed': 0, 'failed': 0, 'skipped': 0}
    try:
        with open(os.path.join(build, 'meson-logs', logbase + '.json'), encoding='utf-8', errors='replace') as file:
            runs = [json.loads(line) for line in file if line.strip()]
    except OSError:
        runs = []
    tests = declared_tests(build)
    for run in runs:
        for name, state, text in cases_of(run, tests, build):
            total[state] += 1
            if state == 'failed':
                print(f'FAILED  [{lane}] {name}')
                print(*('        ' + line for line in text.split('\n')), sep='\n')
            elif state == 'skipped':
                print(f'skipped [{lane}] {name}: {text}')
    with open(counts, 'a', encoding='utf-8') as file:
        print(total['passed'], total['failed'], total['skipped'], file=file)
    print(f'{lane}: slowest: {slowest(runs, tests)}')
    print(f'{lane}: {total["passed"]} cases passed, {total["failed"]} failed, {total["skipped"]} skipped')
    return 0


if __name__ == '__main__':
    sys.exit(main())
