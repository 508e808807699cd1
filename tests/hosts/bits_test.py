#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Equal results on all layouts: bits_test.py MPIRUN BITS. Prints TAP.

Runs every reducing collective over 1 to 16 replicas, on 1 to 4 ranks of 1 to 3 hosts. The output of each layout must be
that of the oracle.
"""

import subprocess
import sys

import hosts
import tap

LAYOUTS = ([1], [2], [3], [4], [1, 1], [2, 2], [1, 3], [1, 1, 1], [2, 1, 1])
MOST_REPLICAS = 16

mpirun, bits = sys.argv[1:]
hosts.enter_or_skip('one hash over layouts')


def lines_of(text):
    """{(replicas, collective, dtype): hash}"""
    words = [line.split() for line in text.splitlines()]
    return {tuple(line[:3]): line[3] for line in words if len(line) == 4 and line[0].isdigit()}


oracle = lines_of(subprocess.run([bits, 'oracle'], capture_output=True, text=True, check=True).stdout)


def matches(ranks):
    def case():
        with hosts.Hosts(len(ranks), mpirun=mpirun) as these:
            result = these.run(ranks, [bits], timeout=300)
        tap.expect(result.returncode == 0, f'exit code {result.returncode}\n{result.stderr[-3000:]}')
        expected = {key: value for key, value in oracle.items() if sum(ranks) <= int(key[0]) <= MOST_REPLICAS}
        found = lines_of(result.stdout)
        wrong = [key for key in expected if found.get(key) != expected[key]]
        tap.expect(found.keys() == expected.keys() and not wrong, f'{len(wrong)} of {len(expected)} hashes: {wrong[:5]}')

    return case


def notices():
    """Checks that the comparison can fail: the sums of 16 replicas differ from those of 15."""
    same = [key for key, value in oracle.items() if key[0] == '16' and oracle.get(('15', *key[1:])) == value]
    tap.expect(len(oracle) > 300 and not same, f'{len(oracle)} hashes, the same for 15 and 16 replicas: {same}')


sys.exit(tap.run_cases([('the oracle has a hash for each sum', notices)] +
                       [(f'{"+".join(map(str, ranks))} ranks', matches(ranks)) for ranks in LAYOUTS]))
