#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the C++ samples of FROM_TF_DISTRIBUTE.md with the tests in tests/pages/ that run them.

  samples.py [ROOT]           prints each difference; exits 1 if there is one
  samples.py [ROOT] --fix     copies the samples of the tests to the page
  samples.py [ROOT] --table   prints the lines and tokens of each sample, in Python and in C++

On the page, a sample is a heading `#### PAGE NUMBER: title`, a block ```python and a block ```cpp. In a test, it is the code between
`// sample PAGE NUMBER` and `// end of sample`, without the indentation. The samples of a page are numbered from 1. Each test in the table of
tests/README.md whose row does not say "(text)" has one sample. A sample in C++ may have twice as many lines and tokens as in Python.
Comments and empty lines do not count.
"""

import glob
import io
import os
import re
import sys
import textwrap
import tokenize

PAGE = 'include/lockstep/strategy/FROM_TF_DISTRIBUTE.md'
MOST = 2  # lines or tokens of C++ for each of Python
REGION = re.compile(r'^TEST\((\w+Page), (\w+)\)|^ *// sample (\S+ \d+)\n(.*?)^ *// end of sample\n', re.MULTILINE | re.DOTALL)
MARK = re.compile(r'// *(?:end of )?sample\b')
HEADING = re.compile(r'^#### (\S+ \d+): (.+)\n', re.MULTILINE)
BLOCKS = re.compile(r'\n```python\n(.*?)^```\n\n```cpp\n(.*?)^```\n', re.MULTILINE | re.DOTALL)
ROW = re.compile(r'^\|([^|]*)\| `(\w+Page\.\w+)` \|$', re.MULTILINE)
# A comment, or a token: a text, a raw text, a number, a name, or an operator.
CPP = re.compile(r'''//[^\n]*|/\*.*?\*/|(?P<token>R"(?P<end>[^(]*)\(.*?\)(?P=end)"|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\d[\w.']*|\.\d[\w.']*|\w+'''
                 r'''|<<=|>>=|<=>|->\*|\.\.\.|::|->|<<|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|[^\s\w])''', re.DOTALL)
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def size_of_python(code):
    """(lines, tokens)."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type not in LAYOUT]
    return len({token.start[0] for token in tokens}), len(tokens)


def size_of_cpp(code):
    """(lines, tokens). A raw text has one token, but all its lines."""
    lines, count = set(), 0
    for found in CPP.finditer(code):
        if found['token']:
            first = code.count('\n', 0, found.start())
            lines.update(range(first, first + found['token'].count('\n') + 1))
            count += 1
    return len(lines), count


def samples_of_tests(root):
    """({sample: (test, code)}, faults)."""
    samples, faults = {}, []
    for path in sorted(glob.glob(os.path.join(root, 'tests/pages/*_test.cpp'))):
        text, test, marks = read(root, path), None, 0
        for found in REGION.finditer(text):
            suite, name, sample, code = found.groups()
            if suite:
                test = f'{suite}.{name}'
                continue
            marks += 2
            if sample in samples:
                faults.append(f'{sample}: twice in tests/pages/')
            if MARK.search(code):
                faults.append(f'{sample}: another sample begins before its end')
            samples[sample] = (test, textwrap.dedent(code))
        if marks != len(MARK.findall(text)):
            faults.append(f'{os.path.relpath(path, root)}: a sample without a name, or without an end')
    return samples, faults


def samples_of_page(text):
    """[(sample, title, Python, C++)], where code that is missing is None."""
    parts = HEADING.split(text)[1:]
    found = []
    for sample, title, body in zip(parts[::3], parts[1::3], parts[2::3]):
        blocks = BLOCKS.match(body)
        found.append((sample, title, *(blocks.groups() if blocks else (None, None))))
    return found


def unnumbered(samples):
    """Samples of a page must have the numbers 1, 2, ... in this order."""
    last = {}
    for sample in samples:
        page, number = sample.split()
        if int(number) != last.get(page, 0) + 1:
            yield f'{sample}: follows number {last.get(page, 0)} on the page'
        last[page] = int(number)


def faults_of(root):
    tests, faults = samples_of_tests(root)
    page = samples_of_page(read(root, PAGE))
    rows = ROW.findall(read(root, 'tests/README.md'))
    expected = {test for sample, test in rows if '(text)' not in sample}
    having = [test for test, _ in tests.values()]
    yield from faults
    yield from unnumbered([sample for sample, *_ in page])
    for test in sorted(expected - set(having)):
        yield f'{test}: tests/README.md has it in the table of samples, but it has no sample'
    for test in sorted(set(having) - expected):
        yield f'{test}: has a sample, but tests/README.md does not say so'
    for test in sorted({test for test in having if having.count(test) > 1}):
        yield f'{test}: has several samples'
    for sample in sorted(set(tests) - {name for name, *_ in page}):
        yield f'{sample}: in tests/pages/, but not on the page'
    for sample, _, python, cpp in page:
        if python is None:
            yield f'{sample}: the page does not have a block of Python and then a block of C++'
        elif sample not in tests:
            yield f'{sample}: no test in tests/pages/ has it'
        elif cpp != tests[sample][1]:
            yield f'{sample}: the C++ on the page is not that of {tests[sample][0]}; copy it with --fix'
        else:
            for what, ours, theirs in zip(('lines', 'tokens'), size_of_cpp(cpp), size_of_python(python)):
                if ours > MOST * theirs:
                    yield f'{sample}: {ours} {what} of C++ for {theirs} of Python'


def fixed(text, tests):
    """The page, with the C++ of the tests after each block of Python."""
    def with_code(found):
        code = tests.get(found['sample'], (None, None))[1]
        return found.group() if code is None else f'{found["head"]}\n```cpp\n{code}```\n'

    return re.sub(r'(?P<head>^#### (?P<sample>\S+ \d+): .+\n\n```python\n(?:(?!```).*\n)*```\n)(?:\n```cpp\n(?:(?!```).*\n)*```\n)?',
                  with_code, text, flags=re.MULTILINE)


def table(page):
    yield '| sample | | lines, Python | C++ | tokens, Python | C++ |'
    yield '|---|---|---|---|---|---|'
    for sample, title, python, cpp in page:
        (lines, tokens), (our_lines, our_tokens) = size_of_python(python), size_of_cpp(cpp)
        yield f'| {sample} | {title} | {lines} | {our_lines} | {tokens} | {our_tokens} |'


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith('--')]
    root = os.path.abspath(arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
    if '--fix' in sys.argv:
        text = fixed(read(root, PAGE), samples_of_tests(root)[0])
        with open(os.path.join(root, PAGE), 'w', encoding='utf-8') as file:
            file.write(text)
    if '--table' in sys.argv:
        print(*table(samples_of_page(read(root, PAGE))), sep='\n')
    found = list(faults_of(root))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
