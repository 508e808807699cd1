#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""quotes.py finds what it looks for."""

import os
import sys

import planted
import quotes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import expect, run_cases  # noqa: E402

SOURCE = '''// "a text in a comment, of rank 1"
const char* const name = "LOCKSTEP_TIMEOUT";
fail(fmt::format("rank {} has \\"{}\\" of the node, "
                 "but {{it}} has {:.1f} s", rank, name, other));
options.add("ranks,n", "number of ranks");
'''


def finds(page, number):
    def case():
        with planted.tree({'lib/a.cpp': SOURCE, 'apps/meson.build': "error('no MPI library: install @name@')\n", 'docs/page.md': page}) as root:
            found = list(quotes.faults(root))
            expect(len(found) == number, str(found))

    return case


def text(line):
    return f'```text\n{line}\n```\n'


sys.exit(run_cases([
    ('a text over two lines, with fields', finds(text('rank ... has "..." of the node, but {it} has ... s'), 0)),
    ('a part of a text', finds(text('of the node, but {it}'), 0)),
    ('a text of Meson', finds(text('no MPI library: install ...'), 0)),
    ('another word', finds(text('rank ... had "..." of the node'), 1)),
    ('a number for a field', finds(text('rank 1 has "..." of the node'), 1)),
    ('a text of a comment', finds(text('a text in a comment, of rank 1'), 1)),
    ('a text that is too short', finds(text('...rank ...'), 1)),
    ('a text of another program', finds('```\nno such text anywhere\n```\n', 0)),
    ('an option that exists, and one that does not', finds('`lockstep-run --ranks 4`, `lockstep-run --rank 4`\n', 1)),
    ('an option of another program', finds('`mpirun --oversubscribe`\n', 0)),
    ('a variable that exists, and one that does not', finds('LOCKSTEP_TIMEOUT LOCKSTEP_TIMOUT LOCKSTEP_TRAIN_EPOCHS\n', 1)),
    ('a path that exists, and one that does not', finds('`lib/a.cpp` and `lib/b.cpp`\n', 1)),
]))
