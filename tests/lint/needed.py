#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks which libraries the shared library needs at startup: one library runs on machines with and without GPUs.

  needed.py LIBRARY     exits 1 if it needs CUDA's driver or runtime, or NCCL, to be loaded
"""

import re
import subprocess
import sys

# The CUDA runtime is linked into the library; the driver and NCCL are opened at run time, if they are installed.
OPTIONAL = re.compile(r'lib(cuda|nccl|nvidia|cublas)')


def needed(library):
    listing = subprocess.run(['readelf', '--dynamic', '--wide', library], check=True, capture_output=True, text=True).stdout
    return re.findall(r'\(NEEDED\).*\[(.*)\]', listing)


def main():
    names = needed(sys.argv[1])
    wrong = [name for name in names if OPTIONAL.match(name)]
    for name in wrong:
        print(f'{sys.argv[1]} does not start without {name}')
    if not names:
        print('nothing is needed')
    return 1 if wrong or not names else 0


if __name__ == '__main__':
    sys.exit(main())
