#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep.hpp includes no standard header that is expensive to compile, neither itself nor through other headers of lockstep.
Prints the chain of headers to each such header.

  umbrella.py SOURCE

Every program pays for these headers: with g++ 12, those that lockstep.hpp included once were a fifth of the memory that it takes to compile.
"""

import collections
import os
import re
import sys

UMBRELLA = 'lockstep/lockstep.hpp'
# header: what takes its place in public headers
EXPENSIVE = {
    'algorithm': 'a function in a source',
    'atomic': 'a class whose state is in a source',
    'barrier': 'a class whose state is in a source',
    'charconv': 'a function in a source',
    'chrono': '<lockstep/base/chrono.hpp>',
    'complex': '<lockstep/core/complex.hpp>, which programs include themselves',
    'condition_variable': 'a class whose state is in a source',
    'deque': 'a concept for its members, as in values/detail/tree.hpp',
    'filesystem': 'std::string',
    'format': 'a function in a source',
    'fstream': 'a function in a source',
    'functional': 'lockstep::Function, and detail::invoke in place of std::invoke',
    'future': 'a class whose state is in a source',
    'iomanip': 'a function in a source',
    'iostream': '<ostream>',
    'istream': '<ostream>',
    'latch': 'a class whose state is in a source',
    'list': 'a concept for its members, as in values/detail/tree.hpp',
    'locale': 'a function in a source',
    'memory_resource': '<lockstep/device/arena_pmr.hpp>, which programs include themselves',
    'mutex': 'a class whose state is in a source',
    'queue': 'std::vector',
    'random': 'a function in a source',
    'ranges': 'a loop, or a function in a source',
    'regex': 'a function in a source',
    'semaphore': 'a class whose state is in a source',
    'set': 'std::vector',
    'shared_mutex': 'a class whose state is in a source',
    'sstream': 'a function in a source',
    'stop_token': 'a class whose state is in a source',
    'thread': 'a class whose state is in a source',
    'unordered_map': 'a concept for its members, as in values/detail/tree.hpp',
    'unordered_set': 'std::vector',
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include <([^>]+)>', re.MULTILINE)


def chains(source):
    """Yields the chain of headers from lockstep.hpp to each expensive header, by the shortest chain."""
    parents, pending, found = {UMBRELLA: None}, collections.deque([UMBRELLA]), []
    while pending:
        header = pending.popleft()
        with open(os.path.join(source, 'include', header), encoding='utf-8') as file:
            included = INCLUDE.findall(file.read())
        for name in included:
            if name in parents or f'<{header}>' == EXPENSIVE.get(name):  # the header that takes its place, where there is nothing cheaper
                continue
            parents[name] = header
            if name in EXPENSIVE:
                found.append(name)
            elif name.startswith('lockstep/'):
                pending.append(name)
    for name in found:
        chain = [name]
        while parents[chain[-1]] is not None:
            chain.append(parents[chain[-1]])
        yield chain[::-1]


def main():
    found = list(chains(os.path.abspath(sys.argv[1])))
    for chain in found:
        print(f'{" > ".join(chain)}: use {EXPENSIVE[chain[-1]]}')
    print(f'{len(found)} expensive headers')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
