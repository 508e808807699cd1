#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the table of measured figures in README.md equals one in bench/RESULTS.md.

  figures.py [ROOT]    prints each row that differs; exits 1 if there is one

Each row of the section Measured must be the beginning of a row of one table of RESULTS.md with the same columns; ranges in parentheses
may be left out.
"""

import os
import re
import sys


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


def violations(readme, results):
    section = readme.split('## Measured\n', 1)
    shown = tables(section[1].split('\n## ')[0]) if len(section) == 2 else []
    if not shown:
        return ['README.md: the section Measured has no table']
    head, *rows = shown[0]
    known = [table for table in tables(results) if table[0][:len(head)] == head]
    if not known:
        return [f'bench/RESULTS.md: no table has the columns {head}']
    missing = [[row for row in rows if row not in [other[:len(head)] for other in table]] for table in known]
    fewest = min(missing, key=len)
    return [f'README.md: no row of bench/RESULTS.md is {" | ".join(row)}' for row in fewest]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
    texts = []
    for name in ('README.md', 'bench/RESULTS.md'):
        with open(os.path.join(root, name), encoding='utf-8') as file:
            texts.append(file.read())
    found = violations(*texts)
    print(*found, sep='\n', end='\n' if found else '')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
