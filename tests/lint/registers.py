#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the output of ptxas for the kernels: the number of registers, and whether a thread keeps everything in them.

  registers.py LOG...     prints each kernel's registers for each GPU; exits 1 if one spills, has a stack frame, or exceeds
                          its limit in MOST

A spilled value is written to memory and read again, in kernels that are limited by memory bandwidth.
"""

import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads')
USED = re.compile(r'Used (\d+) registers')

# Mangled names of kernels, and their largest number of registers: with more, fewer than 4 blocks of 256 threads fit on a
# multiprocessor, and too few loads are in flight to use the memory's bandwidth.
MOST = [(re.compile('copy_kernel'), 64), (re.compile('(Grouped|Any)Inputs.*(Brain|Half)'), 64)]


def kernels(lines):
    """(name, gpu, registers, frame) of each kernel; frame is the three numbers of FRAME, the largest of the functions that it calls."""
    name = gpu = None
    for line in lines:
        if found := ENTRY.search(line):
            name, gpu = found.groups()
            frame = None
        elif (found := FRAME.search(line)) and name:
            frame = [max(int(new), old) for new, old in zip(found.groups(), frame or (0, 0, 0))]
        elif (found := USED.search(line)) and name:
            yield name, gpu, int(found.group(1)), frame
            name = None


def readable(names):
    """The demangled names; the mangled ones if there is no c++filt."""
    try:
        done = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True)
        return done.stdout.split('\n')
    except (OSError, subprocess.CalledProcessError):
        return names


def main():
    found = []
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as file:
            here = list(kernels(file))
        if not here:
            print(f'{path}: no kernel is in it')
            return 1
        found += here
    spilling = above = 0
    for title, (name, gpu, registers, frame) in zip(readable([kernel[0] for kernel in found]), found):
        problem = ''
        if frame is None:
            problem = ': ptxas does not say what it spills'
        elif any(frame):
            problem = ': {} bytes stack frame, {} bytes spill stores, {} bytes spill loads'.format(*frame)
        spilling += problem != ''
        limit = min((most for pattern, most in MOST if pattern.search(name)), default=registers)
        if registers > limit:
            above += 1
            problem += f': more than {limit} registers'
        print(f'{registers:4} registers  {gpu:7}  {title}{problem}')
    print(f'{len(found)} kernels, at most {max(kernel[2] for kernel in found)} registers; not all in registers: {spilling}; above the limit: {above}')
    return 1 if spilling or above else 0


if __name__ == '__main__':
    sys.exit(main())
