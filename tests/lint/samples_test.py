#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""samples.py finds what it looks for."""

import os
import sys

import planted
import samples

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import expect, run_cases  # noqa: E402

TEST = '''TEST(SomePage, run) {
  int calls = 0;
  // sample Some 1
  const auto step = [&] {  // a comment
    ++calls;
  };
  strategy.run(step);
  // end of sample
  EXPECT_EQ(calls, 1);
}

TEST(SomePage, reduce) {
  // sample Some 2
  const auto sum = strategy.reduce("SUM", x);
  // end of sample
}

TEST(SomePage, text) {
}
'''
PAGE = '''#### Some 1: run

```python
# a comment
def step():
  global calls
  calls += 1
strategy.run(step)
```

```cpp
const auto step = [&] {  // a comment
  ++calls;
};
strategy.run(step);
```

#### Some 2: reduce

```python
strategy.reduce("SUM", x, axis=None)
```

```cpp
const auto sum = strategy.reduce("SUM", x);
```
'''
TABLE = '''| Some | test |
|---|---|
| run | `SomePage.run` |
| reduce | `SomePage.reduce` |
| a sentence (text) | `SomePage.text` |
'''
README = 'tests/README.md'
SOURCE = 'tests/pages/some_test.cpp'


def found_in(changes):
    files = {samples.PAGE: PAGE, SOURCE: TEST, README: TABLE}
    for path, old, new in changes:
        expect(old in files[path], f'{path} does not have {old}')
        files[path] = files[path].replace(old, new, 1)
    with planted.tree(files) as root:
        return list(samples.faults_of(root))


def finds(number, text, *changes):
    def case():
        found = found_in(changes)
        expect(len(found) == number and all(text in fault for fault in found), str(found))

    return case


def fixes_the_page():
    tests = {'Some 1': ('SomePage.run', 'strategy.run(other);\n'), 'Some 2': ('SomePage.reduce', 'reduce();\n')}
    fixed = samples.fixed(PAGE.replace('```cpp\nconst auto sum = strategy.reduce("SUM", x);\n```\n', ''), tests)
    pairs = [(sample, cpp) for sample, _, _, cpp in samples.samples_of_page(fixed)]
    expect(pairs == [('Some 1', 'strategy.run(other);\n'), ('Some 2', 'reduce();\n')], fixed)
    expect(samples.fixed(fixed, tests) == fixed, 'a page that is right is changed')


def sizes(measure, code, lines, tokens):
    def case():
        expect(measure(code) == (lines, tokens), str(measure(code)))

    return case


MARK = '  // end of sample\n'
sys.exit(run_cases([
    ('a page that is equal to its tests', finds(0, '')),
    ('a program that differs on the page', finds(1, 'not that of SomePage.run', (samples.PAGE, '  ++calls', '  --calls'))),
    ('a program that differs in the test', finds(1, 'not that of SomePage.reduce', (SOURCE, 'const auto sum', 'auto sum'))),
    ('a sample that is not on the page', finds(1, 'Some 2: in tests/pages/, but', (samples.PAGE, PAGE[PAGE.index('#### Some 2'):], ''))),
    ('a sample that no test has', finds(2, '', (SOURCE, '  // sample Some 2\n', ''), (SOURCE, MARK + '}\n\nTEST(SomePage, text', '}\n\nTEST(SomePage, text'))),
    ('a sample without Python', finds(1, 'does not have a block', (samples.PAGE, '```python\nstrategy', '```\nstrategy'))),
    ('a sample without an end', finds(1, 'without an end', (samples.PAGE, PAGE[PAGE.index('#### Some 2'):], ''), (README, '| reduce |', '| reduce (text) |'),
                                      (SOURCE, '"SUM", x);\n' + MARK, '"SUM", x);\n'))),
    ('a sample within another', finds(3, '', (SOURCE, '    ++calls', '    // sample Some 3\n    ++calls'))),
    ('a sample twice', finds(4, '', (SOURCE, '// sample Some 2', '// sample Some 1'))),
    ('a number that is missing', finds(1, 'follows number 1', (samples.PAGE, 'Some 2', 'Some 3'), (SOURCE, 'Some 2', 'Some 3'))),
    ('a row of the table whose test has no sample', finds(1, 'SomePage.text: tests/README.md has', (README, ' (text)', ''))),
    ('a row of the table that says text, whose test has a sample', finds(1, 'SomePage.run: has a sample', (README, '| run |', '| run (text) |'))),
    ('too many tokens', finds(1, '27 tokens of C++ for 12 of Python',
                              (SOURCE, '"SUM", x);', '"SUM", x + y * (z - 1) / (2 - y));'), (samples.PAGE, '"SUM", x);', '"SUM", x + y * (z - 1) / (2 - y));'))),
    ('too many lines', finds(1, '3 lines of C++ for 1 of Python', (SOURCE, 'reduce("SUM", x', 'reduce(\n      "SUM",\n      x'),
                             (samples.PAGE, 'strategy.reduce("SUM", x)', 'strategy.reduce(\n    "SUM",\n    x)'))),
    ('a page is brought up to date', fixes_the_page),
    ('tokens of Python', sizes(samples.size_of_python, '# a comment\n@tf.function\ndef f(x):\n  return x.y  # z\n\n', 3, 14)),
    ('tokens of C++', sizes(samples.size_of_cpp, '// a comment\nstd::vector<float> x{1.5F, 2};  // y\n\nx->f(a += "b \\" // c", /* d\n */ \'e\');\n', 3, 24)),
    ('a raw text of C++', sizes(samples.size_of_cpp, 'f(R"({"a": 1,\n\n"b"})");\n', 3, 5)),
]))
