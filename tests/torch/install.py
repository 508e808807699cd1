#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Prints the folder of a libtorch: that in the variable LOCKSTEP_TORCH, or one of a wheel that it installs.

  install.py FOLDER     installs into FOLDER, or uses what an earlier run has installed there

pip takes the wheel from the index of its configuration. A wheel with CUDA is larger; of the packages that it requires only those
are installed that libtorch_cpu.so is linked with. Exit code 77, and the reason on stderr, if pip cannot install.
"""

import glob
import os
import re
import shutil
import subprocess
import sys

WHEEL = 'torch==2.15.0'
LOADED = re.compile(r'(cuda-toolkit|nvidia-cuda-runtime|nvidia-cuda-cupti)(?:-cu\d+)?')


def skip(reason):
    print(f'no libtorch: {reason}', file=sys.stderr)
    sys.exit(77)


def requirements(folder):
    """The packages with the libraries that libtorch_cpu.so is linked with."""
    metadata = glob.glob(os.path.join(folder, 'torch-*.dist-info/METADATA'))[0]
    with open(metadata, encoding='utf-8') as file:
        for line in file:
            package = re.match(r'Requires-Dist: ([\w-]+)(?:\[[^\]]*\])?([^;]*)', line)
            if package and LOADED.fullmatch(package[1]):
                extras = '[cudart,cupti]' if package[1] == 'cuda-toolkit' else ''
                yield package[1] + extras + package[2].strip()


def install(folder, *arguments):
    command = [sys.executable, '-m', 'pip', 'install', '--quiet', '--no-cache-dir', '--only-binary', ':all:', '--target', folder]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=1200, check=False)
    except subprocess.TimeoutExpired:
        skip(f'pip install {" ".join(arguments)} did not end within 1200 s')
    if done.returncode:
        skip(f'pip install {" ".join(arguments)}: {(done.stderr.strip().splitlines() or ["no output"])[-1]}')


def main():
    given = os.environ.get('LOCKSTEP_TORCH')
    if given:
        print(os.path.abspath(given))
        return
    folder = os.path.abspath(sys.argv[1])
    complete = os.path.join(folder, f'complete-{WHEEL}')
    if not os.path.exists(complete):
        shutil.rmtree(folder, ignore_errors=True)
        install(folder, '--no-deps', WHEEL)
        packages = list(requirements(folder))
        if packages:
            install(folder, *packages)
        with open(complete, 'w', encoding='utf-8'):
            pass
    print(os.path.join(folder, 'torch'))


if __name__ == '__main__':
    main()
