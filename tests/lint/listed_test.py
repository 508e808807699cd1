#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""listed.py finds what a list leaves out, and nothing else. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from listed import uninstalled, unpublished  # noqa: E402
from planted import tree  # noqa: E402
from tap import expect, run_cases  # noqa: E402

FILES = {
    'include/meson.build': "public_headers = {\n  'core': [\n    'shape.hpp',\n  ],\n}\n"
                           "install_headers('lockstep/lockstep.h', 'lockstep/lockstep.hpp', subdir: 'lockstep')\n",
    'include/lockstep/lockstep.h': '', 'include/lockstep/lockstep.hpp': '', 'include/lockstep/core/shape.hpp': '', 'include/lockstep/core/README.md': '# c\n',
    'docs/Doxyfile.in': 'INPUT = "@source@/README.md" "@source@/docs" \\\n        "@source@/tests/README.md"\n',
    'README.md': '# a\n[b](docs/page.md#b) [tests](tests/README.md) [source](lib/a.cpp) [other](https://example.org/a.md)\n',
    'docs/page.md': '# b\n[a](../README.md) [this](#b)\n', 'tests/README.md': '# t\n', 'tests/part/README.md': '# p\n', 'lib/a.cpp': '',
}


def finds(files, *expected):
    """A case: the beginnings of what is found in the tree above with these files in place of, or beside, its own."""
    def case():
        with tree({**FILES, **files}) as source:
            found = [*uninstalled(source), *unpublished(source)]
        expect(len(found) == len(expected) and all(text.startswith(start) for text, start in zip(found, expected)), found)

    return case


sys.exit(run_cases([
    ('a tree whose lists are whole', finds({})),
    ('a header that is not installed', finds({'include/lockstep/core/axes.hpp': ''}, 'include/lockstep/core/axes.hpp: ')),
    ('a header that has the name of an installed one in another folder', finds({'include/lockstep/base/shape.hpp': ''}, 'include/lockstep/base/shape.hpp: ')),
    ('a page without a place on the site', finds({'tests/README.md': '# t\n[p](part/README.md)\n'}, 'tests/README.md: links to tests/part/README.md')),
    ('a new page in a folder of the site', finds({'docs/new.md': '# n\n', 'README.md': '# a\n[n](docs/new.md)\n'})),
]))
