#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Disconnects a host while ranks reduce: cut_link_test.py MPIRUN PROGRAM. Prints TAP."""

import os
import subprocess
import sys
import tempfile
import time

import hosts
import tap

DEADLINE_S = 6
SLACK_S = 90  # for machines that are shared with other programs

mpirun, program = sys.argv[1:]
hosts.enter_or_skip('a cut link')


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        tap.expect(time.monotonic() < end, f'not within {seconds} s: {what}')
        time.sleep(0.02)


def reports(folder, ranks):
    """[code, seconds, named rank, text] of every rank; None if a rank has not written its report."""
    try:
        return [open(os.path.join(folder, f'report.{rank}')).read().split(maxsplit=3) for rank in range(ranks)]
    except FileNotFoundError:
        return []


def running(these, ranks, folder, deadline):
    process = these.start(ranks, [program, folder, str(deadline)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    files = [os.path.join(folder, f'ready.{rank}') for rank in range(sum(ranks))]
    until(lambda: all(map(os.path.exists, files)) or process.poll() is not None, 200, 'all ranks reduce')
    tap.expect(process.poll() is None, f'the job has ended: {process.stdout.read() if process.poll() is not None else ""}')
    return process


def ends_everywhere(ranks, cut):
    def case():
        with tempfile.TemporaryDirectory() as folder, hosts.Hosts(len(ranks), mpirun=mpirun) as these:
            running(these, ranks, folder, DEADLINE_S)
            these.cut(cut)
            # one deadline for the agreement, and one for the data
            until(lambda: reports(folder, sum(ranks)), 2 * DEADLINE_S + SLACK_S, 'all ranks report')
            behind = range(sum(ranks[:cut - 1]), sum(ranks[:cut]))
            for rank, (code, seconds, named, text) in enumerate(reports(folder, sum(ranks))):
                tap.expect(code in ('deadline_exceeded', 'unavailable'), f'rank {rank}: {code} {text}')
                tap.expect(float(seconds) < 2 * DEADLINE_S + SLACK_S / 2, f'rank {rank} waited {seconds} s: {text}')
                tap.expect((rank in behind) != (int(named) in behind), f'rank {rank} names {named}: {text}')
                tap.expect(f'rank {named}' in text or f'ranks {named}' in text, f'rank {rank}: {text}')
            # only the launcher waits for the lost host, no rank does
            until(lambda: not [p for p in hosts.processes(program) if is_rank(p)], 100, 'all ranks have ended')

    return case


def is_rank(process):
    try:
        return os.path.basename(os.readlink(f'/proc/{process}/exe')) == os.path.basename(program)
    except OSError:
        return False


def survives_a_short_cut():
    ranks = [2, 2]
    with tempfile.TemporaryDirectory() as folder, hosts.Hosts(2, mpirun=mpirun) as these:
        process = running(these, ranks, folder, 200)
        these.cut(2)
        time.sleep(0.4)
        tap.expect(not reports(folder, 4), 'the cut ended a rank')
        these.heal(2)
        open(os.path.join(folder, 'stop'), 'w').close()
        until(lambda: reports(folder, 4), 200, 'all ranks report')
        tap.expect(all(report[0] == 'ok' for report in reports(folder, 4)), reports(folder, 4))
        tap.expect(process.wait(timeout=100) == 0, 'exit code')


sys.exit(tap.run_cases([
    ('ends every rank of 2+2 with an error that names one on the other side', ends_everywhere([2, 2], 2)),
    ('ends every rank of 1+1+1', ends_everywhere([1, 1, 1], 3)),
    ('that heals in time ends no rank', survives_a_short_cut)]))
