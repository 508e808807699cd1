#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Refuses words and phrases that the glossary of CONTRIBUTING.md replaces, in code, comments, texts and pages.

  words.py [ROOT]     prints each as file:line: word -> replacement; exits 1 if there is one

Identifiers count as their words (RollCall, roll_call), and a phrase may continue on the next line of a comment. The list
has only words that are wrong wherever they stand; words that are right in some places (lane, part, step) are not in it.
"""

import os
import re
import sys

# pattern of whole words -> what to write instead; a blank stands for any space between words
WORDS = [
    (r'roll calls?', 'heartbeat'),
    (r'common courses?', 'epoch'),
    (r'letters?(?! (?:and|or) (?:digits?|numbers?|case))', 'control message'),
    (r'mails?', 'control messages'),
    (r'guests?|guesthood', 'proxied rank (see proxy)'),
    (r'whereabouts', 'status'),
    (r'boards?', 'control block'),
    (r'patience|patient', 'timeout, deadline'),
    (r'bundles?|bundled|bundling', 'bucket (tensors), test kit (programs)'),
    (r'schedule books?', 'schedule cache'),
    (r'shared loops?', 'parallel loop'),
    (r'told to all', 'propagate'),
    (r'obituary|obituaries', 'abort record'),
    (r'bury|buries|buried', 'abort, record'),
    (r'agendas?', 'plan'),
    (r'contestants?', 'implementation'),
    (r'givers?', 'producer'),
    (r'takers?', 'consumer'),
    (r'somebody|someone', 'a rank, a thread'),
    (r'everybody|everyone', 'every rank, all threads'),
    (r'nobody', 'no rank, no thread'),
    (r'anybody|anyone', 'any rank, any thread'),
    (r'whoever|whomever', 'the rank that'),
    (r'who (?:is|are|was|were|has|have|had|do|does|did|come|comes|came|call|calls|wait|waits|read|reads|write|writes|'
     r'take|takes|give|gives|need|needs|want|wants|work|works|leave|leaves|left)', 'a noun: the missing rank, the caller'),
    (r'he(?! et al)|him|his', 'it, its'),
    (r'(?:is|are|was|were) no(?! (?:op|one|longer|more|less|fewer|larger|smaller|greater|higher|lower|slower|faster|later|'
     r'earlier|better|worse|different|further|way)(?![a-z]))(?= [a-z])', 'is not a; there is no'),
]

FOLDERS = ('include', 'lib', 'apps', 'bench', 'docs', 'python', 'testing', 'tests')
SUFFIXES = ('.hpp', '.h', '.hpp.in', '.cpp', '.c', '.cu', '.cuh', '.py', '.sh', '.bash', '.md', '.env', '.supp', '.cmake.in', 'meson.build',
            'meson_options.txt', 'CMakeLists.txt')
# the glossary, which names what it replaces, and the list itself
EXCEPTED = ('CONTRIBUTING.md', 'tests/lint/words.py', 'tests/lint/words_test.py')

ANY = re.compile(r'(?<![a-z])(?:' + '|'.join(f'({pattern})' for pattern, _ in WORDS).replace(' ', r'\s+') + r')(?![a-z])', re.IGNORECASE)
# '_', and the boundaries inside of camelCase and of HTTPServer
BOUNDARY = re.compile(r'_|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])')
# the marker of a comment, and the quotes of a text, that continue on the next line
CONTINUED = re.compile(r'\n[ \t]*(?:///?<?|\*|#+|"|\')[ \t]*|["\'][ \t]*\n[ \t]*["\']')
# text before a match that makes it right, by replacement: 'there is no', 'in any case of letters'
THERE = re.compile(r'\bthere(?:\s+[a-z]+)?\s+$', re.IGNORECASE)
ALPHABET = re.compile(r'\b(?:case of|capital|small)\s+$', re.IGNORECASE)
EXCEPTIONS = {'is not a; there is no': THERE, 'control message': ALPHABET}


def violations_in(text):
    """(line number, word as written, replacement) of each violation in the text of one file."""
    text = CONTINUED.sub('\n', BOUNDARY.sub(' ', text))
    line, position = 1, 0
    for found in ANY.finditer(text):
        start = found.start()
        replacement = WORDS[found.lastindex - 1][1]
        exception = EXCEPTIONS.get(replacement)
        if exception and exception.search(text[max(0, start - 40):start]):
            continue
        line += text.count('\n', position, start)
        position = start
        yield line, ' '.join(found.group().split()), replacement


def files(root):
    for name in sorted(os.listdir(root)):
        if name.endswith(SUFFIXES) and os.path.isfile(os.path.join(root, name)):
            yield name
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = sorted(name for name in folders if not name.startswith('.') and name != '__pycache__')
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def violations(root):
    for path in files(root):
        if path in EXCEPTED:
            continue
        with open(os.path.join(root, path), encoding='utf-8') as file:
            for line, word, replacement in violations_in(file.read()):
                yield f'{path}:{line}: {word} -> {replacement}'


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
    found = list(violations(os.path.abspath(root)))
    for text in found:
        print(text)
    if found:
        print(f'{len(found)} words that the glossary of CONTRIBUTING.md replaces', file=sys.stderr)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
