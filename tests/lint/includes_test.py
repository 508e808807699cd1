#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""includes.py finds each missing header of a small tree, and nothing else. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from includes import missing  # noqa: E402
from planted import tree  # noqa: E402
from tap import expect, run_cases  # noqa: E402

HEADER = 'include/lockstep/core/a.hpp'
CLEAN = {HEADER: '#include <vector>\nstd::vector<int> f();\n', 'lib/b.hpp': '#include "c.hpp"\n',
         'lib/c.hpp': '[[nodiscard]] Sum add(int a, int b);\nstruct Sum {\n  int size() const;\n};\nint size(int a);\n'}


def found_in(text):
    """(line, name, header) of what is missing in lib/a.cpp with this text, beside a clean header."""
    with tree({**CLEAN, 'lib/a.cpp': text}) as source:
        found = list(missing(source))
    expect(all(path == 'lib/a.cpp' for path, _, _, _ in found), found)
    return [rest for _, *rest in found]


def finds(source, *expected):
    def case():
        found = found_in(source)
        expect(found == [list(one) for one in expected], found)

    return case


CASES = [
    ('a header that is missing is found', finds('int a;\nstd::vector<int> b;\n', (2, 'std::vector', 'vector'))),
    ('each header is reported once', finds('std::vector<int> a;\nstd::vector<int> b;\n', (1, 'std::vector', 'vector'))),
    ('a header of another name does not serve', finds('#include <vector>\nauto a = std::min(1, 2);\n', (2, 'std::min', 'algorithm'))),
    ('names in namespaces of std are known', finds('bool f() { return std::ranges::any_of(a, b); }\n', (1, 'std::ranges::any_of', 'algorithm'))),
    ('an own include serves', finds('#include <vector>\nstd::vector<int> a;\n')),
    ('an include of an included header of lockstep serves', finds('#include <lockstep/core/a.hpp>\nstd::vector<int> a;\n')),
    ('another header that declares the name serves', finds('#include <charconv>\nstd::errc a;\n')),
    ('comments and texts use nothing', finds('// std::vector\n/* std::vector */ const char* a = "std::vector";\n')),
    ('a function of lockstep is found', finds('int a = detail::add(1, 2);\n', (1, 'add', 'c.hpp'))),
    ('a type of lockstep is found', finds('int a;\nSum b;\n', (2, 'Sum', 'c.hpp'))),
    ('a header of lockstep serves through another', finds('#include "b.hpp"\nSum b = add(1, 2);\n')),
    ('a name that a class has too needs no header', finds('int a = size(1);\n')),
    ('a variable named as a function needs no header', finds('int add = 1;\n')),
    ('names of other namespaces need no header', finds('auto a = std::add(1);\nauto b = a.add(2);\n')),
    ('names that are not in the table are left to the compiler', finds('std::what_is_this a;\n')),
]

if __name__ == '__main__':
    sys.exit(run_cases(CASES))
