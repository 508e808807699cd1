#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the figures in the section Measured of README.md are those of the pages of bench/.

  figures.py [ROOT]    prints each row that differs; exits 1 if there is one

Each row of the table must be the beginning of a row of one table of bench/RESULTS.md or bench/history/measurements.md with the same columns;
ranges in parentheses may be left out. The number of rows in which lockstep is not slower than MPI must be that of bench/RESULTS.md.
"""

import os
import re
import sys

PAGES = ('bench/RESULTS.md', 'bench/history/measurements.md')
COUNT = re.compile(r'\b\d+ of \d+ rows(?= (?:is|are)? ?not slower than MPI)')


def tables(text):
    """Lists of rows, each a list of cells without their ranges. The line under the head is left out."""
    found, rows = [], []
    for line in text.split('\n') + ['']:
        if line.startswith('|'):
            cells = [re.sub(r' *\([^)]*\)', '', cell).strip() for cell in line.strip().strip('|').split('|')]
            if not all(re.fullmatch('-+', cell) for cell in cells):
                rows.append(cells)
        elif rows:
            found.append(rows)
            rows = []
    return found


def wrong_counts(section, results):
    """The first count of the page is that of all its rows."""
    counts = COUNT.findall(results)
    if not counts:
        return ['bench/RESULTS.md: it does not say how many rows are not slower than MPI']
    return [] if counts[0] in COUNT.findall(section) else [f'README.md: the section Measured does not say "{counts[0]} not slower than MPI"']


def wrong_rows(section, pages):
    shown = tables(section)
    if not shown:
        return ['README.md: the section Measured has no table']
    head, *rows = shown[0]
    known = [table for table in tables(pages) if table[0][:len(head)] == head]
    if not known:
        return [f'bench: no table of {" and ".join(PAGES)} has the columns {head}']
    missing = [[row for row in rows if row not in [other[:len(head)] for other in table]] for table in known]
    fewest = min(missing, key=len)
    return [f'README.md: no row of {" or ".join(PAGES)} is {" | ".join(row)}' for row in fewest]


def violations(readme, results, history=''):
    parts = readme.split('## Measured\n', 1)
    section = parts[1].split('\n## ')[0] if len(parts) == 2 else ''
    return wrong_rows(section, results + '\n' + history) + wrong_counts(section, results)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
    texts = []
    for name in ('README.md', *PAGES):
        with open(os.path.join(root, name), encoding='utf-8') as file:
            texts.append(file.read())
    found = violations(*texts)
    print(*found, sep='\n', end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
