#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants names that one library exports and another does not: abi.py must find each. Prints TAP."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from abi import differences, why_not  # noqa: E402
from tap import Checks  # noqa: E402

COUNT = '_ZN8lockstep9gpu_countEv'  # gpu_count()
WAITS = '_ZN8lockstep16device_waits_forENS_6DeviceEPv'  # device_waits_for(Device, void*)
TYPED = '_ZN8lockstep16device_waits_forENS_6DeviceEP11CUstream_st'  # device_waits_for(Device, CUstream_st*)
OPEN = '_ZN8lockstep17communicator_fromEP19ompi_communicator_t'  # communicator_from(MPI_Comm) of Open MPI
NUMBER = '_ZN8lockstep17communicator_fromEi'  # communicator_from(MPI_Comm) of MPICH

# description, exported without CUDA, exported with CUDA, result: (the build that lacks it, the name)
CASES = [
    ('passes the same names', {COUNT, WAITS, OPEN}, {COUNT, WAITS, OPEN}, []),
    ('leaves functions aside that take handles of MPI', {COUNT, NUMBER}, {COUNT, OPEN}, []),
    ('leaves them aside the other way round', {COUNT, OPEN}, {COUNT, NUMBER}, []),
    ('finds a name that only a build with CUDA has', {COUNT}, {COUNT, WAITS}, ['without CUDA']),
    ('finds a name that only a build without CUDA has', {COUNT, WAITS}, {COUNT}, ['with CUDA']),
    ('finds a type of CUDA in a signature', {COUNT, WAITS}, {COUNT, TYPED}, ['without CUDA', 'with CUDA']),
]


def reason(built, has_cuda, source_time):
    """The reason why a build whose library is from second 1000 is not compared with; empty if it is."""
    with tempfile.TemporaryDirectory() as root:
        def put(path, time):
            path = os.path.join(root, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8'):
                pass
            os.utime(path, (time, time))

        put('include/lockstep/a.hpp', 1)
        put('lib/core/a.cpp', source_time)
        put('lib/README.md', 3000)
        if built:
            put('build/lib/liblockstep.so', 1000)
        if has_cuda:
            put('build/lib/device/cuda/kernels.o', 1000)
        return why_not(os.path.join(root, 'build'), root)


def main():
    checks = Checks()
    for what, arguments, expected in (('skips if nothing is built', (False, False, 500), 'there is no '),
                                      ('skips where the other has no CUDA', (True, False, 500), 'has no CUDA'),
                                      ('skips a build that is older than a source', (True, True, 2000), 'older than the sources')):
        found = reason(*arguments)
        checks.check(what, expected in found, found)
    checks.check('accepts a build that is newer than all sources', reason(True, True, 500) == '')
    for what, without, with_cuda, expected in CASES:
        found = list(differences(without, with_cuda))
        checks.check(what, [where for where, _ in found] == expected, found)
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
