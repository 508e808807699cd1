#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Public headers are listed where they are installed, and pages where the documentation site is made. Prints what a list leaves out.

  listed.py SOURCE

Builds and tests in the tree read the files where they are; only an installed copy and the whole site, which slow tests make, miss them.
"""

import os
import re
import sys

FOLDER = re.compile(r"^  '([^']+)': \[([^\]]*)\]", re.MULTILINE)
INSTALLED = re.compile(r"install_headers\(('lockstep/[^)]*?), subdir: 'lockstep'\)")
NAME = re.compile(r"'([^']+)'")
PAGE = re.compile(r'"@source@/([^"]*)"')
LINK = re.compile(r'\]\(([^)\s:#]+\.md)(?:#[^)\s]*)?\)')


def read(source, path):
    with open(os.path.join(source, path), encoding='utf-8') as file:
        return file.read()


def files_in(source, folder):
    for at, _, names in os.walk(os.path.join(source, folder)):
        yield from (os.path.relpath(os.path.join(at, name), source) for name in names)


def uninstalled(source):
    """The files of include/, other than pages, that include/meson.build does not install."""
    text = read(source, 'include/meson.build')
    listed = {name for names in INSTALLED.findall(text) for name in NAME.findall(names)}
    listed |= {f'lockstep/{folder}/{name}' for folder, names in FOLDER.findall(text) for name in NAME.findall(names)}
    for path in sorted(files_in(source, 'include/lockstep')):
        if not path.endswith('.md') and os.path.relpath(path, 'include') not in listed:
            yield f'{path}: include/meson.build does not list it, so it would not be installed'


def unpublished(source):
    """The pages that a page of the site links to, and that docs/Doxyfile.in does not list."""
    pages = set()
    for path in PAGE.findall(read(source, 'docs/Doxyfile.in')):
        inside = files_in(source, path) if os.path.isdir(os.path.join(source, path)) else [path]
        pages |= {name for name in inside if name.endswith('.md')}
    for page in sorted(pages):
        for link in LINK.findall(read(source, page)):
            target = os.path.normpath(os.path.join(os.path.dirname(page), link))
            if target not in pages:
                yield f'{page}: links to {target}, which docs/Doxyfile.in does not list'


def main():
    found = [*uninstalled(sys.argv[1]), *unpublished(sys.argv[1])]
    for text in found:
        print(text)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
