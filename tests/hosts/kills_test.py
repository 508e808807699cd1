#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Processes on simulated hosts that exchange data over TCP while one of them is killed: kills_test.py MPIRUN UNIT_PROCESSES. Prints TAP."""

import os
import subprocess
import sys

import hosts
import tap

mpirun, unit_processes = sys.argv[1:]
hosts.enter_or_skip('kills on hosts')


def survive(count):
    def run():
        with hosts.Hosts(count, mpirun=mpirun) as these:
            networks = ','.join(f'/proc/{holder.pid}/ns/net' for holder in these.holders)
            result = subprocess.run([unit_processes, '--gtest_filter=TcpKills.*'], capture_output=True, text=True, timeout=900,
                                    env={**os.environ, 'LOCKSTEP_TEST_NETWORKS': networks})
        tap.expect(result.returncode == 0 and '[  PASSED  ] 1 test.' in result.stdout, result.stdout + result.stderr)
    return run


sys.exit(tap.run_cases([(f'processes on {count} hosts lose nothing between them while one is killed', survive(count)) for count in (2, 4)]))
