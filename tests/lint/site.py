#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site in a folder of its own. Doxygen's warnings, missing pages and links to missing files are errors.

  site.py SOURCE DOXYFILE     ends with code 77 if there is no doxygen
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PAGES = re.compile(r'"([^"]*\.md)"')


def title_of(page):
    with open(page, encoding='utf-8') as file:
        return file.readline().lstrip('#').strip()


def faults_of(site, titles):
    """The titles that no page of the site has, and the links to files that do not exist."""
    found = set()
    for name in sorted(os.listdir(site)):
        if not name.endswith('.html'):
            continue
        with open(os.path.join(site, name), encoding='utf-8') as file:
            text = file.read()
        found.update(re.findall(r'<title>(?:lockstep: )?(.*?)</title>', text))
        for target in sorted(set(re.findall(r'href="([^":#]+)(?:#[^"]*)?"', text))):
            if not os.path.exists(os.path.join(site, target)):
                yield f'{name}: there is no {target}, to which it links'
    for title in titles:
        if title not in found:
            yield f'no page has the title "{title}"'


def main():
    source, doxyfile = sys.argv[1:3]
    if shutil.which('doxygen') is None:
        print('skipped: doxygen is not installed')
        return 77
    with open(doxyfile, encoding='utf-8') as file:
        settings = file.read()
    pages = PAGES.findall(settings)
    for folder in ('docs', 'include'):
        pages += [os.path.join(at, name) for at, _, names in os.walk(os.path.join(source, folder)) for name in names if name.endswith('.md')]
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(['doxygen', '-'], input=f'{settings}\nOUTPUT_DIRECTORY = "{scratch}"\n', capture_output=True, text=True, timeout=600)
        faults = done.stderr.splitlines()
        if done.returncode != 0 and not faults:
            faults = [f'doxygen ended with code {done.returncode}']
        if not faults:
            # Doxygen shows the name of the project instead of the title of the main page.
            faults = list(faults_of(os.path.join(scratch, 'html'), {title_of(page) for page in pages} - {'lockstep'}))
    for fault in faults:
        print(fault)
    print(f'{len(set(pages))} pages, {len(faults)} faults')
    return 1 if faults or not pages else 0


if __name__ == '__main__':
    sys.exit(main())
