#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the names that the shared library exports in two builds: without and with CUDA, or with Open MPI and MPICH.

  abi.py LIBRARY BUILD     compares LIBRARY and BUILD/lib/liblockstep.so; exits 1 if names differ

A program can run with either library. If one build uses Open MPI and the other MPICH, functions that take MPI handles are
ignored, because the types of the handles differ. Skips if LIBRARY is that of BUILD, or BUILD does not exist or is older than the sources.
"""

import os
import re
import subprocess
import sys

SKIP = 77  # Meson's exit code for skipped tests
SOURCES = ('.hpp', '.cpp', '.cu', '.cuh')
HANDLE = re.compile(r'\bompi_\w+')  # MPI's types in Open MPI; in MPICH they are integers


def exported(library):
    """The mangled names, without weak symbols and the statics of templates, which every library may have."""
    listing = subprocess.run(['nm', '--dynamic', '--defined-only', library], check=True, capture_output=True, text=True)
    return {name for _, kind, name in map(str.split, listing.stdout.splitlines()) if kind not in 'VvWwu'}


def readable(names):
    """{mangled name: demangled name}."""
    names = sorted(names)
    done = subprocess.run(['c++filt'], input='\n'.join(names), check=True, capture_output=True, text=True)
    return dict(zip(names, done.stdout.split('\n')))


def differences(own, other):
    """(the build that lacks it, the demangled name) for each name that one of two sets of mangled names lacks."""
    names = readable(own | other)
    functions = {name: text.split('(')[0] for name, text in names.items()}
    with_handles = {functions[name] for name, text in names.items() if HANDLE.search(text)}
    for missing, where in ((other - own, 'this build'), (own - other, 'the other build')):
        for name in sorted(missing):
            if functions[name] not in with_handles:
                yield where, f'{names[name]} ({name})'


def newest_source(root):
    return max(os.path.getmtime(os.path.join(folder, name)) for top in ('include', 'lib')
               for folder, _, names in os.walk(os.path.join(root, top)) for name in names if name.endswith(SOURCES))


def why_not(own, build, root):
    """The reason why there is nothing to compare with; empty if there is something."""
    library = os.path.join(build, 'lib', 'liblockstep.so')
    if not os.path.exists(library):
        return f'there is no {library}'
    if os.path.realpath(library) == os.path.realpath(own):
        return f'{build} is this build'
    if os.path.getmtime(library) < newest_source(root):
        return f'{library} is older than the sources'
    return ''


def main():
    library, build = sys.argv[1:]
    reason = why_not(library, build, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..'))
    if reason:
        print(reason)
        return SKIP
    own, other = exported(library), exported(os.path.join(build, 'lib', 'liblockstep.so'))
    found = list(differences(own, other))
    for where, name in found:
        print(f'not in {where}: {name}')
    print(f'{len(own)} names in this build, {len(other)} in {build}; missing in one: {len(found)}')
    return 1 if found or not own else 0


if __name__ == '__main__':
    sys.exit(main())
