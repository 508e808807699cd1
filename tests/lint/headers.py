#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles every public header alone, with the compiler and the options of a build. Prints TAP.

  headers.py SOURCE BUILD [HEADER...]   these headers, such as lockstep/base/error.hpp, or all

Headers of the standard library are precompiled, because most of the time goes there; that each header includes those
whose names it uses is what includes.py checks. Only headers of interop/ are compiled with the include folders of other libraries (those that the library is compiled
with). They are skipped if a header of another library is not installed.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile


def options_of(entry):
    """The words of an entry of compile_commands.json, without those that name inputs, outputs or a precompiled header."""
    words = iter(shlex.split(entry['command']))
    kept = []
    for word in words:
        if word in ('-o', '-MF', '-MQ', '-MT', '-include', '-include-pch'):
            next(words)
        elif word not in ('-c', '-MD', '-MMD', '-fpch-preprocess', entry['file']) and 'ccache' not in word:
            kept.append(word)
    return kept


def options(build, output_part='liblockstep-strategy'):
    """The compiler and its options for a target (by default a part of the library), without outputs."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        entry = next(e for e in json.load(file) if output_part in e['output'])
    return options_of(entry), entry['directory']


def public_headers(source):
    include = os.path.join(source, 'include')
    for folder, _, names in sorted(os.walk(include)):
        for name in sorted(names):
            if name.endswith('.hpp'):
                yield os.path.relpath(os.path.join(folder, name), include)


def precompiled(source, command, directory, scratch):
    """The options by which a compilation begins with all headers of the standard library that public headers include."""
    names = set()
    for header in public_headers(source):
        with open(os.path.join(source, 'include', header), encoding='utf-8') as file:
            names.update(re.findall(r'^#include <([a-z_]+)>', file.read(), re.MULTILINE))
    path = os.path.join(scratch, 'standard.hpp')
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(f'#include <{name}>\n' for name in sorted(names))
    subprocess.run(command + ['-x', 'c++-header', path, '-o', path + '.gch'], cwd=directory, check=True)
    return ['-include', path]


def of_eigen():
    """The include folder of Eigen, which is not in the compiler's own path."""
    try:
        done = subprocess.run(['pkg-config', '--cflags', 'eigen3'], capture_output=True, text=True)
    except FileNotFoundError:
        return []
    return [word.replace('-I', '-isystem', 1) for word in shlex.split(done.stdout)]


def compile_alone(header, command, directory, scratch):
    unit = os.path.join(scratch, header.replace('/', '_') + '.cpp')
    with open(unit, 'w', encoding='utf-8') as file:
        # Twice: it must guard itself. The last line makes the unit non-empty.
        file.write(f'#include <{header}>\n#include <{header}>\nextern int lockstep_header_is_complete;\n')
    done = subprocess.run(command + ['-Werror', '-fsyntax-only', unit], cwd=directory, capture_output=True, text=True)
    return done.returncode, done.stderr


def missing_foreign_header(source, header, command, directory, scratch):
    """The first header of another library that the header of interop/ includes and the compiler does not find, or None."""
    with open(os.path.join(source, 'include', header), encoding='utf-8') as file:
        foreign = re.findall(r'^#include <([^>]+\.h|Eigen/[^>]+)>', file.read(), re.MULTILINE)
    for name in foreign:
        probe = os.path.join(scratch, 'probe_' + header.replace('/', '_') + '.cpp')
        with open(probe, 'w', encoding='utf-8') as file:
            file.write(f'#if !__has_include(<{name}>)\n#error missing\n#endif\n')
        if subprocess.run(command + ['-fsyntax-only', probe], cwd=directory, capture_output=True).returncode:
            return name
    return None


def check(source, header, commands, directory, scratch):
    """(exit code, the compiler's output, reason for skipping)"""
    interop = '/interop/' in header
    command = commands['interop' if interop else 'plain']
    missing = missing_foreign_header(source, header, command, directory, scratch) if interop else None
    if missing:
        return 0, '', f' # SKIP <{missing}> is not installed'
    return *compile_alone(header, command, directory, scratch), ''


def main():
    source, build = (os.path.abspath(argument) for argument in sys.argv[1:3])
    # Without lib/ in the search path: a public header must not need a private one.
    interop, directory = options(build)
    plain = [w for w in interop if not (w.startswith('-I') and w.rstrip('/').endswith('lib'))]
    headers = sys.argv[3:] or list(public_headers(source))
    print(f'1..{len(headers)}', flush=True)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        begin = precompiled(source, plain, directory, scratch)
        commands = {'interop': interop + of_eigen() + begin, 'plain': plain + begin}
        jobs = [pool.submit(check, source, header, commands, directory, scratch) for header in headers]
        for number, (header, job) in enumerate(zip(headers, jobs), 1):
            code, text, skipped = job.result()
            failed += code != 0
            print(f'{"not ok" if code else "ok"} {number} - {header} compiles alone{skipped}')
            if code:
                print(*(f'# {line}' for line in text.splitlines()[:20]), sep='\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
