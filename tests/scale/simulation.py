# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs scale-collectives on simulated ranks.

All times are simulated, on parameters that were chosen: 1 us and 100 Gbit/s from node to node, 0.25 us of processor per
send and receive. Only ratios inside one run mean something.
"""

import os
import signal
import subprocess
import tempfile
from typing import NamedTuple

COLLECTIVES = ('all_reduce', 'all_gather', 'reduce_scatter', 'broadcast', 'reduce', 'gather', 'scatter', 'all_to_all')
SELECTORS = ('ompi', 'mvapich2', 'mpich')

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="n" suffix="" radical="0-{last}" speed="1Gf" core="64" bw="100Gbps" lat="500ns"
           loopback_bw="20GBps" loopback_lat="200ns" sharing_policy="SPLITDUPLEX"/>
</platform>
"""
# SMPI's defaults describe TCP on Gigabit Ethernet, and let no message leave before its receive is posted. Polls take the
# time that mpi_calls.cpp charges.
OPTIONS = ['smpi/simulate-computation:no', 'smpi/wtime:0', 'smpi/bw-factor:0:1', 'smpi/lat-factor:0:1',
           'network/weight-S:0', 'network/crosstraffic:0', 'smpi/os:0:2.5e-7:0', 'smpi/ois:0:2.5e-7:0',
           'smpi/or:0:2.5e-7:0', 'smpi/grow-injected-times:no', 'smpi/test:0', 'smpi/async-small-thresh:65536']


class Row(NamedTuple):
    collective: str
    path: str
    segments: int
    bytes: int
    us: float
    model_us: float
    wrong: int


class SimulationError(Exception):
    pass


def run(command, folder, timeout):
    """The output of `command`. smpirun is a script, so what it started ends with it after a timeout."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True) as process:
        try:
            return process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
            raise SimulationError(f'no end after {timeout} s:\n{output}') from None


def simulate(smpirun, program, ranks, nodes, calls, selector='ompi', timeout=900):
    """Runs `calls`, arguments of the program, and returns a Row for each. `selector` chooses SMPI's algorithms, which are
    also those of the collectives outside of the measurements: SMPI's default ones are linear, and slow for many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'platform.xml'), 'w') as file:
            file.write(PLATFORM.format(last=nodes - 1))
        with open(os.path.join(folder, 'hosts'), 'w') as file:
            for node in range(nodes):
                file.writelines(f'n{node}\n' for _ in range(ranks * node // nodes, ranks * (node + 1) // nodes))
        options = [*OPTIONS, f'smpi/coll-selector:{selector}']
        command = [smpirun, '-np', str(ranks), '-platform', 'platform.xml', '-hostfile', 'hosts',
                   *(f'--cfg={option}' for option in options), '--log=root.thres:critical', os.path.abspath(program), *calls]
        output = run(command, folder, timeout)
    lines = [line.split() for line in output.splitlines()]
    rows = [Row(*(type_of(text) for type_of, text in zip(Row.__annotations__.values(), line)))
            for line in lines if len(line) == len(Row._fields) and line[0] in COLLECTIVES]
    if len(rows) != len(calls):
        raise SimulationError(f'{" ".join(calls)} on {ranks} ranks of {nodes} nodes:\n{output}')
    return rows
