#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants one word after the other in a small tree that is otherwise clean: words.py must find each. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from planted import tree  # noqa: E402
from tap import Checks  # noqa: E402
from words import violations  # noqa: E402

# words that contain refused ones, and right uses of them
CLEAN = {
    'README.md': 'A keyboard, a letterhead, unbundled goods. There is no such file; there also is no other.\n',
    'CONTRIBUTING.md': 'heartbeat: was roll call\n',
    'LICENSE': 'somebody\n',
    'meson.build': "option('x', description: 'this is no longer so')\n",
    'include/lockstep/core/a.hpp': '/// The op of that name, in any case of letters.\nint onboard; // There\n// is no result.\n',
    'lib/core/a.cpp': 'int is_no_op = 0;  // letters and digits; He et al. 2016\n',
    'lib/core/README.md': 'The history of this theme; whose value is none; no one is no less.\n',
    'tests/lint/words.py': '# the common course\n',
    'tests/a/cases.json': '{"text": "nobody"}\n',
}

# what it is, the file, its planted content, the line, the word, a part of its replacement
PLANTED = [
    ('a phrase', 'lib/core/b.cpp', '\n// It answers the roll call.\n', 2, 'roll call', 'heartbeat'),
    ('a phrase over two lines of a comment', 'lib/core/b.cpp', '/// leaves the common\n/// course\n', 1, 'common course', 'epoch'),
    ('a phrase over two lines of a text', 'lib/core/b.cpp', 'f("the common "\n  "course");\n', 1, 'common course', 'epoch'),
    ('a phrase in a name of CamelCase', 'lib/core/b.hpp', 'class RollCall;\n', 1, 'Roll Call', 'heartbeat'),
    ('a phrase in a name of snake_case', 'lib/core/b.hpp', 'int roll_call_;\n', 1, 'roll call', 'heartbeat'),
    ('a word in a constant', 'lib/core/b.hpp', '#define MOST_GUESTS 2\n', 1, 'GUESTS', 'proxied'),
    ('a word in an #include', 'lib/core/b.cpp', '#include "transport/shm/board.hpp"\n', 1, 'board', 'control block'),
    ('a word in an error text', 'include/lockstep/core/b.hpp', 'throw_error("a letter of rank {}");\n', 1, 'letter', 'control message'),
    ('a plural', 'tests/a_test.cpp', '// bundles\n', 1, 'bundles', 'bucket'),
    ('a word at the start of a sentence', 'bench/README.md', 'Nobody hangs.\n', 1, 'Nobody', 'no rank'),
    ('who with a verb', 'apps/a/a.cpp', '// the rank who does not call\n', 1, 'who does', 'a noun'),
    ('he', 'apps/a.sh', '# a rank when he waits\n', 1, 'he', 'it'),
    ('is no', 'tests/a_test.py', "refuses('\"x\" is no number')\n", 1, 'is no', 'is not a'),
    ('are no', 'include/lockstep/input/README.md', 'elements that are no batches\n', 1, 'are no', 'is not a'),
    ('is no in the name of a test', 'tests/a_test.cpp', 'TEST(Idx, is_no_idx_file) {\n', 1, 'is no', 'is not a'),
    ('a word in a page', 'README.md', 'one\ntwo\nthe whereabouts\n', 3, 'whereabouts', 'status'),
    ('a word in a build file', 'lib/meson.build', "files('mail.cpp')\n", 1, 'mail', 'control message'),
    ('the second word of a line, after another', 'lib/core/b.cpp', '// agenda\n// and patience\n', 2, 'patience', 'timeout'),
]


def found_in(files):
    with tree(files) as root:
        return list(violations(root))


def main():
    checks = Checks()
    found = found_in(CLEAN)
    checks.check('a clean tree has no violation', not found, '\n'.join(found))
    for name, path, text, line, word, replacement in PLANTED:
        found = found_in({**CLEAN, path: text})
        good = bool(found) and found[-1].startswith(f'{path}:{line}: {word} -> ') and replacement in found[-1]
        good = good and all(text.startswith(path + ':') for text in found)
        checks.check(f'finds {name}', good, '\n'.join(found))
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
