#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Collectives between many nodes, simulated (see simulation.py): scale_test.py SMPIRUN PROGRAM. Prints TAP."""

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import tap  # noqa: E402
from simulation import COLLECTIVES, SimulationError, simulate  # noqa: E402

smpirun, program = sys.argv[1:]
checks = tap.Checks()
check = checks.check


def run(ranks, nodes, calls, selector='ompi'):
    try:
        return simulate(smpirun, program, ranks, nodes, calls, selector)
    except SimulationError as error:
        check(f'{len(calls)} calls on {ranks} ranks of {nodes} nodes end', False, error)
        return []


def check_schedules_of_all_reduce():
    """By messages alone, without the agreement: the bits, and the cost model."""
    cells = []
    for ranks, nodes, what in [
            (8, 8, ['2.2.2:64', 'f2:4096', '0:65536', 'r0:512', 'plan:262144']),
            (21, 5, ['plan:8', 'n.0:4096', 'plan:100000', 'n.r0:256', '3.f2:8192']),
            (64, 64, ['plan:8', 'f2:8', 'plan:4096', '2.2.2.2.2.2:4096', 'plan:32768']),
            (100, 100, ['plan:8', 'plan:4096', '8.r0:4096', 'plan:32768']),
            (101, 101, ['plan:8', 'plan:4096', 'plan:32768'])]:
        for row in run(ranks, nodes, [f'all_reduce:{each}' for each in what]):
            name = f'{row.bytes} B on {ranks} ranks of {nodes} nodes by {row.path}'
            check(f'{name}: the bits of the tree', row.wrong == 0, row.wrong)
            if ranks == nodes:
                cells.append((abs(row.model_us / row.us - 1), name, row.us, row.model_us))
    close = [cell for cell in cells if cell[0] <= 0.2]
    check(f'the model is within 20 % in {len(close)} of {len(cells)} cells', cells and len(close) >= 0.95 * len(cells), sorted(cells)[-3:])

    sizes = [8, 4096, 32768]
    ours = run(64, 64, [f'all_reduce:plan:{size}' for size in sizes])
    peers = [run(64, 64, [f'all_reduce:mpi:{size}' for size in sizes], selector) for selector in ('ompi', 'mvapich2')]
    for row, *of_mpi, most in zip(ours, *peers, (1.0, 0.85, 0.75)):
        ratio = row.us / min(peer.us for peer in of_mpi)
        check(f'{row.bytes} B on 64 ranks: {ratio:.2f} of the best MPI selector, {most} wanted', ratio <= most)


def check_collectives(ranks, nodes):
    """What a communicator does: the agreement and the data, in the memory of nodes and by messages."""
    sizes = [8, 4096, 65536, 262144]
    ours = run(ranks, nodes, [f'{name}:call:{size}' for name in COLLECTIVES for size in sizes])
    peers = [run(ranks, nodes, [f'{name}:mpi:{size}' for name in COLLECTIVES for size in sizes], selector)
             for selector in ('ompi', 'mvapich2')]
    for row, *of_mpi in zip(ours, *peers):
        best = min(peer.us for peer in of_mpi)
        ratio = row.us / best if best > 0 else math.inf
        wrong = [row.wrong, *(peer.wrong for peer in of_mpi)]
        check(f'{row.collective} {row.bytes} B on {ranks} ranks of {nodes} nodes by {row.path}: right values, '
              f'{ratio:.2f} of the best MPI selector', not any(wrong) and 0 < ratio < math.inf, wrong)


check_schedules_of_all_reduce()
check_collectives(64, 64)
check_collectives(64, 8)
sys.exit(checks.end())
