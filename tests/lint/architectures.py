#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks for which GPUs the objects with kernels contain code.

  architectures.py few|all NVCC OBJECT...     prints the targets of each object; exits 1 if one lacks a target or has others

all: machine code for every target in ALL that this nvcc supports; few: for the oldest only. Both need PTX for the newest of
these, from which drivers make code for later GPUs. Skips if cuobjdump is neither beside nvcc nor on the path.
"""

import os
import re
import shutil
import subprocess
import sys

ALL = ('80', '90', '100')  # all are needed: code for 9.0 does not run on 10.0
SKIP = 77  # Meson's exit code for skipped tests


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def beside(nvcc, name):
    """The path of the program; None if it is not installed."""
    folder = os.path.dirname(os.path.realpath(nvcc))
    return shutil.which(name, path=folder) or shutil.which(name)


def expected(which, nvcc):
    """(machine code, PTX), each a set of architectures."""
    known = re.findall(r'\bsm_(\d+)\b', output(nvcc, '--list-gpu-code'))
    mine = [number for number in (ALL if which == 'all' else ALL[:1]) if number in known]
    return set(mine), set(mine[-1:])


def found_in(cuobjdump, path):
    """The same for the object `path`, from lines such as "ELF file    1: sum.1.sm_90.cubin", "PTX file    1: sum.1.sm_90.ptx"."""
    listing = output(cuobjdump, '--list-elf', '--list-ptx', path)
    return tuple(set(re.findall(kind + r' file .*\.sm_(\d+\w*)\.', listing)) for kind in ('ELF', 'PTX'))


def text(codes):
    machine, ptx = (' '.join(sorted(numbers, key=lambda number: (len(number), number))) or 'none' for numbers in codes)
    return f'machine code for {machine}, PTX of {ptx}'


def main():
    which, nvcc, *objects = sys.argv[1:]
    cuobjdump = beside(nvcc, 'cuobjdump')
    if cuobjdump is None:
        print('there is no cuobjdump')
        return SKIP
    wanted = expected(which, nvcc)
    failed = 0
    for path in objects:
        found = found_in(cuobjdump, path)
        failed += found != wanted
        print(f'{os.path.basename(path)}: {text(found)}' + ('' if found == wanted else f'; expected {text(wanted)}'))
    return 1 if failed or not objects or not wanted[0] else 0


if __name__ == '__main__':
    sys.exit(main())
