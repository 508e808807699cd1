#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Measures all rows of lockstep-perf beside MPI, and writes the page that shows them.

  results.py measure PROGRAM FOLDER    runs lockstep-perf five times for each set of calls; result files in FOLDER
    --runs N                           another number of runs
    --sets NAME,NAME                   some of the sets; `list` prints their names and commands
    --quick                            three calls of each row: a test of the sets, whose times mean nothing
  results.py page FOLDER PAGE          writes PAGE from the result files of FOLDER
  results.py check FOLDER PAGE         fails if PAGE is not what `page` would write, unless FOLDER does not exist
  results.py list

A result file is named SET.RUN.json. It is what lockstep-perf --json writes, without the fields that the page does not need, and with the
command; files that lockstep-perf wrote itself can be read, too. A figure of the page is a median over the runs, with their range.

The runs of a set are not consecutive: all sets are run once, then again, so that a change of the machine affects all of them.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
HISTORY = 'history/measurements.md'
COMPARE = ['--compare', 'mpi']
NODE = ['mpirun', '-n', '2']
BY_TCP = 'LOCKSTEP_TRANSPORT=tcp'
WITH_DATA = ['all_reduce', 'reduce', 'reduce_scatter', 'all_gather', 'all_gather_v', 'gather', 'gather_v', 'scatter', 'scatter_v',
             'all_to_all', 'all_to_all_v', 'broadcast', 'send_recv', 'halo']


class Failure(Exception):
    """The text says what to do."""


class Set:
    """A run of lockstep-perf. Sets of one section share its tables."""

    def __init__(self, name, section, launcher, options):
        self.name, self.section, self.launcher, self.options = name, section, launcher, options

    def command(self, program):
        return [*self.launcher, program, *self.options, *COMPARE]


def sets_of_memory(kind, section):
    """Small sizes with many calls, and large ones with few; of the largest only messages are in flight."""
    def one(name, calls, options):
        return Set(f'{kind}-{name}', section, NODE, ['--collective', calls, *options, '--memory', kind])

    data = ','.join(WITH_DATA)
    return [one('small', 'all', ['--form', 'all', '-b', '8', '-e', '32K', '-f', '8', '-n', '200']),
            one('large', data, ['--form', 'all', '-b', '256K', '-e', '2M', '-f', '8', '-n', '11', '-w', '2']),
            one('largest', data, ['--form', 'blocking,async', '-b', '16M', '-e', '16M', '-n', '7', '-w', '1']),
            one('messages', 'send_recv,halo', ['--form', 'in_flight', '-b', '16M', '-e', '16M', '-n', '5', '-w', '1'])]


def sets_of_replicas():
    options = ['--collective', 'all_reduce,reduce,broadcast', '-b', '8', '-e', '256K', '-f', '32', '-n', '100',
               '--in-place', 'no', '--memory', 'arena']
    return [Set(f'replicas-{count}', 'One node, several replicas per rank', NODE, [*options, '--replicas-per-rank', str(count)])
            for count in (2, 4, 8, 16)]


def sets_of_lists():
    return [Set('list-' + os.path.basename(name), 'One node, lists of tensors', NODE, ['--list', name, '-n', calls, '--memory', 'arena'])
            for name, calls in (('bench/harness/lists/10x64', '200'), ('bench/harness/lists/100x64', '200'), ('resnet50', '11'))]


def sets_of_hosts():
    options = ['-b', '64', '-e', '4M', '-f', '16', '-n', '20', '-w', '2', '--in-place', 'no', '--memory', 'arena']
    for ranks in ('1,1', '2,2'):
        hosts = f'{len(ranks.split(","))} simulated hosts of {counted(int(ranks[0]), "rank")}, TCP'
        for transport, section in (('mpi', hosts), ('tcp', hosts + f', `{BY_TCP}`')):
            launcher = [*([] if transport == 'mpi' else ['env', BY_TCP]), 'python3', 'tests/hosts/hosts.py', ranks]
            name = 'hosts-' + ranks.replace(',', '-') + ('' if transport == 'mpi' else '-' + transport)
            yield Set(name, section, launcher, ['--collective', 'all', '--form', 'blocking,async', *options])
            yield Set(name + '-messages', section, launcher, ['--collective', 'send_recv,halo', '--form', 'in_flight', *options])


def counted(number, noun):
    return f'{number} {noun}{"" if number == 1 else "s"}'


SETS = [
    *sets_of_memory('arena', 'One node, tensors in the arena'),
    *sets_of_memory('malloc', 'One node, tensors in ordinary memory'),
    Set('multiple', 'One node, MPI at the thread level multiple', NODE,
        ['--collective', 'all', '--form', 'all', '-b', '8', '-e', '32K', '-f', '8', '-n', '100', '--in-place', 'no', '--memory', 'arena',
         '--thread-level', 'multiple']),
    *sets_of_replicas(),
    *sets_of_lists(),
    *sets_of_hosts(),
]

# the fields of a row, and the values of those that a file may leave out
IDENTITY = {'collective': None, 'list': None, 'mode': None, 'form': 'blocking', 'in_place': False, 'dtype': 'f32', 'op': None,
            'replicas_per_rank': 1, 'bytes': 0}
TIMES = ('time_us', 'mpi_time_us')
FORMS = {'blocking': '', 'async': ', async', 'in_flight': ', 16 in flight', 'loop': ', loop of 16', 'async_loop': ', async, loop of 16'}
ENVIRONMENT = ('version', 'date', 'cpu', 'ranks', 'nodes', 'load', 'mpi', 'thread_level', 'kernel_target', 'buffers', 'iterations')


# ---- measuring


def clean_environment():
    """Without settings that make MPI slower, or choose other paths of lockstep. Ranks are not bound, as in tests/launch.env."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(('OMPI_MCA_', 'PRTE_MCA_', 'LOCKSTEP_'))}
    return {**kept, 'OMPI_MCA_hwloc_base_binding_policy': 'none', 'PRTE_MCA_hwloc_default_binding_policy': 'none'}


def commit():
    """The commit that is checked out, with a + if files differ from it."""
    done = subprocess.run(['git', 'describe', '--always', '--dirty=+', '--exclude=*'], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else 'unknown'


def has_changed(row):
    before, after = row.get('cache_line_before_us'), row.get('cache_line_after_us')
    return bool(row.get('changed')) or (bool(before and after) and max(before, after) > 2 * min(before, after))


def short_row(row):
    short = {name: row[name] for name, usual in IDENTITY.items() if row.get(name, usual) != usual}
    short.update((name, round(row[name], 3)) for name in TIMES)
    return {**short, 'changed': True} if has_changed(row) else short


def text_of(content):
    """JSON with a line for each row, so that a new run changes lines and not one long line."""
    head = json.dumps({'environment': content['environment']}, indent=1)
    rows = ',\n'.join('  ' + json.dumps(row) for row in content['rows'])
    return head[:-2] + ',\n "rows": [\n' + rows + '\n ]\n}\n'


def measure_set(one, program, folder, run, quick):
    words = one.command(os.path.abspath(program))
    with tempfile.TemporaryDirectory() as scratch:
        name = os.path.join(scratch, 'result.json')
        more = ['-n', '3', '-w', '1'] if quick else []
        done = subprocess.run([*without(words, ('-n', '-w') if quick else (), one.launcher), *more, '--json', name], cwd=ROOT,
                              env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f'{one.name}, run {run}: exit code {done.returncode}\n{done.stdout[-3000:]}')
        content = read_json(name)
    environment = {name: content['environment'].get(name) for name in ENVIRONMENT}
    environment.update(set=one.name, section=one.section, commit=commit(), command=shlex.join(one.command('lockstep-perf')))
    text = text_of({'environment': environment, 'rows': [short_row(row) for row in content['rows']]})
    with open(os.path.join(folder, f'{one.name}.{run}.json'), 'w', encoding='utf-8') as file:
        file.write(text)
    return done.stdout.rstrip().splitlines()[-1]


def without(words, options, launcher):
    """`words` without `options` of the program, and their values."""
    kept = list(words[:len(launcher)])
    rest = iter(words[len(launcher):])
    for word in rest:
        if word in options:
            next(rest)
        else:
            kept.append(word)
    return kept


def measure(program, folder, runs, names, quick):
    known = {one.name: one for one in SETS}
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise Failure(f'--sets "{",".join(names)}": {unknown[0]} is not a set; give some of {", ".join(known)}')
    if runs < 1:
        raise Failure(f'--runs "{runs}": give a number of at least 1')
    os.makedirs(folder, exist_ok=True)
    for run in range(1, runs + 1):
        for one in SETS if not names else [known[name] for name in names]:
            print(f'{one.name}, run {run} of {runs}: {measure_set(one, program, folder, run, quick)}', flush=True)


# ---- reading


def read_json(name):
    try:
        with open(name, encoding='utf-8') as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Failure(f'{name}: not a result file of lockstep-perf ({error}); give files that --json wrote') from error


class Row:
    """A call, and its times in each run."""

    def __init__(self, identity):
        self.identity = identity
        self.runs = []

    def add(self, row):
        self.runs.append((row['time_us'], row['mpi_time_us'], has_changed(row)))

    def usable(self):
        """The runs in which the two cores kept their distance; all of them if there are none."""
        return [run for run in self.runs if not run[2]] or self.runs

    def left_out(self):
        return len(self.runs) - len(self.usable())

    def ratios(self):
        return sorted(ours / theirs for ours, theirs, _ in self.usable())

    def ratio(self):
        return statistics.median(self.ratios())

    def time_us(self):
        return statistics.median(ours for ours, _, _ in self.usable())

    def is_slower(self):
        return self.ratio() > 1

    def is_slower_in_each_run(self):
        return self.ratios()[0] > 1

    def label(self):
        """The row of the table."""
        call = self.identity['collective']
        if self.identity['list']:
            call += f' of {os.path.basename(self.identity["list"])}, {self.identity["mode"]}'
        if self.identity['dtype'] not in (None, 'f32'):
            call += ' ' + self.identity['dtype']
        if self.identity['op'] not in (None, 'sum'):
            call += ' ' + self.identity['op']
        if self.identity['replicas_per_rank'] != 1:
            call += f', {self.identity["replicas_per_rank"]} replicas per rank'
        call += FORMS[self.identity['form']]
        return call + (', in place' if self.identity['in_place'] and not self.identity['list'] else '')

    def name(self):
        return self.label() + (f', {size_text(self.identity["bytes"])}' if self.identity['bytes'] else '')


class Section:
    """The rows of the files of one section, in the order of the files."""

    def __init__(self, title):
        self.title = title
        self.environments = []
        self.rows = {}

    def add(self, content, name):
        self.environments.append(content['environment'])
        for row in content['rows']:
            identity = {field: row.get(field, usual) for field, usual in IDENTITY.items()}
            if not all(isinstance(row.get(time), (int, float)) and row[time] > 0 for time in TIMES):
                raise Failure(f'{name}: {identity["collective"]} has no time of MPI; measure with --compare mpi')
            self.rows.setdefault(tuple(identity.values()), Row(identity)).add(row)

    def all_rows(self):
        return list(self.rows.values())


def order_of(name):
    """The order of the sets, and then of the runs; other files come last."""
    names = [one.name for one in SETS]
    stem, run = re.fullmatch(r'(.*?)(?:\.(\d+))?\.json', name).groups()
    return names.index(stem) if stem in names else len(names), stem, int(run or 0)


def read_sections(folder):
    names = sorted((name for name in os.listdir(folder) if name.endswith('.json')), key=order_of) if os.path.isdir(folder) else []
    sections = {}
    for name in names:
        path = os.path.join(folder, name)
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get('environment'), dict) or not isinstance(content.get('rows'), list):
            raise Failure(f'{path}: not a result file of lockstep-perf (no environment or no rows); give files that --json wrote')
        title = content['environment'].get('section', order_of(name)[1])
        sections.setdefault(title, Section(title)).add(content, path)
    if not sections:
        raise Failure(f'{folder}: there are no result files; write some with "results.py measure"')
    return list(sections.values())


# ---- the page


def size_text(size):
    for unit, shift in (('MiB', 20), ('KiB', 10)):
        if size >= 1 << shift:
            number = size / (1 << shift)
            return f'{number:.0f} {unit}' if number == int(number) else f'{number:.1f} {unit}'
    return f'{size} B'


def time_text(us):
    if us >= 1e5:
        return f'{us * 1e-3:.0f} ms'
    if us >= 1000:
        return f'{us * 1e-3:.3g} ms'
    return f'{us:.2f} us' if us < 10 else f'{us:.3g} us'


def cell_text(row):
    ratios = row.ratios()
    median = f'{row.ratio():.2f}'
    if row.is_slower():
        median = f'**{median}**'
    return f'{median} ({ratios[0]:.2f} to {ratios[-1]:.2f}) {time_text(row.time_us())}'


def table(head, lines):
    return ['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head), *('| ' + ' | '.join(line) + ' |' for line in lines), '']


def tables_of(rows):
    """A table with a column for each size, and one of the calls that have no data."""
    with_data = [row for row in rows if row.identity['bytes']]
    without_data = [row for row in rows if not row.identity['bytes']]
    lines = []
    if with_data:
        sizes = sorted({row.identity['bytes'] for row in with_data})
        cells = {}
        for row in with_data:
            cells.setdefault(row.label(), {})[row.identity['bytes']] = cell_text(row)
        lines += table(['', *map(size_text, sizes)], [[label, *(found.get(size, '') for size in sizes)] for label, found in cells.items()])
    if without_data:
        lines += table(['', 'no data'], [[row.label(), cell_text(row)] for row in without_data])
    return lines


def count_text(rows):
    return f'{sum(not row.is_slower() for row in rows)} of {counted(len(rows), "row")}'


def slowest_text(rows):
    slowest = max(rows, key=Row.ratio)
    return f'{slowest.name()}: {slowest.ratio():.2f}'


def values(environments, name):
    """The different values of one field, in order."""
    return list(dict.fromkeys(str(environment[name]) for environment in environments if environment.get(name) is not None))


def machine_text(section):
    found = section.environments
    dates = sorted(date.split()[0] for date in values(found, 'date'))
    loads = sorted(environment['load'] for environment in found if environment.get('load') is not None)
    parts = [
        ', '.join(values(found, 'cpu')),
        ', '.join(f'{counted(int(ranks), "rank")} on {counted(int(nodes), "node")}' for ranks in values(found, 'ranks') for nodes in values(found, 'nodes')),
        ', '.join(values(found, 'mpi')) + ', thread level ' + ', '.join(values(found, 'thread_level')),
        'kernels ' + ', '.join(values(found, 'kernel_target')),
    ]
    if dates:
        parts.append(dates[0] + (f' to {dates[-1]}' if dates[-1] != dates[0] else ''))
    if loads:
        parts.append(f'load {loads[0]:.1f} to {loads[-1]:.1f}')
    if values(found, 'commit'):
        parts.append('commit ' + ', '.join(values(found, 'commit')))
    return '; '.join(part for part in parts if part) + '.'


def section_text(section):
    rows = section.all_rows()
    lines = [f'## {section.title}', '', machine_text(section)]
    runs = sorted({len(row.runs) for row in rows})
    left_out = sum(row.left_out() for row in rows)
    lines.append(f'{"Between " if len(runs) > 1 else ""}{" and ".join(str(run) for run in (runs[0], runs[-1])[:len(runs)])} '
                 f'{"run" if runs == [1] else "runs"} of each row. **{count_text(rows)} not slower than MPI.**'
                 + (f' Runs of a row that are left out, because the distance of the two cores changed: {left_out}.' if left_out else ''))
    commands = values(section.environments, 'command')
    if commands:
        lines += ['', '```', *commands, '```']
    return [*lines, '', *tables_of(rows)]


def page_text(sections):
    rows = [row for section in sections for row in section.all_rows()]
    slower = [row for row in rows if row.is_slower()]
    lines = [
        '# What was measured',
        '',
        f'Every call of lockstep beside MPI\'s. **{count_text(rows)} not slower than MPI.** MPI is faster in {len(slower)}, and in each run in '
        f'{sum(row.is_slower_in_each_run() for row in slower)} of these.',
        '',
        'A figure is time of lockstep / time of MPI: less than 1 is faster, and **bold** is where MPI is faster. Both alternate in one run, and every result is checked;',
        'the figure is the median of several runs, their range is in parentheses, and the time after it is that of lockstep. "async" is one asynchronous call and its',
        'wait; "16 in flight" are 16 of them and then their waits, beside 16 nonblocking calls of MPI and `MPI_Waitall`; a loop has 16 calls, one after the other, and its time',
        'is that of all of them. Before every other call there is a barrier. `README.md` describes the method and the calls.',
        f'What else was measured, and what was measured before, is in [{HISTORY}]({HISTORY}).',
        '',
        'This page is written by `python3 bench/results.py page bench/results bench/RESULTS.md`; `python3 bench/results.py measure` writes the files in `bench/results/`.',
        '',
    ]
    lines += table(['', 'not slower than MPI', 'slowest'],
                   [[section.title, count_text(section.all_rows()), slowest_text(section.all_rows())] for section in sections])
    for section in sections:
        lines += section_text(section)
    return '\n'.join(lines).rstrip('\n') + '\n'


def write_page(folder, page):
    text = page_text(read_sections(folder))
    with open(page, 'w', encoding='utf-8') as file:
        file.write(text)


def check_page(folder, page):
    if not os.path.isdir(folder):
        return
    with open(page, encoding='utf-8') as file:
        if file.read() == page_text(read_sections(folder)):
            return
    raise Failure(f'{page} is not what the files of {folder} give; run "results.py page {folder} {page}"')


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    measuring = commands.add_parser('measure')
    measuring.add_argument('program')
    measuring.add_argument('folder')
    measuring.add_argument('--runs', type=int, default=5)
    measuring.add_argument('--sets', type=lambda text: text.split(','))
    measuring.add_argument('--quick', action='store_true')
    for name in ('page', 'check'):
        reading = commands.add_parser(name)
        reading.add_argument('folder')
        reading.add_argument('page')
    commands.add_parser('list')
    return parser.parse_args()


def main():
    given = arguments()
    try:
        if given.command == 'measure':
            measure(given.program, given.folder, given.runs, given.sets, given.quick)
        elif given.command == 'list':
            print(*(f'{one.name}: {shlex.join(one.command("lockstep-perf"))}' for one in SETS), sep='\n')
        else:
            (write_page if given.command == 'page' else check_page)(given.folder, given.page)
    except Failure as failure:
        print(f'results.py: {failure}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
