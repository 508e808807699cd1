#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-perf: the output formats. Prints TAP; see harness.py."""

import csv
import json
import os
import platform
import re
import shutil
import subprocess
import sys

from harness import Skip, run_tests

SWEEP = ['-b', '8', '-e', '4K', '-f', '8']


def shows_percentiles(h):
    rows, _, text = h.rows([*SWEEP, '--percentiles', '--compare', 'mpi'], calls=('9', '1'))
    for row in rows:
        for prefix in ('', 'mpi_'):
            values = [row[f'{prefix}{name}_us'] for name in ('p10', 'p50', 'p90', 'p99')]
            assert values == sorted(values) and values[0] > 0, row
        assert row['p50_us'] == row['time_us'] and row['mpi_p50_us'] == row['mpi_time_us'], row
    for name in ('p10', 'p90', 'p99'):
        assert text.count(name) == 2, text
    assert 'p99' not in h.rows(SWEEP)[2]


def writes_the_rows_as_csv(h):
    name = h.file()
    rows, _, _ = h.rows([*SWEEP, '--collective', 'all_reduce,barrier', '--limit', '--csv', name])
    with open(name, encoding='utf-8', newline='') as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows) and list(lines[0]) == list(rows[0]), lines
    for line, row in zip(lines, rows):
        for key, value in row.items():
            expected = '' if value is None else value if isinstance(value, str) else json.dumps(value)
            same = line[key] == expected or (isinstance(value, float) and float(line[key]) == value)
            assert same, (key, line[key], value)


def prints_the_two_columns_of_osu(h):
    rows, _, text = h.rows([*SWEEP, '--osu'])
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith('#')]
    # of both placements the first
    expected = [[str(row['bytes']), f'{row["time_us"]:.2f}'] for row in rows if not row['in_place']]
    assert lines == expected and len(lines) == 4, (lines, expected)
    assert re.search(r'^# Size +Latency\(us\)$', text, re.MULTILINE), text


def names_the_kernels_that_run_here(h):
    _, environment, text = h.rows(['-b', '8', '-e', '8'])
    target = environment['kernel_target']
    assert re.search(rf'^# kernels +{re.escape(target)}$', text, re.MULTILINE), text
    if platform.machine() != 'x86_64':
        return
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        flags = set(re.search(r'^flags\s*:(.*)$', file.read(), re.MULTILINE)[1].split())
    wide = ['AVX3', 'AVX2'] if 'avx512bw' in flags else ['AVX2']  # builds with sanitizers end at AVX2
    assert target in (wide if 'avx2' in flags else ['SSE4', 'SSE2', 'EMU128', 'SCALAR']), target


def compares_with_an_earlier_run(h):
    name = h.file()
    rows, _, _ = h.rows([*SWEEP, '--csv', h.file(), '--collective', 'all_reduce,barrier'])
    with open(name, 'w', encoding='utf-8') as file:
        for row in rows:
            row['time_us'] *= 2
        json.dump({'environment': {'ranks': h.ranks, 'version': '0', 'date': 'then', 'thread_level': 'multiple'},
                   'rows': rows}, file)
    again, environment, text = h.rows(['-b', '8', '-e', '32K', '-f', '8', '--baseline', name])
    before = {(row['collective'], row['bytes'], row['in_place']): row['time_us'] for row in rows}
    assert name in text and '/ base' in text and 'then' in text and name in environment['baseline'], text
    for row in again:
        if row['bytes'] > 4096:
            assert row['baseline_us'] is None and row['baseline_ratio'] is None, row
            continue
        assert row['baseline_us'] == before[row['collective'], row['bytes'], row['in_place']], row
        assert abs(row['baseline_ratio'] - row['time_us'] / row['baseline_us']) < 1e-9 * row['baseline_ratio'], row
    assert all(row['baseline_us'] is None for row in rows)


def refuses_an_unsuitable_baseline(h):
    name = h.file()
    h.run(['-n', '1', '-w', '0', *SWEEP, '--json', name])
    with open(name, encoding='utf-8') as file:
        content = json.load(file)
    for other in (['-d', 'f64'], ['--form', 'in_flight']):
        h.refuses([*SWEEP, *other, '--baseline', name], ['--baseline', name, 'none of its rows (8)'])
    content['environment']['ranks'] += 1
    h.refuses([*SWEEP, '--baseline', h.file(json.dumps(content))], [f'{h.ranks + 1} ranks', f'this job has {h.ranks}'])
    h.refuses([*SWEEP, '--baseline', h.file('{"rows": [')], ['invalid JSON', '--json wrote'])
    h.refuses([*SWEEP, '--baseline', h.file('{"a": 1}')], ['not a result of lockstep-perf', 'environment'])
    h.refuses([*SWEEP, '--baseline', h.file('[]')], ['not a result of lockstep-perf'])


def require_gnuplot():
    if not shutil.which('gnuplot'):
        raise Skip('gnuplot is not installed (Debian package gnuplot-nox)')


def require_matplotlib(h):
    if subprocess.run([plotter(h), '--version'], capture_output=True).returncode != 0:
        raise Skip('matplotlib is not installed (Debian package python3-matplotlib)')


def plotter(h):
    return os.path.join(os.path.dirname(h.program), 'lockstep-plot')


def draws_pictures(h):
    require_matplotlib(h)
    picture = h.file(end='.svg')
    _, environment, _ = h.rows([*SWEEP, '--compare', 'mpi', '--limit', '--plot', picture])
    with open(picture, encoding='utf-8') as file:
        text = file.read()
    assert text.startswith('<?xml') and '</svg>' in text, text[:200]
    for title in (f'all_reduce f32 sum, {h.ranks} ranks on 1 node', environment['cpu'], environment['date'], 'lockstep, in place',
                  'MPI, out of place', 'limit', 'time of a call', 'bus bandwidth, GB/s', "time / MPI's", '>512<', '>4 Ki<', '>bytes<'):
        assert title in text, title
    picture = h.file(end="'s.png")
    h.rows(['--list', h.file('16\n4096\n'), '--compare', 'mpi', '--plot', picture])
    with open(picture, 'rb') as file:
        assert file.read(8) == b'\x89PNG\r\n\x1a\n'


def draws_text(h):
    require_gnuplot()
    picture = h.file(end='.txt')
    h.rows([*SWEEP, '--plot', picture])
    with open(picture, encoding='utf-8') as file:
        assert 'lockstep all_reduce f32 sum' in file.read()


def says_that_matplotlib_is_missing(h):
    require_matplotlib(h)
    before = ['env', 'PATH=' + h.folder.name]  # env does not find python3 there
    h.refuses([*SWEEP, '--plot', 'x.png'], ['--plot', '"x.png"', 'python3-matplotlib', 'FILE.txt'], before=before)


def draws_in_the_terminal(h):
    require_gnuplot()
    _, _, text = h.rows([*SWEEP, '--compare', 'mpi', '--plot', '-'])
    assert text.count('# Plot') == 1, text
    picture = text.split('# Plot')[1]
    for part in ('lockstep all_reduce f32 sum', 'MPI all_reduce f32 sum', 'bytes', '+-----'):
        assert part in picture, picture
    assert 'in place' not in picture, picture


def says_that_gnuplot_is_missing(h):
    h.refuses([*SWEEP, '--plot', '-'], ['--plot', 'gnuplot', 'gnuplot-nox'], before=['env', 'PATH=/no/such/folder'])


def measures_the_strategy_layer(h):
    done = h.run(['--strategy', '-n', '2'])
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [re.split(r' {2,}', line.strip()) for line in done.stdout.splitlines() if line.startswith('  ')]
    calls = [row[0] for row in rows]
    assert len(rows) == 18 and calls == calls[:6] * 3 and len(set(calls)) == 6, done.stdout
    assert [row[1] for row in rows] == [str(replicas) for replicas in (1, 2, 4) for _ in range(6)], done.stdout
    for row in rows:
        assert float(row[2]) > 0 and (row[3] == '-' or float(row[3]) > 0), row
    assert 'WRONG' not in done.stdout and f'{h.ranks} ranks' in done.stdout, done.stdout


def measures_readers(h):
    done = h.run(['--input', '-n', '1'])
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [re.split(r' {2,}', line.strip()) for line in done.stdout.splitlines() if line.startswith('  ')]
    assert {row[0] for row in rows} >= {'IDX', 'npy', 'raw records', 'TFRecord', 'text', 'CSV'}, done.stdout
    for row in rows:
        assert all(float(value) > 0 for value in row[2:]), row
    assert 'WRONG' not in done.stdout, done.stdout


TESTS = [shows_percentiles, writes_the_rows_as_csv, prints_the_two_columns_of_osu, names_the_kernels_that_run_here,
         compares_with_an_earlier_run, refuses_an_unsuitable_baseline, draws_pictures, draws_text, draws_in_the_terminal,
         measures_the_strategy_layer, measures_readers, says_that_gnuplot_is_missing, says_that_matplotlib_is_missing]

if __name__ == '__main__':
    sys.exit(run_tests(TESTS))
