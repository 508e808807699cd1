# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against the torch that is installed and against an installed lockstep, which pkg-config finds.

LOCKSTEP_PREFIX=FOLDER names the prefix of lockstep if pkg-config does not know it.
"""

import glob
import os
import shlex
import subprocess
import sys

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension


def package(*options):
    environment = dict(os.environ)
    prefix = environment.get('LOCKSTEP_PREFIX')
    if prefix:
        found = glob.glob(os.path.join(prefix, 'lib', '**', 'pkgconfig', 'lockstep.pc'), recursive=True)
        if not found:
            sys.exit(f'LOCKSTEP_PREFIX is {prefix}, but there is no pkgconfig/lockstep.pc in its lib folder')
        environment['PKG_CONFIG_PATH'] = os.path.dirname(found[0]) + ':' + environment.get('PKG_CONFIG_PATH', '')
    done = subprocess.run(['pkg-config', *options, 'lockstep'], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f'lockstep is not found; install it, or set LOCKSTEP_PREFIX or PKG_CONFIG_PATH: {done.stderr.strip()}')
    return shlex.split(done.stdout)


folder = os.path.dirname(os.path.abspath(__file__))
extension = CppExtension(
    'lockstep_torch._c',
    [os.path.relpath(source, folder) for source in sorted(glob.glob(os.path.join(folder, 'src', '*.cpp')))],
    extra_compile_args=['-std=c++20', '-O2', '-g0', *package('--cflags')],
    extra_link_args=[*package('--libs'), *('-Wl,-rpath,' + libdir for libdir in package('--variable=libdir'))],
)
setup(ext_modules=[extension], cmdclass={'build_ext': BuildExtension})
