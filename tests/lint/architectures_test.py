#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants objects without code for some GPU, as cuobjdump lists them: architectures.py must find each. Prints TAP."""

import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'architectures.py')


def listing(machine, ptx):
    return ''.join([f'PTX file    1: sum.1.sm_{number}.ptx\n' for number in ptx] +
                   [f'ELF file    {k}: sum.{k}.sm_{number}.cubin\n' for k, number in enumerate(machine, 1)])


NEW = 'sm_75 sm_80 sm_86 sm_90 sm_100 sm_103'  # architectures that the compiler supports
OLD = 'sm_70 sm_80 sm_90'

# description, the compiler's list, few or all, contents of the object, exit code, a part of the output
CASES = [
    ('passes complete objects', NEW, 'all', listing(['80', '90', '100'], ['100']), 0, 'machine code for 80 90 100, PTX of 100'),
    ('asks an older compiler for what it knows', OLD, 'all', listing(['80', '90'], ['90']), 0, 'machine code for 80 90'),
    ('asks a build with few for the oldest', NEW, 'few', listing(['80'], ['80']), 0, 'machine code for 80, PTX of 80'),
    ('finds machine code that is missing', NEW, 'all', listing(['80', '100'], ['100']), 1, 'expected machine code for 80 90 100'),
    ('finds missing PTX', NEW, 'all', listing(['80', '90', '100'], []), 1, 'PTX of none'),
    ('finds PTX of an older GPU', NEW, 'all', listing(['80', '90', '100'], ['80']), 1, 'PTX of 80'),
    ('finds code that is for one GPU alone', NEW, 'all', listing(['80', '90a', '100'], ['100']), 1, 'machine code for 80 100 90a'),
    ('finds code for targets that were not requested', NEW, 'few', listing(['80', '90'], ['80']), 1, 'machine code for 80 90'),
    ('takes no silence for an answer', NEW, 'all', '', 1, 'machine code for none'),
    ('skips where nothing lists it', NEW, 'all', None, 77, 'no cuobjdump'),
]


def put(folder, name, said):
    path = os.path.join(folder, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'#!{sys.executable}\nprint({said!r})\n')
    os.chmod(path, 0o755)
    return path


def main():
    print(f'1..{len(CASES)}')
    failed = 0
    for number, (name, known, which, listed, code, text) in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = put(folder, 'nvcc', known.replace(' ', '\n'))
            if listed is not None:
                put(folder, 'cuobjdump', listed)
            done = subprocess.run([sys.executable, SCRIPT, which, nvcc, 'sum.o'], capture_output=True, text=True,
                                  env={'PATH': folder})
        good = done.returncode == code and text in done.stdout and not done.stderr
        failed += not good
        print(f'{"ok" if good else "not ok"} {number} - {name}')
        if not good:
            print(*(f'# {line}' for line in (done.stdout + done.stderr).splitlines()), f'# exit code {done.returncode}', sep='\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
