#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""all_reduce between many nodes, simulated: scale_test.py SMPIRUN PROGRAM. Prints TAP.

All times are simulated, on parameters that were chosen: 1 us and 100 Gbit/s from node to node, 0.25 us of processor per
send and receive. Only ratios inside one test mean something.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import tap  # noqa: E402

smpirun, program = sys.argv[1:]
checks = tap.Checks()
check = checks.check

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-{last}" speed="1Gf" core="64" bw="100Gbps" lat="500ns"
           loopback_bw="20GBps" loopback_lat="200ns" sharing_policy="SPLITDUPLEX"/>
</platform>
"""
# SMPI's defaults describe TCP on Gigabit Ethernet; polls cost 100 us there
OPTIONS = ['smpi/simulate-computation:no', 'smpi/wtime:0', 'smpi/bw-factor:0:1', 'smpi/lat-factor:0:1',
           'network/weight-S:0', 'network/crosstraffic:0', 'smpi/os:0:2.5e-7:0', 'smpi/ois:0:2.5e-7:0',
           'smpi/or:0:2.5e-7:0', 'smpi/grow-injected-times:no']


def simulate(folder, ranks, nodes, what, selector=None, poll='3e-8'):
    with open(os.path.join(folder, 'platform.xml'), 'w') as file:
        file.write(PLATFORM.format(last=nodes - 1))
    with open(os.path.join(folder, 'hosts'), 'w') as file:
        for node in range(nodes):
            file.writelines(f'n{node}\n' for _ in range(ranks * node // nodes, ranks * (node + 1) // nodes))
    options = OPTIONS + [f'smpi/test:{poll}', f'smpi/iprobe:{poll}']
    if selector:
        options.append('smpi/coll-selector:' + selector)
    command = [smpirun, '-np', str(ranks), '-platform', 'platform.xml', '-hostfile', 'hosts',
               *(f'--cfg={option}' for option in options), '--log=root.thres:critical', os.path.abspath(program), *what]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    rows = [line.split() for line in result.stdout.splitlines() if len(line.split()) == 6]
    if len(rows) != len(what):
        check(f'{what} on {ranks} ranks ends', False, result.stdout + result.stderr)
    return rows


cells = []
with tempfile.TemporaryDirectory() as folder:
    for ranks, nodes, what in [
            (8, 8, ['2.2.2:64', 'f2:4096', '0:65536', 'r0:512', 'plan:262144']),
            (21, 5, ['plan:8', 'n.0:4096', 'plan:100000', 'n.r0:256', '3.f2:8192']),
            (64, 64, ['plan:8', 'f2:8', 'plan:4096', '2.2.2.2.2.2:4096', 'plan:32768']),
            (100, 100, ['plan:8', 'plan:4096', '8.r0:4096', 'plan:32768']),
            (101, 101, ['plan:8', 'plan:4096', 'plan:32768'])]:
        for radices, segments, size, us, model_us, wrong in simulate(folder, ranks, nodes, what):
            name = f'{size} B on {ranks} ranks of {nodes} nodes by {radices}'
            check(f'{name}: the bits of the tree', wrong == '0', wrong)
            if ranks == nodes:
                cells.append((abs(float(model_us) / float(us) - 1), name, us, model_us))
    close = [cell for cell in cells if cell[0] <= 0.2]
    check(f'the model is within 20 % in {len(close)} of {len(cells)} cells', cells and len(close) >= 0.95 * len(cells), sorted(cells)[-3:])

    sizes = [8, 4096, 32768]
    ours = simulate(folder, 64, 64, [f'plan:{size}' for size in sizes])
    peers = [simulate(folder, 64, 64, [f'mpi:{size}' for size in sizes], selector) for selector in ('ompi', 'mvapich2')]
    for i, (size, most) in enumerate(zip(sizes, (1.0, 0.85, 0.75))):
        ratio = float(ours[i][3]) / min(float(rows[i][3]) for rows in peers)
        check(f'{size} B on 64 ranks: {ratio:.2f} of the best MPI selector, {most} wanted', ratio <= most)

sys.exit(checks.end())
