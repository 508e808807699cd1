#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Random operations, sizes, communicators, faults and restarts for some minutes: soak_test.py MINUTES PROGRAM MPIEXEC [OPTION...]

Prints TAP. Fails if a result is wrong, if a job that was killed does not resume from its checkpoint, or if the private memory, the
shared memory, the file descriptors or the threads of a rank grow after the first minute.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import tap  # noqa: E402

RANKS = 3
WARM_UP = 60  # seconds: caches and the heap are full then
WINDOW = 5  # samples whose median is compared
COLUMNS = ('seconds', 'private KiB', 'shared KiB', 'file descriptors', 'threads', 'operations', 'errors', 'messages', 'arena KiB', 'populated KiB')
# By default glibc raises both thresholds up to the size of the largest freed block, and keeps freed blocks below them on a heap
# that fragments: the samples would show this, not what the program holds.
MALLOC = {'MALLOC_MMAP_THRESHOLD_': '131072', 'MALLOC_TRIM_THRESHOLD_': '131072'}
TOLERANCE = {'private KiB': (6 << 10, 0.05), 'arena KiB': (6 << 10, 0.05), 'shared KiB': (6 << 10, 0.05), 'file descriptors': (2, 0),
             'threads': (2, 0)}  # at least, share

minutes, program, *mpiexec = sys.argv[1:]
seconds = 60 * float(minutes)
seed = int(os.environ.get('FAULTS_SEED') or time.strftime('%Y%m%d'))


def run(folder, job_seconds, *more):
    environment = {**os.environ, **MALLOC, 'LOCKSTEP_TIMEOUT': '60,200'}
    command = [*mpiexec, '-n', str(RANKS), program, str(job_seconds), folder, str(seed), *map(str, more)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=job_seconds + 800, check=False)


def samples(folder, rank):
    with open(os.path.join(folder, f'samples.{rank}'), encoding='ascii') as file:
        return [dict(zip(COLUMNS, map(float, line.split()))) for line in file]


def growth(of_rank, name):
    """(median after the warm-up, median at the end, what is tolerated)"""
    # pages of the arena that were used once stay: they increase until most tensors of the program have been alive at the same time
    warm_up = max(WARM_UP, seconds / 3) if name == 'shared KiB' else WARM_UP
    after = [sample[name] for sample in of_rank if sample['seconds'] >= warm_up]
    tap.expect(len(after) >= 2 * WINDOW, f'{len(after)} samples after {warm_up} s')
    begin, end = statistics.median(after[:WINDOW]), statistics.median(after[-WINDOW:])
    least, share = TOLERANCE[name]
    return begin, end, max(least, share * begin)


def restarts(stop, results):
    """Jobs one after the other that are killed at a random moment and resume; runs beside the long one."""
    some = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        while not stop.is_set():
            result = run(folder, 60, some.uniform(1, 6))
            if 'Wrong' in result.stderr or 'another value' in result.stderr or result.returncode == 0:
                results.append(f'exit code {result.returncode}\n{result.stderr[-2000:]}')
                return
            results.append('')


def main():
    checks = tap.Checks()
    print(f'# FAULTS_SEED={seed}', flush=True)
    stop, restarted = threading.Event(), []
    beside = threading.Thread(target=restarts, args=(stop, restarted))
    beside.start()
    with tempfile.TemporaryDirectory() as folder:
        result = run(folder, seconds)
        stop.set()
        checks.check(f'{minutes} minutes of operations and faults on {RANKS} ranks', result.returncode == 0, result.stdout + result.stderr)
        if result.returncode == 0:
            report(checks, folder)
    beside.join()
    checks.check(f'{len(restarted)} jobs were killed, and resumed from their checkpoints', restarted and not any(restarted), '\n'.join(restarted))
    return checks.end()


def report(checks, folder):
    of_ranks = [samples(folder, rank) for rank in range(RANKS)]
    last = of_ranks[0][-1]
    print(f'# {last["operations"]:.0f} operations, {last["messages"]:.0f} messages, {last["errors"]:.0f} errors on rank 0', flush=True)
    checks.check('there were errors, operations and messages',
                 last['errors'] > 10 and last['operations'] > 10 * last['errors'] / 8 and last['messages'] > last['operations'], str(last))
    for name in TOLERANCE:
        grown = [growth(of_rank, name) for of_rank in of_ranks]
        text = ', '.join(f'{begin:.0f} -> {end:.0f}' for begin, end, _ in grown)
        checks.check(f'{name} do not grow: {text}', all(end - begin <= most for begin, end, most in grown), '\n'.join(map(str, of_ranks[0])))


if __name__ == '__main__':
    sys.exit(main())
