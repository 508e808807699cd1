#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""figures.py finds what it looks for."""

import os
import sys

import figures

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import expect, run_cases  # noqa: E402

HEAD = '| bytes | MPI |\n|---|---|\n'
COUNT = '3 of 4 rows not slower than MPI.\n'
RESULTS = '**' + COUNT + '**\n1 of 2 rows not slower than MPI\n\n'
HISTORY = '| bytes | MPI | goal |\n|---|---|---|\n| 8 | 0.88 (0.8 to 0.9) | 0.9 |\n| 64 | 0.83 | 0.9 |\n'


def finds(readme, number, results=RESULTS):
    def case():
        found = figures.violations(readme, results, HISTORY)
        expect(len(found) == number, str(found))

    return case


sys.exit(run_cases([
    ('equal figures', finds('## Measured\n\n' + COUNT + HEAD + '| 8 | 0.88 |\n| 64 | 0.83 |\n\n## Next\n', 0)),
    ('another figure', finds('## Measured\n\n' + COUNT + HEAD + '| 8 | 0.29 |\n| 64 | 0.83 |\n', 1)),
    ('figures of two rows', finds('## Measured\n\n' + COUNT + HEAD + '| 8 | 0.83 |\n| 64 | 0.88 |\n', 2)),
    ('other columns', finds('## Measured\n\n' + COUNT + '| bytes | Gloo |\n|---|---|\n| 8 | 0.88 |\n', 1)),
    ('no table', finds('## Measured\n\n' + COUNT + '\n## Next\n\n' + HEAD + '| 8 | 0.88 |\n', 1)),
    ('a sentence', finds('## Measured\n\n3 of 4 rows are not slower than MPI\n' + HEAD + '| 8 | 0.88 |\n', 0)),
    ('another count', finds('## Measured\n\n4 of 4 rows not slower than MPI\n' + HEAD + '| 8 | 0.88 |\n', 1)),
    ('the count of another table', finds('## Measured\n\n1 of 2 rows not slower than MPI\n' + HEAD + '| 8 | 0.88 |\n', 1)),
    ('no count on the page', finds('## Measured\n\n' + COUNT + HEAD + '| 8 | 0.88 |\n', 1, results='')),
]))
