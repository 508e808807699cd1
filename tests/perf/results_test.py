#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""bench/results.py: the page that it writes, and the result files. Prints TAP.

Argument: the path of results.py
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import expect, run_cases  # noqa: E402

SCRIPT = os.path.abspath(sys.argv[1])
ENVIRONMENT = {'version': '0.1.0', 'date': '2026-11-30 01:00:00 UTC', 'cpu': 'a processor', 'ranks': 2, 'nodes': 1, 'load': 0.5, 'mpi': 'an MPI',
               'thread_level': 'single', 'kernel_target': 'AVX2'}
# writes a result file like lockstep-perf: each run is slower than the one before
LAUNCHER = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
with open(os.environ['LOG'], 'a') as log:
    log.write(json.dumps([words, sorted(name for name in os.environ if name.startswith(('OMPI_MCA_', 'LOCKSTEP_')))]) + '\\n')
row = {'collective': 'halo', 'form': 'async', 'in_place': False, 'bytes': 8, 'count': 2, 'dtype': 'f32', 'op': None, 'list': None, 'mode': None,
       'replicas_per_rank': 1, 'time_us': 2.00049, 'mpi_time_us': 1.0, 'wrong': 0, 'mpi_wrong': 0, 'cache_line_before_us': 0.1, 'cache_line_after_us': 0.3}
with open(words[words.index('--json') + 1], 'w') as file:
    json.dump({'environment': {'version': '0.1.0', 'ranks': 2, 'page_bytes': 4096}, 'rows': [row]}, file)
print('# 0 of 1 row not slower than MPI')
sys.exit(int(os.environ.get('CODE', '0')))
"""


def row(ours, theirs, **more):
    return {'collective': 'all_reduce', 'op': 'sum', 'bytes': 8, 'time_us': ours, 'mpi_time_us': theirs, **more}


class Folder:
    """Result files, and the page that results.py writes from them."""

    def __enter__(self):
        self.kept = tempfile.TemporaryDirectory()
        self.name = self.kept.name
        return self

    def __exit__(self, *_):
        self.kept.cleanup()

    def path(self, name):
        return os.path.join(self.name, name)

    def add(self, name, rows, **environment):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            json.dump({'environment': {**ENVIRONMENT, **environment}, 'rows': rows}, file)

    def run(self, *arguments, code=0, variables=None):
        done = subprocess.run([sys.executable, SCRIPT, *arguments], env={**os.environ, **(variables or {})}, capture_output=True, text=True)
        expect(done.returncode == code, f'exit code {done.returncode}: {done.stdout}{done.stderr}')
        return done.stdout + done.stderr

    def page(self):
        self.run('page', self.name, self.path('PAGE.md'))
        with open(self.path('PAGE.md'), encoding='utf-8') as file:
            return file.read()


def has(text, *parts):
    for part in parts:
        expect(part in text, f'{part!r} is not in:\n{text}')


def shows_the_median_of_the_runs_and_their_range():
    with Folder() as folder:
        for run, ours in enumerate((1.2, 0.8, 0.9, 2.0, 0.85), 1):
            folder.add(f'arena-small.{run}.json', [row(ours, 1.0), row(3 * ours, 2.0, form='async')], section='One node')
        page = folder.page()
        has(page, '| all_reduce | 0.90 (0.80 to 2.00) 0.90 us |', '| all_reduce, async | **1.35** (1.20 to 3.00) 2.70 us |', '## One node',
            '5 runs of each row')


def counts_rows_by_their_medians():
    with Folder() as folder:
        for run in (1, 2, 3):
            folder.add(f'arena-small.{run}.json', [row(1.0, 1.0), row(1.1 if run > 1 else 0.9, 1.0, form='in_flight'),
                                                   row(run + 1, 1.0, collective='split', op=None, dtype=None, bytes=0)], section='One node')
        folder.add('hosts-1-1.1.json', [row(50.0, 20.0, bytes=4096)], section='Hosts', nodes=2)
        page = folder.page()
        has(page, '**1 of 4 rows not slower than MPI.** MPI is faster in 3, and in each run in 2 of these.',
            '| One node | 1 of 3 rows | split: 3.00 |', '| Hosts | 0 of 1 row | all_reduce, 4 KiB: 2.50 |', '2 ranks on 2 nodes',
            '| all_reduce, 16 in flight | **1.10** (0.90 to 1.10)', '|  | no data |')
        expect(page.index('## One node') < page.index('## Hosts'), page)


def names_each_kind_of_row():
    with Folder() as folder:
        folder.add('x.json', [row(1.0, 2.0, in_place=True), row(1.0, 2.0, dtype='bf16', op='max'), row(1.0, 2.0, replicas_per_rank=4),
                              row(1.0, 2.0, form='loop'), row(1.0, 2.0, form='async_loop'),
                              row(1.0, 2.0, list='a/b/10x64', mode='one_plan', bytes=2560, in_place=True),
                              row(1.0, 2.0, bytes=16 << 20), row(2e6, 4e6, bytes=512)])
        has(folder.page(), '| all_reduce, in place |', '| all_reduce bf16 max |', '| all_reduce, 4 replicas per rank |', '| all_reduce, loop of 16 |', '| all_reduce, async, loop of 16 |',
            '| all_reduce of 10x64, one_plan |',
            '|  | 8 B | 512 B | 2.5 KiB | 16 MiB |', '2000 ms', '1 run of each row')


def leaves_out_runs_in_which_the_cores_changed_their_distance():
    with Folder() as folder:
        folder.add('x.1.json', [row(1.0, 2.0)])
        folder.add('x.2.json', [row(9.0, 2.0, changed=True)])
        folder.add('x.3.json', [row(9.0, 2.0, cache_line_before_us=0.1, cache_line_after_us=0.5)])
        folder.add('y.1.json', [row(4.0, 2.0, changed=True)])
        has(folder.page(), '| all_reduce | 0.50 (0.50 to 0.50)', 'left out, because the distance of the two cores changed: 2.',
            '| all_reduce | **2.00** (2.00 to 2.00)')


def orders_runs_by_their_numbers_and_sets_as_they_are_listed():
    with Folder() as folder:
        for name in ('multiple.1', 'arena-small.10', 'arena-small.2', 'other'):
            folder.add(name + '.json', [row(1.0, 2.0)], section=name.split('.')[0], commit=name)
        page = folder.page()
        has(page, 'commit arena-small.2, arena-small.10')
        expect(page.index('## arena-small') < page.index('## multiple') < page.index('## other'), page)


def refuses_files_that_are_not_results():
    with Folder() as folder:
        has(folder.run('page', folder.name, folder.path('PAGE.md'), code=1), 'there are no result files', folder.name)
        for text, part in (('{"rows": [', 'not a result file'), ('{}', 'no environment'), ('[]', 'no environment')):
            with open(folder.path('x.json'), 'w', encoding='utf-8') as file:
                file.write(text)
            has(folder.run('page', folder.name, folder.path('PAGE.md'), code=1), folder.path('x.json'), part)
        folder.add('x.json', [row(1.0, None)])
        has(folder.run('page', folder.name, folder.path('PAGE.md'), code=1), 'all_reduce has no time of MPI', '--compare mpi')
        expect(not os.path.exists(folder.path('PAGE.md')), 'a page was written')


def checks_that_a_page_is_that_of_the_files():
    with Folder() as folder:
        folder.add('x.1.json', [row(1.0, 2.0)])
        folder.page()
        folder.run('check', folder.name, folder.path('PAGE.md'))
        folder.add('x.2.json', [row(1.1, 2.0)])
        has(folder.run('check', folder.name, folder.path('PAGE.md'), code=1), 'is not what the files of', 'results.py page')
        folder.run('check', folder.path('missing'), folder.path('PAGE.md'))


def variables_of_a_launcher(folder, **more):
    launcher = folder.path('mpirun')
    with open(launcher, 'w', encoding='utf-8') as file:
        file.write(LAUNCHER)
    os.chmod(launcher, 0o755)
    return {'PATH': folder.name + os.pathsep + os.environ['PATH'], 'LOG': folder.path('log'), 'OMPI_MCA_btl_vader_single_copy_mechanism': 'none',
            'LOCKSTEP_ORDER': 'canonical', **more}


def measures_the_sets_in_turns():
    with Folder() as folder:
        results = folder.path('results')
        text = folder.run('measure', '/x/lockstep-perf', results, '--runs', '2', '--sets', 'arena-small,multiple', variables=variables_of_a_launcher(folder))
        has(text, 'arena-small, run 2 of 2: # 0 of 1 row not slower than MPI')
        with open(folder.path('log'), encoding='utf-8') as file:
            calls = [json.loads(line) for line in file]
        expect(['multiple' in words for words, _ in calls] == [False, True, False, True], calls)
        for words, variables in calls:
            expect(words[:3] == ['-n', '2', '/x/lockstep-perf'] and words[words.index('--compare') + 1] == 'mpi', words)
            expect(variables == ['OMPI_MCA_hwloc_base_binding_policy'], variables)
        expect(sorted(os.listdir(results)) == [f'{name}.{run}.json' for name in ('arena-small', 'multiple') for run in (1, 2)], os.listdir(results))
        with open(os.path.join(results, 'multiple.1.json'), encoding='utf-8') as file:
            content = json.load(file)
        expect(content['rows'] == [{'collective': 'halo', 'form': 'async', 'bytes': 8, 'time_us': 2.0, 'mpi_time_us': 1.0, 'changed': True}], content)
        expect(content['environment']['set'] == 'multiple' and 'page_bytes' not in content['environment'], content)
        expect(content['environment']['command'].startswith('mpirun -n 2 lockstep-perf --collective'), content)


def makes_three_calls_of_each_row_in_a_quick_run():
    with Folder() as folder:
        folder.run('measure', '/x/lockstep-perf', folder.path('results'), '--runs', '1', '--quick', '--sets', 'arena-large',
                   variables=variables_of_a_launcher(folder))
        with open(folder.path('log'), encoding='utf-8') as file:
            words = json.loads(file.readline())[0]
        expect(words.count('-n') == 2 and words.count('-w') == 1 and ' '.join(words).endswith('-n 3 -w 1 --json ' + words[-1]), words)


def refuses_what_it_cannot_measure():
    with Folder() as folder:
        text = folder.run('measure', 'x', folder.path('results'), '--sets', 'arena-small,arena', code=1)
        has(text, '--sets "arena-small,arena": arena is not a set', 'replicas-16')
        text = folder.run('measure', '/x', folder.path('results'), '--sets', 'arena-small', code=1, variables=variables_of_a_launcher(folder, CODE='1'))
        has(text, 'arena-small, run 1: exit code 1', '0 of 1 row')
        has(folder.run('measure', '/x', folder.path('results'), '--runs', '0', code=1), '--runs "0"', 'at least 1')
        expect(os.listdir(folder.path('results')) == [], 'the result of a failed run was written')


def lists_the_sets():
    with Folder() as folder:
        has(folder.run('list'), 'arena-small: mpirun -n 2 lockstep-perf --collective all --form all', 'hosts-2-2: python3 tests/hosts/hosts.py 2,2 lockstep-perf')


CASES = [shows_the_median_of_the_runs_and_their_range, counts_rows_by_their_medians, names_each_kind_of_row,
         leaves_out_runs_in_which_the_cores_changed_their_distance, orders_runs_by_their_numbers_and_sets_as_they_are_listed,
         refuses_files_that_are_not_results, checks_that_a_page_is_that_of_the_files, measures_the_sets_in_turns,
         makes_three_calls_of_each_row_in_a_quick_run, refuses_what_it_cannot_measure, lists_the_sets]

sys.exit(run_cases([(case.__name__, case) for case in CASES]))
