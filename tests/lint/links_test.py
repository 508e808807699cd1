#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""docs/links.py turns links into references that Doxygen resolves."""

import os
import sys

import planted

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir), os.path.join(HERE, '../../docs')]
import links  # noqa: E402
from tap import expect, run_cases  # noqa: E402

FILES = {'README.md': '# a\n', 'docs/page.md': '# b\n', 'docs/other.md': '# c\n', 'include/lockstep/core/shape.hpp': '', 'lib/source.cpp': ''}


def becomes(line, expected, page='docs/page.md'):
    def case():
        with planted.tree(FILES) as root:
            found = links.line_of(root, page, line)
            expect(found == expected, found)

    return case


sys.exit(run_cases([
    ('a link to a page', becomes('see [the page](other.md)', 'see [the page](@ref docs_other)')),
    ('a link to a heading', becomes('[x](other.md#the-mpi-library)', '[x](@ref docs_other--the-mpi-library)')),
    ('a link to a heading of the same page', becomes('[x](#pbs)', '[x](@ref docs_page--pbs)')),
    ('a link to the README', becomes('[x](../README.md)', '[x](@ref index)')),
    ('a link to a public header', becomes('[x](../include/lockstep/core/shape.hpp)', '[x](@ref lockstep/core/shape.hpp)')),
    ('a link to a source', becomes('see [x.cpp](../lib/source.cpp)', 'see x.cpp')),
    ('a link to a missing page', becomes('[x](no.md)', '[x](@ref missing_file_docs_no)')),
    ('a link to another site', becomes('[x](https://example.org/a.md)', '[x](https://example.org/a.md)')),
    ('code', becomes('`a[i](other.md)` [x](other.md)', '`a[i](other.md)` [x](@ref docs_other)')),
    ('the sign #', becomes('| #wrong | `a #b` |', r'| \#wrong | `a #b` |')),
    ('the title of a page', becomes('# Port a program', '# Port a program {#docs_page}')),
    ('a heading', becomes('## The `MPI` library', '## The `MPI` library {#docs_page--the-mpi-library}')),
    ('the title of the README', becomes('# lockstep', '# lockstep', page='README.md')),
]))
