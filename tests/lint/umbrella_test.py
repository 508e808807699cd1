#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""umbrella.py finds each expensive header of a small tree, and nothing else. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from planted import tree  # noqa: E402
from tap import expect, run_cases  # noqa: E402
from umbrella import UMBRELLA, chains  # noqa: E402

CHRONO = 'lockstep/base/chrono.hpp'
A, B, ALONE = 'lockstep/core/a.hpp', 'lockstep/core/b.hpp', 'lockstep/core/alone.hpp'


def finds(texts, *expected):
    """A case: the chains in a tree whose lockstep.hpp includes a.hpp, a.hpp includes b.hpp, and alone.hpp is included by none."""
    def case():
        files = {UMBRELLA: f'#include <{A}>\n', A: f'#include <{B}>\n', B: '#include <vector>\n', ALONE: '#include <mutex>\n',
                 CHRONO: '#include <chrono>\n'}
        for name, text in texts.items():
            files[name] += text
        with tree({'include/' + name: text for name, text in files.items()}) as source:
            found = list(chains(source))
        expect(found == [list(chain) for chain in expected], found)

    return case


CASES = [
    ('cheap headers, and those of headers that are not included, are permitted', finds({})),
    ('an expensive header in lockstep.hpp is found', finds({UMBRELLA: '#include <functional>\n'}, (UMBRELLA, 'functional'))),
    ('an expensive header is found through other headers', finds({B: '#include <mutex>\n'}, (UMBRELLA, A, B, 'mutex'))),
    ('a header is reported once, by its shortest chain', finds({A: '#include <atomic>\n', B: '#include <atomic>\n'}, (UMBRELLA, A, 'atomic'))),
    ('headers that include each other end', finds({B: f'#include <{A}>\n#include <deque>\n'}, (UMBRELLA, A, B, 'deque'))),
    ('spaces before and after # hide nothing', finds({A: '  #  include <list>\n'}, (UMBRELLA, A, 'list'))),
    ('the header that takes the place of one may include it', finds({A: f'#include <{CHRONO}>\n'})),
    ('no other header may include it', finds({A: f'#include <{CHRONO}>\n', B: '#include <chrono>\n'}, (UMBRELLA, A, B, 'chrono'))),
    ('comments include nothing', finds({A: '// #include <list>\n'})),
]

if __name__ == '__main__':
    sys.exit(run_cases(CASES))
