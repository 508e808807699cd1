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

# description, exported by this build, exported by the other one, result: (the build that lacks it, the name)
CASES = [
    ('passes the same names', {COUNT, WAITS, OPEN}, {COUNT, WAITS, OPEN}, []),
    ('leaves functions aside that take handles of MPI', {COUNT, NUMBER}, {COUNT, OPEN}, []),
    ('leaves them aside the other way round', {COUNT, OPEN}, {COUNT, NUMBER}, []),
    ('finds a name that only the other build has', {COUNT}, {COUNT, WAITS}, ['this build']),
    ('finds a name that only this build has', {COUNT, WAITS}, {COUNT}, ['the other build']),
    ('finds a type of CUDA in a signature', {COUNT, WAITS}, {COUNT, TYPED}, ['this build', 'the other build']),
]


def reason(built, is_own, source_time):
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
        own = 'build' if is_own else 'build-mpich'
        return why_not(os.path.join(root, own, 'lib/liblockstep.so'), os.path.join(root, 'build'), root)


def main():
    checks = Checks()
    for what, arguments, expected in (('skips if nothing is built', (False, False, 500), 'there is no '),
                                      ('skips the own build', (True, True, 500), 'is this build'),
                                      ('skips a build that is older than a source', (True, False, 2000), 'older than the sources')):
        found = reason(*arguments)
        checks.check(what, expected in found, found)
    checks.check('accepts a build that is newer than all sources', reason(True, False, 500) == '')
    for what, own, other, expected in CASES:
        found = list(differences(own, other))
        checks.check(what, [where for where, _ in found] == expected, found)
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
