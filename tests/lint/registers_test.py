#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants the output of ptxas for kernels that spill: registers.py must find each. Prints TAP."""

import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'registers.py')


def said(name, gpu, frame, used='ptxas info    : Used 40 registers, used 0 barriers, 360 bytes cmem[0]\n'):
    return (f"ptxas info    : Compiling entry function '{name}' for '{gpu}'\n"
            f'ptxas info    : Function properties for {name}\n{frame}{used}ptxas info    : Compile time = 2.277 ms\n')


def frame(stack, stores, loads):
    return f'    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n'


CLEAN = 'ptxas info    : 0 bytes gmem\n' + said('_Z3addPf', 'sm_80', frame(0, 0, 0)) + said('_Z3addPf', 'sm_90', frame(0, 0, 0))
CALLED = 'ptxas info    : Function properties for _Z4calli\n'

# description, the log, exit code, a part of the output
CASES = [
    ('passes kernels that spill nothing', CLEAN, 0, '2 kernels, at most 40 registers'),
    ('finds a stack frame', CLEAN + said('_Z3mulPf', 'sm_90', frame(16, 0, 0)), 1, '16 bytes stack frame'),
    ('finds spill stores', CLEAN + said('_Z3mulPf', 'sm_90', frame(0, 8, 0)), 1, '8 bytes spill stores'),
    ('finds spill loads', CLEAN + said('_Z3mulPf', 'sm_90', frame(0, 0, 4)), 1, '4 bytes spill loads'),
    ('finds the one that spills among others', said('_Z3mulPf', 'sm_90', frame(0, 8, 8)) + CLEAN, 1, 'not all in registers: 1'),
    ('finds what a called function spills', said('_Z3mulPf', 'sm_90', frame(0, 0, 0) + CALLED + frame(0, 8, 8)), 1,
     '8 bytes spill stores'),
    ('takes no silence for an answer', said('_Z3mulPf', 'sm_90', ''), 1, 'does not say'),
    ('takes no log without kernels', 'ptxas info    : 0 bytes gmem\n', 1, 'no kernel'),
]


def main():
    print(f'1..{len(CASES)}')
    failed = 0
    for number, (name, log, code, text) in enumerate(CASES, 1):
        with tempfile.NamedTemporaryFile('w', suffix='.log') as file:
            file.write(log)
            file.flush()
            done = subprocess.run([sys.executable, SCRIPT, file.name], capture_output=True, text=True)
        good = done.returncode == code and text in done.stdout and not done.stderr
        failed += not good
        print(f'{"ok" if good else "not ok"} {number} - {name}')
        if not good:
            print(*(f'# {line}' for line in (done.stdout + done.stderr).splitlines()), f'# exit code {done.returncode}', sep='\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
