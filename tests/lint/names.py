#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the names in the pages for users exist in the headers. Prints TAP.

  names.py SOURCE BUILD

A page is a .md file beside the public headers or in docs/. Each name in its `code` must be declared in a header, except in the first
column of tables, which may name other libraries. Each program of a page must compile; in each part of a program, the names
of lockstep must be declared. In docs/, commands, options, paths and environment variables are left to quotes.py. Python blocks are not
checked. Programs with libtorch are compiled by the lane `torch` instead.
"""

import os
import re
import subprocess
import sys
import tempfile

import headers

# Public files for programs that are not in C++.
OTHER_LANGUAGES = ('lockstep/lockstep.h', 'lockstep/interop/lockstep.F90', 'lockstep/interop/lockstep_calls.inc')
# A command, an option, a path, or a variable of the environment; or a name of MPI.
COMMAND = re.compile(r'[-/$#]|^[A-Z]+_\w+(=|$)')
BLOCK = re.compile(r'^```(\w*)\n(.*?)^```\n', re.MULTILINE | re.DOTALL)
NAME = re.compile(r'[A-Za-z_]\w*')
# Words in code that are not names of lockstep: the language, placeholders, programs, and names that do not exist.
OTHERS = {'const', 'auto', 'args', 'fn', 'strategy', 'replica', 'python3', 'tests', 'lint', 'methods', 'py', 'table', 'names', 'of',
          'pages', 'tf', 'function', 'print', 'mpirun', 'srun', 'TF_CONFIG', 'CUDA_VISIBLE_DEVICES', 'LOCKSTEP_TIMEOUT', 'distribute',
          'numpy', 'load_file', 'signal', 'sbatch', 'value_or', 'push_back', 'emplace_back', 'posix_spawn', 'system',
          'popen', 'MPI_Init_thread', 'SECONDS', 'program', 'timeout', 'bin', 'true',
          'samples', 'dist', 'cout', 'colocate', 'zero_grad', 'set_num_threads', 'rate', 'mpi_comm', 'malloc', 'calloc', 'realloc', 'new', 'ALLOCATE',
          'fork', 'posix_memalign', 'bad_alloc', 'terminate'}


def declared(source):
    """All words of the headers' code, without comments, which may contain names of variables and texts."""
    words = set()
    for header in [*headers.public_headers(source), *OTHER_LANGUAGES]:
        with open(os.path.join(source, 'include', header), encoding='utf-8') as file:
            words.update(NAME.findall(re.sub(r'//.*', '', file.read())))
    return words


def names_of(text, source, is_command):
    """(line number, name) for the code in a page outside of code blocks, without the first cell of each row, and without paths of files
    of the project that exist, and commands."""
    text = BLOCK.sub(lambda found: '\n' * found.group().count('\n'), text)
    for number, line in enumerate(text.splitlines(), 1):
        ours = line.split('|', 2)[2] if line.startswith('|') else line
        for code in re.findall(r'`([^`]*)`', ours):
            if '/' in code and os.path.isfile(os.path.join(source, code)) or is_command(code):
                continue
            for name in NAME.findall(re.sub(r'"[^"]*"', '', code)):
                yield number, name


def names_of_part(text):
    """The names of lockstep in a part of a program: qualified names, and members that are called."""
    text = re.sub(r'//.*', '', text)
    return re.findall(r'lockstep::(\w+)', text) + re.findall(r'(?:\.|->)(\w+)\(', text)


def compiled(program, command, directory):
    with tempfile.TemporaryDirectory() as scratch:
        unit = os.path.join(scratch, 'program.cpp')
        with open(unit, 'w', encoding='utf-8') as file:
            file.write(program)
        done = subprocess.run(command + ['-Werror', '-fsyntax-only', unit], cwd=directory, capture_output=True, text=True)
    return [] if done.returncode == 0 else done.stderr.splitlines()[:20]


def main():
    source, build = (os.path.abspath(argument) for argument in sys.argv[1:3])
    words = declared(source) | OTHERS
    plain, directory = headers.options(build, 'lockstep-hello.p/')
    pages = [os.path.join(folder, name) for top in ('include', 'docs') for folder, _, names in sorted(os.walk(os.path.join(source, top)))
             for name in sorted(names) if name.endswith('.md')]
    results = []
    for page in pages:
        with open(page, encoding='utf-8') as file:
            text = file.read()
        shown = os.path.relpath(page, source)
        is_command = COMMAND.search if shown.startswith('docs/') else lambda code: False
        missing = [f'{shown}:{line}: no public header declares {name}' for line, name in names_of(text, source, is_command)
                   if name not in words]
        results.append((f'{shown} names only things that exist', missing))
        for number, (language, block) in enumerate(BLOCK.findall(text), 1):
            if language == 'cpp' and 'int main(' not in block:
                unknown = sorted(set(names_of_part(block)) - words)
                results.append((f'{shown}, block {number}, names only things that exist', [f'no public header declares {n}' for n in unknown]))
            elif language == 'cpp' and '#include <torch/' not in block:
                results.append((f'{shown}, block {number}, compiles', compiled(block, plain, directory)))
    print(f'1..{len(results)}')
    for number, (name, faults) in enumerate(results, 1):
        print(f'{"not ok" if faults else "ok"} {number} - {name}')
        print(''.join(f'# {fault}\n' for fault in faults), end='')
    return 1 if any(faults for _, faults in results) or not results else 0


if __name__ == '__main__':
    sys.exit(main())
