#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's input filter for pages: prints a page with labels at its headings, and with links that Doxygen resolves.

  links.py SOURCE PAGE

A link to another page, to a heading or to a public header becomes a reference; the text of a link to another file of the project remains
alone. A link to a file that does not exist becomes a reference that Doxygen refuses. A picture is named without its folder.
"""

import os
import re
import sys

FENCE = re.compile(r'^ *```')
HEADING = re.compile(r'^(#+) (.*)$')
REPLACED = re.compile(r'(`[^`]*`|(?<!\S)#(?=\w))|(!?)\[([^\]]*)\]\(([^)\s]+)\)')


def label(page, heading=''):
    """The label of a page, or of a heading of it, which GitHub's rule shortens."""
    words = re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
    return re.sub(r'\W', '_', page[:-len('.md')] if page.endswith('.md') else page) + ('--' + words if words else '')


def target_of(source, page, target):
    """What a link of a page refers to, or None if the site does not have it."""
    path, _, heading = target.partition('#')
    file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(os.path.join(source, file)):
        return 'missing_file_' + label(file)
    if file.endswith('.md'):
        return 'index' if file == 'README.md' and not heading else label(file, heading)
    if file.startswith('include/') and file.endswith(('.hpp', '.h')):
        return file[len('include/'):]
    return None


def line_of(source, page, line):
    heading = HEADING.match(line)
    if heading:
        hashes, text = heading.groups()
        if page == 'README.md' and hashes == '#':
            return line
        return f'{hashes} {text} {{#{label(page, text if len(hashes) > 1 else "")}}}'

    def replacement(found):
        code, picture, text, target = found.groups()
        if code == '#':  # of a word, which Doxygen would take for the name of a member
            return '\\#'
        if code or re.match(r'\w+:', target):
            return found.group()
        if picture:  # Doxygen looks for it in IMAGE_PATH
            return f'![{text}]({os.path.basename(target)})'
        reference = target_of(source, page, target)
        return f'[{text}](@ref {reference})' if reference else text

    return REPLACED.sub(replacement, line)


def main():
    source, page = (os.path.abspath(argument) for argument in sys.argv[1:3])
    in_block = False
    with open(page, encoding='utf-8') as file:
        for line in file.read().splitlines():
            fence = FENCE.match(line)
            print(line if in_block or fence else line_of(source, os.path.relpath(page, source), line))
            in_block ^= bool(fence)


if __name__ == '__main__':
    main()
