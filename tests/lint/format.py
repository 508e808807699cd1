#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that every C++ file is formatted as by clang-format 19. Exits 77 if clang-format 19 is missing.

  format.py SOURCE [--fix] [FILE...]   these files, or all
"""

import os
import shutil
import subprocess
import sys

FOLDERS = ('include', 'lib', 'apps', 'bench', 'python', 'testing', 'tests')
SUFFIXES = ('.hpp', '.cpp', '.cu', '.cuh')


def formatter():
    for name in ('clang-format-19', 'clang-format'):
        if shutil.which(name) and 'version 19.' in subprocess.run([name, '--version'], capture_output=True, text=True).stdout:
            return name
    return None


def main():
    source = os.path.abspath(sys.argv[1])
    name = formatter()
    if not name:
        print('clang-format 19 is not installed (Debian package clang-format-19)')
        return 77
    files = [argument for argument in sys.argv[2:] if argument != '--fix']
    files = files or [os.path.join(folder, file) for top in FOLDERS for folder, _, files in os.walk(os.path.join(source, top))
             for file in sorted(files) if file.endswith(SUFFIXES)]
    if '--fix' in sys.argv:
        return subprocess.run([name, '-i', *files], cwd=source).returncode
    done = subprocess.run([name, '--dry-run', '--Werror', *files], cwd=source)
    if done.returncode:
        print('to repair: python3 tests/lint/format.py . --fix')
    return done.returncode


if __name__ == '__main__':
    sys.exit(main())
