#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Prints the table collective x size of lockstep's simulated times / those of the best of SMPI's selectors.

table.py SMPIRUN PROGRAM --ranks 100 --nodes 100. See tests/scale/README.md.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from simulation import COLLECTIVES, SELECTORS, SimulationError, simulate  # noqa: E402


def list_of(type_of):
    return lambda text: [type_of(each) for each in text.split(',')]


def size(text):
    units = {'K': 1 << 10, 'M': 1 << 20}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def text_of_size(count):
    for unit, factor in (('MiB', 1 << 20), ('KiB', 1 << 10)):
        if count >= factor and count % factor == 0:
            return f'{count // factor} {unit}'
    return f'{count} B'


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('smpirun')
    parser.add_argument('program', help='the module scale-collectives')
    parser.add_argument('--ranks', type=int, default=64)
    parser.add_argument('--nodes', type=int, default=64)
    parser.add_argument('--sizes', type=list_of(size), default=list_of(size)('8,512,4K,32K,64K,256K,1M'))
    parser.add_argument('--collectives', type=list_of(str), default=list(COLLECTIVES))
    parser.add_argument('--selectors', type=list_of(str), default=list(SELECTORS), help='of smpi/coll-selector')
    parser.add_argument('--how', default='call', help='call, data, call-free-copies or data-free-copies')
    parser.add_argument('--timeout', type=float, default=3600, help='seconds for one collective of one library')
    return parser.parse_args()


def measure(chosen, collective, how, selector='ompi'):
    """The rows of one collective, by size. A simulation that fails is reported, and its rows are missing."""
    calls = [f'{collective}:{how}:{each}' for each in chosen.sizes]
    try:
        rows = simulate(chosen.smpirun, chosen.program, chosen.ranks, chosen.nodes, calls, selector, chosen.timeout)
    except SimulationError as error:
        print(f'# {collective} {how} {selector}: {error}', file=sys.stderr)
        return {}
    for row in rows:
        if row.wrong:
            print(f'# WRONG: {row.wrong} elements of {collective} {row.bytes} B {how} {selector}', file=sys.stderr)
    return {row.bytes: row for row in rows if not row.wrong}


def cell(bytes_of_call, ours, peers):
    best = min(((rows[bytes_of_call].us, name) for name, rows in peers.items() if bytes_of_call in rows), default=None)
    row = ours.get(bytes_of_call)
    if row is None or best is None:
        return '-', ''
    detail = f'{row.path} in {row.segments}: {row.us:.1f} us, {best[1]} {best[0]:.1f} us'
    return f'{row.us / best[0]:.2f}', f'{text_of_size(bytes_of_call)}: {detail}'


def main():
    chosen = options()
    print(f'{chosen.ranks} ranks on {chosen.nodes} nodes, lockstep ({chosen.how}) / the best of {", ".join(chosen.selectors)}\n')
    print('| collective | ' + ' | '.join(text_of_size(each) for each in chosen.sizes) + ' |')
    print('|---' * (len(chosen.sizes) + 1) + '|')
    details = []
    for collective in chosen.collectives:
        ours = measure(chosen, collective, chosen.how)
        peers = {selector: measure(chosen, collective, 'mpi', selector) for selector in chosen.selectors}
        cells = [cell(each, ours, peers) for each in chosen.sizes]
        print(f'| {collective} | ' + ' | '.join(ratio for ratio, _ in cells) + ' |', flush=True)
        details += [f'{collective} {text}' for _, text in cells if text]
    print('', *details, sep='\n')


main()
