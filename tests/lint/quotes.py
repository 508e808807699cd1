#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what the pages in docs/ quote: error texts, options, environment variables and paths. Prints each that does not exist.

  quotes.py [ROOT]

A line of a block ```text is a text of lockstep, with "..." for the parts that the program fills in; some source of lib/ or apps/ must
have it. An option in the command line of a lockstep program, a variable LOCKSTEP_*, and a path of the project must exist.
"""

import glob
import os
import re
import sys

BLOCK = re.compile(r'^```(\w*)\n(.*?)^```\n', re.MULTILINE | re.DOTALL)
LITERALS = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
MESON_TEXT = re.compile(r"'((?:[^'\\\n]|\\.)*)'")
SOURCES = ('lib', 'apps', 'bench')
# Parts of variables' names, which stand for the options of a program.
PREFIXES = ('LOCKSTEP_TRAIN_', 'LOCKSTEP_PERF_', 'LOCKSTEP_RUN_')


def plain(text):
    """A format text as a page shows it: fields are "..."; the escapes of quotes are resolved."""
    text = text.replace('{{', '\0').replace('}}', '\1')
    return re.sub(r'(\.\.\.)+', '...', re.sub(r'\{[^}]*\}', '...', text)).replace('\0', '{').replace('\1', '}').replace('\\"', '"')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def texts_of(root):
    """All texts in the sources, one per line; adjacent literals are one."""
    found = []
    for folder in SOURCES:
        for path in sorted(glob.glob(os.path.join(root, folder, '**/*'), recursive=True)):
            if path.endswith(('.cpp', '.hpp')):
                source = re.sub(r'^\s*//.*$', '', read(path), flags=re.MULTILINE)
                for literals in LITERALS.finditer(source):
                    found.append(plain(''.join(LITERAL.findall(literals.group()))))
            elif path.endswith('meson.build'):
                found += [re.sub(r'@\w+@', '...', text) for text in MESON_TEXT.findall(read(path))]
    return '\n'.join(found)


def faults_of(page, text, root, texts):
    variables = set(re.findall(r'LOCKSTEP_[A-Z_]+', texts))
    options = set(re.findall(r'^([a-z][a-z-]+)(?:,\w)?$|--([a-z][a-z-]+)', texts, re.MULTILINE))
    options = {name for pair in options for name in pair}
    for language, block in BLOCK.findall(text):
        for line in block.splitlines() if language == 'text' else ():
            if len(line.replace('...', '').strip()) < 12:
                yield f'{page}: the text "{line}" is too short to be found'
            elif line not in texts:
                yield f'{page}: no source has the text "{line}"'
    for line in text.splitlines():
        for command in re.findall(r'\blockstep-(?:run|train|perf|doctor|diff|explain|trace|overlap|plot)\b[^`|#]*', line):
            for option in re.findall(r'(?<=\s)--([a-z][a-z-]+)', command):
                if option not in options:
                    yield f'{page}: no program has the option --{option}'
        for variable in re.findall(r'\bLOCKSTEP_[A-Z_]+', line):
            if variable not in variables and not variable.startswith(PREFIXES):
                yield f'{page}: there is no variable {variable}'
        for path in re.findall(r'(?<![\w/.-])(?:apps|bench|docs|include|lib|packaging|tests)/[\w./-]*\w', line):
            if not os.path.exists(os.path.join(root, path)):
                yield f'{page}: there is no {path}'


def faults(root):
    texts = texts_of(root)
    for path in sorted(glob.glob(os.path.join(root, 'docs/*.md'))):
        yield from faults_of(os.path.relpath(path, root), read(path), root, texts)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
    found = list(faults(root))
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
