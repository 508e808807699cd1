#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that tests can run in virtual time: the scheduler of testing/virtual_time must see every wait of the library.

  pauses.py [ROOT]     prints each violation as file:line: text; exits 1 if there is one

In lib/ and include/, pauses of the processor and its counter are read only in lib/base/pause.hpp, and no clock, pause or thread is used
that testing/virtual_time does not replace. A unit test sleeps only if its program is in the list in_virtual_time of
tests/unit/meson.build, or in the table below.
"""

import os
import re
import sys

PAUSES = 'lib/base/pause.hpp'
HIDDEN = [
    (r'__builtin_ia32_(?:pause|rdtscp?)\b|\b_mm_pause\b|\b__?rdtscp?\b|\basm\b|\b__asm__\b|\b__builtin_readcyclecounter\b|\b__yield\b',
     f'the scheduler does not see this; pauses and time stamps are those of {PAUSES}'),
    (r'(?<!\block)(?<!\bengine)(?<!\bengine_)(?:\.|->)wait\(\s*(?!lock_?\b|\))|\bstd::atomic_(?:flag_)?wait\w*',
     'std::atomic::wait is not used: it has no deadline (a wait for a condition has a lock as its first argument)'),
    (r'\b(?:thrd_(?:create|join|sleep|yield)|mtx_\w*lock|cnd_\w*wait|pthread_barrier_wait|pthread_cancel|pthread_yield)\b',
     'testing/virtual_time does not replace this'),
    (r'\bSYS_(?:clone3?|nanosleep|clock_nanosleep|clock_gettime|sched_yield)\b|(?<![\w:.])clone\((?!\))',
     'testing/virtual_time does not see this system call'),
    (r'\bstd::(?:barrier|latch|counting_semaphore|binary_semaphore)\b', 'these wait without a deadline'),
]
SLEEP = re.compile(r'\bsleep_(?:for|until)\b|\b(?:u|nano|clock_nano)sleep\s*\(|(?<![\w.:])sleep\s*\(')

# Programs of tests/unit that sleep in real time, with the reason. A converted program leaves the table.
REAL = {
    'bindings': 'waits for a GPU',
    'device': 'forks, and lets threads race',
    'fake_processes': 'waits for another process',
    'processes': 'waits for other processes and for signals',
    'races': 'its tests make their runs themselves',
    'virtual_time': 'its tests make their runs themselves',
}

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def code_of(path):
    with open(path, encoding='utf-8') as file:
        return NOISE.sub(lambda match: '\n' * match[0].count('\n'), file.read())


def files_of(root, folder):
    for where, _, names in sorted(os.walk(os.path.join(root, folder))):
        for name in sorted(names):
            if name.endswith(('.hpp', '.h', '.cpp')):
                yield os.path.relpath(os.path.join(where, name), root)


def hidden_waits(root):
    for folder in ('include', 'lib'):
        for path in files_of(root, folder):
            if path == PAUSES:
                continue
            for number, line in enumerate(code_of(os.path.join(root, path)).split('\n'), 1):
                for pattern, text in HIDDEN:
                    if re.search(pattern, line):
                        yield f'{path}:{number}: {text}'


def programs_of(build):
    """{source: its programs}, and the programs in virtual time, of tests/unit/meson.build."""
    sources = {}
    for name, listed in re.findall(r"'(\w+)':\s*\[(.*?)\]", build, re.DOTALL):
        for source in re.findall(r"'([\w/]+\.cpp)'", listed):
            sources.setdefault(source, []).append(name)
    found = re.search(r'^in_virtual_time = \[(.*?)\]', build, re.MULTILINE | re.DOTALL)
    return sources, re.findall(r"'(\w+)'", found[1]) if found else []


def real_sleeps(root):
    with open(os.path.join(root, 'tests/unit/meson.build'), encoding='utf-8') as file:
        programs, in_virtual_time = programs_of(file.read())
    for path in files_of(root, 'tests/unit'):
        source = os.path.relpath(path, 'tests/unit')
        for number, line in enumerate(code_of(os.path.join(root, path)).split('\n'), 1):
            if not SLEEP.search(line):
                continue
            for program in programs.get(source, [source.split('/')[0]]):
                if program not in REAL and program not in in_virtual_time:
                    yield f'{path}:{number}: sleeps in real time: name {program} in in_virtual_time of tests/unit/meson.build'
    for program in sorted(set(REAL) & set(in_virtual_time)):
        yield f'tests/lint/pauses.py:1: {program} runs in virtual time, so it leaves the table'


def violations(root):
    return list(hidden_waits(root)) + list(real_sleeps(root))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
    found = violations(root)
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
