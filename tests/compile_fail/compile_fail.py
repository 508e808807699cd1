#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles each *.cpp beside this file, which must fail. Prints TAP.

  compile_fail.py SOURCE BUILD

A comment below a file's licence says what the compiler's output must contain:  // must not compile: TEXT
An include of the library alone, compiled the same way, must succeed: else everything would fail.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, 'lint'))
from headers import options  # noqa: E402

MARK = '// must not compile: '


def compile_file(path, command, directory):
    done = subprocess.run(command + ['-fsyntax-only', path], cwd=directory, capture_output=True, text=True)
    return done.returncode, ' '.join(done.stderr.split())


def check(path, command, directory):
    """What is wrong with the file, an empty text if nothing."""
    with open(path, encoding='utf-8') as file:
        marks = [line.rstrip('\n')[len(MARK):] for line in file if line.startswith(MARK)]
    if len(marks) != 1:
        return f'there must be one line "{MARK}TEXT"'
    code, output = compile_file(path, command, directory)
    if code == 0:
        return 'it compiles'
    return '' if marks[0] in output else f'"{marks[0]}" is missing in: {output[:2000]}'


def main():
    source, build = (os.path.abspath(argument) for argument in sys.argv[1:3])
    folder = os.path.join(source, 'tests', 'compile_fail')
    command, directory = options(build)
    command = [word for word in command if word != '-fdiagnostics-color=always'] + ['-fdiagnostics-color=never']
    files = sorted(name for name in os.listdir(folder) if name.endswith('.cpp'))
    print(f'1..{len(files) + 1}', flush=True)
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        good = os.path.join(scratch, 'good.cpp')
        with open(good, 'w', encoding='utf-8') as file:
            file.write('#include <lockstep/lockstep.hpp>\nextern int lockstep_compiles;\n')
        jobs = [('the library alone compiles', pool.submit(lambda: compile_file(good, command, directory)[1]))]
        jobs += [(f'{name} does not compile', pool.submit(check, os.path.join(folder, name), command, directory))
                 for name in files]
        failed = 0
        for number, (name, job) in enumerate(jobs, 1):
            text = job.result()
            failed += text != ''
            print(f'{"not ok" if text else "ok"} {number} - {name}')
            if text:
                print(f'# {text}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
