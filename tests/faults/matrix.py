#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The fault matrix: every event at every moment of a job, and what every rank must see. Prints TAP.

  matrix.py [OPTION]... PROGRAM MPIEXEC [MPIEXEC-OPTION]...

  --seconds S       runs cells for S seconds, chosen by the seed, of all kinds of events (default: all cells)
  --two-of-each     two cells of each event
  --cells PATTERN   only the cells whose names match the regular expression; names are EVENT/MOMENT/LAYOUT/LAUNCH/INTERFACE
  --seed N          chooses cells, culprits, delays, sizes (default: FAULTS_SEED, else today's date)
  --report FILE     writes a table of the results in Markdown
  --at-once N       number of jobs at a time
  --layouts L...    among 2 3 4 2x2, separated by commas (default: all)
  --again N         how often a cell that fails is repeated alone (default 2); it is red if it fails every time
  --verbose         prints the reports of the ranks of red cells
"""

import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, os.pardir))
import tap  # noqa: E402
from table import EVENTS, INTERFACES, MOMENTS, SHORT_S, Verdict, expected, has_launcher_crashed, reason_against  # noqa: E402

LAYOUTS = {'2': [2], '3': [3], '4': [4], '2x2': [2, 2]}
SANDBOX = ['unshare', '--mount', '--pid', '--ipc', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']
STOP_SECONDS = 3 * SHORT_S  # two deadlines, and what a machine that is busy adds
LARGE_ELEMENTS = 4 << 20
SLOW_ELEMENTS = 128 << 10  # some seconds at 1 Mbit/s, longer than the deadline
SLACK_S = float(os.environ.get('FAULTS_SLACK', '20'))  # for machines that are shared with other programs


def sandbox():
    """The command that gives a job namespaces of its own; empty if the machine does not permit that."""
    for more in ([], ['--user', '--map-root-user']):
        command = [SANDBOX[0], *more, *SANDBOX[1:]]
        if subprocess.run([*command, 'mount', '-t', 'tmpfs', 'none', '/dev/shm'], capture_output=True, check=False).returncode == 0:
            return command
    return []


def can_simulate_hosts():
    tried = subprocess.run(['unshare', '--net', '--mount', '--pid', '--fork', 'ip', 'link', 'add', 'name', 'trial', 'type', 'bridge'], capture_output=True, check=False)
    user = subprocess.run(['unshare', '--user', '--map-root-user', '--net', '--mount', '--pid', '--fork', 'ip', 'link', 'add', 'name', 'trial', 'type', 'bridge'],
                          capture_output=True, check=False)
    return tried.returncode == 0 or user.returncode == 0


def memory_groups():
    """A control group in which this process may make others with a limit of memory, or None."""
    for folder, limit in (('/sys/fs/cgroup/memory', 'memory.limit_in_bytes'), ('/sys/fs/cgroup', 'memory.max')):
        trial = os.path.join(folder, f'lockstep-{os.getpid()}')
        try:
            os.mkdir(trial)
        except OSError:
            continue
        usable = os.access(os.path.join(trial, limit), os.W_OK)
        os.rmdir(trial)
        if usable:
            return {'folder': folder, 'limit': limit}
    return None


def name_of(cell):
    return '/'.join(cell[part] for part in ('event', 'moment', 'layout', 'launch', 'interface'))


def all_cells(layouts):
    """All cells, and {(event, moment): reasons} for those that make no sense."""
    cells, reasons = [], collections.defaultdict(set)
    for event in EVENTS:
        for moment in MOMENTS:
            for layout in layouts:
                for interface in INTERFACES:
                    reason = reason_against(event, moment, interface, layout == '2x2')
                    if reason:
                        reasons[event, moment].add(reason)
                        continue
                    for launch in ('plain', 'wrap') if layout != '2x2' else ('plain',):
                        cells.append({'event': event, 'moment': moment, 'layout': layout, 'launch': launch, 'interface': interface})
    return cells, reasons


def completed(cell, options):
    """The cell with everything that its run needs."""
    seed = int.from_bytes(hashlib.sha256(f'{options.seed} {name_of(cell)}'.encode()).digest()[:6], 'big')
    ranks = LAYOUTS[cell['layout']]
    some = random.Random(seed)
    size = sum(ranks)
    culprit = some.randrange(size)
    if EVENTS[cell['event']][0] in ('cut', 'link'):
        culprit = some.randrange(sum(ranks[:-1]), size)
    if cell['event'] == 'root':
        culprit = some.randrange(1, size)
    cell = {**cell, 'ranks': ranks, 'culprit': culprit, 'seed': seed, 'stop': STOP_SECONDS, 'program': os.path.abspath(options.program), 'mpiexec': options.mpiexec,
            'sandbox': bool(options.sandbox), 'groups': options.groups}
    wanted = expected(cell)
    remote = 2 if len(ranks) > 1 else 1
    # the error, the next operations, the end of MPI, and the launcher
    bound = 6 * wanted.fail * remote + wanted.recover + 15 + SLACK_S
    elements = LARGE_ELEMENTS // (4 * (remote - 1) or 1)
    if cell['event'] == 'slow':
        bound += 60
        elements = SLOW_ELEMENTS
    return {**cell, 'elements': elements, 'fail': wanted.fail, 'recover': wanted.recover, 'bound': bound, 'start_bound': 200, 'launcher_bound': 15 + SLACK_S}, wanted


def run_cell(cell, options):
    """[failures], and the result. A launcher that crashes says nothing of the ranks, and is started again."""
    for _ in range(3):
        failures, result = run_cell_once(cell, options)
        if not has_launcher_crashed(result):
            return failures, result
        print(f'# {name_of(cell)}: the launcher has crashed; once more', flush=True)
    return run_cell_once(cell, options)


def remove(folder, group):
    """What belongs to a cell that has ended; a process of its control group that was killed may still be there for a moment."""
    if os.environ.get('FAULTS_KEEP'):
        print(f'# kept {folder}', flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    end = time.monotonic() + 5
    while group and os.path.isdir(group) and time.monotonic() < end:
        try:
            os.rmdir(group)
        except OSError:
            time.sleep(0.1)


def run_cell_once(cell, options):
    cell, wanted = completed(cell, options)
    folder = tempfile.mkdtemp(prefix='f', dir='/tmp')
    group = os.path.join(options.groups['folder'], 'lockstep-' + os.path.basename(folder)) if cell['event'] == 'memory-group' else ''
    cell = {**cell, 'folder': folder, 'group': group}
    command = [] if len(cell['ranks']) > 1 else options.sandbox
    try:
        done = subprocess.run([*command, sys.executable, os.path.join(FOLDER, 'cell.py'), json.dumps(cell)], capture_output=True, text=True,
                              timeout=cell['bound'] + 200, check=False)
        result = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        return [f'the cell itself did not end: {error}'], {'ranks': {}, 'log': '', 'seconds': 0}
    finally:
        remove(folder, group)
    if result is None:
        return [f'the cell itself failed: {done.stderr[-2000:]}'], {'ranks': {}, 'log': '', 'seconds': 0}
    return Verdict(cell, wanted, result, SLACK_S).failures, result


def chosen(cells, options):
    """The cells of this run, in the order of their run."""
    some = random.Random(options.seed)
    cells = [cell for cell in cells if re.search(options.cells, name_of(cell))]
    some.shuffle(cells)
    if options.seconds or options.two_of_each:  # every event before any is repeated
        rounds = collections.Counter()
        turns = {}
        for cell in cells:
            turns[name_of(cell)] = rounds[cell['event']]
            rounds[cell['event']] += 1
        cells.sort(key=lambda cell: turns[name_of(cell)])
        if options.two_of_each:
            cells = [cell for cell in cells if turns[name_of(cell)] < 2]
    return cells


class Matrix:
    """Runs cells and keeps their results."""

    def __init__(self, options):
        self.options = options
        self.checks = tap.Checks()
        self.results = {}  # name: failures
        self.logs = {}  # name: the end of the output of a red cell
        self.repeated = []  # names of cells that were red at first

    def run(self, cells):
        end = time.monotonic() + self.options.seconds if self.options.seconds else None
        left = iter(cells)
        running = {}
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            while True:
                while len(running) < self.options.at_once and (end is None or time.monotonic() < end):
                    cell = next(left, None)
                    if cell is None:
                        break
                    running[pool.submit(run_cell, cell, self.options)] = cell
                if not running:
                    break
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    self.take(running.pop(future), *future.result())
        self.repeat(cells)

    def take(self, cell, failures, result):
        self.results[name_of(cell)] = failures
        if failures:
            self.logs[name_of(cell)] = result['log'][-3000:]
            print(f'# {name_of(cell)}: {failures[0][:300]}', flush=True)
            self.show(cell, failures, result)
        else:
            self.checks.check(f'{name_of(cell)} ({result["seconds"]:.0f} s)', True)

    def show(self, cell, failures, result):
        if not self.options.verbose:
            return
        print(*(f'#   {failure}' for failure in failures), sep='\n')
        for rank, lines in sorted(result['ranks'].items()):
            print(*(f'#   rank {rank}: {line}' for line in lines), sep='\n')
        print(*(f'#   | {line}' for line in result['log'].splitlines()[-30:]), sep='\n')
        print(*(f'#   {text}' for text in result.get('stacks', [])), sep='\n', flush=True)

    def repeat(self, cells):
        """Alone: a machine that was busy for a moment makes no cell red."""
        for cell in cells:
            name = name_of(cell)
            failures = self.results.get(name)
            for _ in range(self.options.again if failures else 0):
                failures, _ = run_cell(cell, self.options)
                if not failures:
                    self.repeated.append(name)
                    break
            if self.results.get(name):
                self.results[name] = failures
                self.checks.check(name, not failures, '\n'.join([*failures, self.logs[name]]))


def table_of(results):
    """Markdown: green of run, by event and moment."""
    counts = collections.defaultdict(lambda: [0, 0])
    for name, failures in results.items():
        event, moment = name.split('/')[:2]
        counts[event, moment][0] += not failures
        counts[event, moment][1] += 1
    return counts


def report(options, results, reasons, repeated, seconds):
    counts = table_of(results)
    notes = sorted({reason for some in reasons.values() for reason in some})
    lines = ['# The fault matrix', '', 'Written by `tests/faults/matrix.py --report`; do not edit. A field has the number of green cells of those that have run, or the',
             'reasons why there is none. The cells of a field differ in layout (2, 3, 4 ranks; 2x2: two hosts), launcher (plain; wrap: one that does not see',
             'the end of a rank) and interface (communicator, strategy).', '',
             f'{len(results)} cells in {seconds / 60:.0f} minutes, {sum(1 for f in results.values() if f)} red; {len(repeated)} of the green ones were red at first and green alone. '
             f'Seed {options.seed}, {options.at_once} at a time.', f'{describe(options)}', '',
             '| event | ' + ' | '.join(MOMENTS.values()) + ' |', '|---' * (len(MOMENTS) + 1) + '|']
    for event, (_, text) in EVENTS.items():
        fields = []
        for moment in MOMENTS:
            green, run = counts.get((event, moment), (0, 0))
            marks = ' '.join(f'[{notes.index(reason) + 1}]' for reason in sorted(reasons.get((event, moment), ()))) if run == 0 else ''
            fields.append(f'{green}/{run}' if run else marks or 'not run')
        lines.append(f'| `{event}`: {text} | ' + ' | '.join(fields) + ' |')
    lines += ['', *(f'[{number}] {note}  ' for number, note in enumerate(notes, 1))]
    for title, part in (('layout', 2), ('launcher', 3), ('interface', 4)):
        by = collections.Counter(name.split('/')[part] for name in results)
        lines += ['', f'Cells by {title}: ' + ', '.join(f'{key} {by[key]}' for key in sorted(by)) + '.']
    red = sorted(name for name, failures in results.items() if failures)
    lines += ['', '## Red', '', *(f'- `{name}`: {results[name][0][:200]}' for name in red)] if red else ['', 'No cell is red.']
    lines += ['', '## Red at first, green alone', '', *(f'- `{name}`' for name in sorted(repeated))] if repeated else []
    return '\n'.join(lines) + '\n'


def describe(options):
    mpi = subprocess.run([options.mpiexec[0], '--version'], capture_output=True, text=True, check=False).stdout.splitlines()
    return f'{mpi[0] if mpi else "MPI"}, Linux {platform.release()}, {os.cpu_count()} processors, {datetime.date.today()}.'


def read_options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--seconds', type=float)
    parser.add_argument('--two-of-each', action='store_true')
    parser.add_argument('--cells', default='')
    parser.add_argument('--seed', type=int, default=int(os.environ.get('FAULTS_SEED') or datetime.date.today().strftime('%Y%m%d')))
    parser.add_argument('--report')
    parser.add_argument('--at-once', type=int, default=2 * (os.cpu_count() or 1) + 1)
    parser.add_argument('--layouts', default=','.join(LAYOUTS))
    parser.add_argument('--again', type=int, default=2)
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('program')
    parser.add_argument('mpiexec', nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    options = read_options()
    options.sandbox = sandbox()
    options.groups = memory_groups()
    layouts = [layout for layout in options.layouts.split(',') if layout != '2x2' or can_simulate_hosts()]
    cells, reasons = all_cells(layouts)
    if not options.sandbox:
        cells = [cell for cell in cells if not cell['event'].startswith('shm-') and cell['event'] != 'disk-full']
    if not options.groups:
        cells = [cell for cell in cells if cell['event'] != 'memory-group']
    cells = chosen(cells, options)
    if options.list:
        print(*map(name_of, cells), sep='\n')
        return 0
    print(f'# FAULTS_SEED={options.seed}', flush=True)
    begin = time.monotonic()
    matrix = Matrix(options)
    matrix.run(cells)
    if options.report:
        with open(options.report, 'w', encoding='utf-8') as file:
            file.write(report(options, matrix.results, reasons, matrix.repeated, time.monotonic() - begin))
    return matrix.checks.end()


if __name__ == '__main__':
    sys.exit(main())
