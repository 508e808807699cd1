#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs lockstep-perf under mpiexec, as a user would. Prints TAP.

  perf_test.py RANKS PROGRAM FAULT MPIEXEC [OPTION...]

FAULT is a library to preload that makes MPI's own reductions wrong; "none" where that is not possible.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

FIELDS = ['collective', 'bytes', 'count', 'dtype', 'op', 'memory', 'order', 'in_place', 'time_us', 'mpi_time_us', 'ratio',
          'algbw_gbs', 'busbw_gbs', 'wrong']

# arguments -> what the one line of text must contain
REFUSED = [
    (['-b', '12Q'], ['--minbytes', '"12Q"', '64K']),
    (['-b', '0'], ['--minbytes', '"0"', 'from 1']),
    (['-b', '1K', '-e', '8'], ['--maxbytes', '"8"', '1024']),
    (['-f', '1'], ['--stepfactor', '"1"', 'at least 2']),
    (['-f', '2', '-i', '8'], ['--stepbytes', '"8"', 'one of the two']),
    (['-d', 'f8'], ['--datatype', '"f8"', 'bf16']),
    (['-o', 'average'], ['--op', '"average"', 'mean']),
    (['-d', 'bool', '-o', 'sum'], ['--op', '"sum"', 'bool', 'min or max']),
    (['-n', '0'], ['--iters', '"0"', 'from 1']),
    (['-c', '2'], ['--check', '"2"', '0, 1']),
    (['-e', '900G'], ['--maxbytes', 'memory']),
    (['--compare', 'nccl'], ['--compare', '"nccl"', 'mpi']),
    (['--order', 'random'], ['--order', '"random"', 'canonical, any']),
    (['--in-place', 'maybe'], ['--in-place', '"maybe"', 'both']),
    (['--json', '/no/such/folder/x.json'], ['--json', 'cannot be written']),
    (['--config', '/no/such/file'], ['--config', 'cannot be read']),
    (['--speed', 'high'], ['--speed', '--help']),
    (['fast'], ['"fast"', '--help']),
]


class Harness:
    def __init__(self, ranks, program, fault, launcher):
        self.ranks, self.program, self.fault, self.launcher = ranks, program, fault, launcher
        self.folder = tempfile.TemporaryDirectory()
        self.files = 0

    def file(self, text=None):
        self.files += 1
        name = os.path.join(self.folder.name, f'file{self.files}')
        if text is not None:
            with open(name, 'w', encoding='utf-8') as file:
                file.write(text)
        return name

    def run(self, arguments, variables=None, before=()):
        command = self.launcher + ['-n', str(self.ranks), *before, self.program, *arguments]
        start = time.monotonic()
        done = subprocess.run(command, env={**os.environ, **(variables or {})}, capture_output=True, text=True, timeout=60)
        done.seconds = time.monotonic() - start
        return done

    def rows(self, arguments, code=0, calls=('3', '1'), **how):
        """Runs a sweep; its rows, its environment and what it printed. `calls`: timed ones, and those before them."""
        name = self.file()
        done = self.run(['-n', calls[0], '-w', calls[1], *arguments, '--json', name], **how)
        assert done.returncode == code, f'exit code {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}'
        with open(name, encoding='utf-8') as file:
            content = json.load(file)
        return content['rows'], content['environment'], done.stdout


def sweeps_and_finds_nothing_wrong(h):
    rows, environment, text = h.rows(['-b', '8', '-e', '256K', '-f', '8'])
    assert [(r['bytes'], r['in_place']) for r in rows] == [(8 * 8**k, p) for k in range(6) for p in (False, True)], rows
    for row in rows:
        assert [f for f in FIELDS if f not in row] == [], row
        assert row['wrong'] == 0 and row['time_us'] > 0 and row['mpi_time_us'] is None and row['ratio'] is None, row
        assert row['count'] * 4 == row['bytes'] and row['dtype'] == 'f32' and row['op'] == 'sum', row
        bus = row['bytes'] / row['time_us'] * 1e-3 * 2 * (h.ranks - 1) / h.ranks
        assert abs(row['busbw_gbs'] - bus) <= 1e-9 * bus, row
    assert environment['ranks'] == h.ranks and environment['nodes'] == 1 and environment['mpi'], environment
    assert (environment['cache_line_round_trip_us']['before'] is None) == (h.ranks == 1), environment
    for word in ('out-of-place', 'in-place', 'busbw', '#wrong', 'Wrong values         : 0 OK', 'Avg bus bandwidth'):
        assert text.count(word) >= 1, text
    assert text.count('Avg bus bandwidth') == 1, 'one rank speaks:\n' + text


def checks_every_dtype_and_op(h):
    rows, _, _ = h.rows(['-b', '13', '-e', '20000', '-f', '1500', '-d', 'all', '-o', 'all'], calls=('1', '0'))
    assert all(row['wrong'] == 0 for row in rows), [row for row in rows if row['wrong']]
    kinds = {(row['dtype'], row['op']) for row in rows}
    assert len(kinds) == 12 * 5 + 2 + 9 * 3, sorted(kinds)
    # 2 sizes, 2 placements; the mean of the 8 integer types has another type, so no place
    assert len(rows) == len(kinds) * 4 - 8 * 2, len(rows)


def takes_odd_sizes_and_steps_in_bytes(h):
    rows, _, _ = h.rows(['-b', '13', '-e', '40', '-i', '9', '-d', 'bf16', '-o', 'mean', '--in-place', 'no'])
    assert [(r['bytes'], r['count'], r['wrong']) for r in rows] == [(12, 6, 0), (22, 11, 0), (30, 15, 0), (40, 20, 0)], rows
    rows, _, _ = h.rows(['-b', '1', '-e', '1', '-d', 'f64', '--in-place', 'yes'])
    assert [(r['bytes'], r['count'], r['in_place'], r['wrong']) for r in rows] == [(8, 1, True, 0)], rows


def compares_with_mpi(h):
    rows, _, text = h.rows(['-b', '4K', '-e', '4K', '-d', 'f32,bf16,bool,i64', '-o', 'all', '--compare', 'mpi'])
    for row in rows:
        assert row['wrong'] == 0 and row['mpi_wrong'] == 0, row
        assert abs(row['ratio'] - row['time_us'] / row['mpi_time_us']) < 1e-9 * row['ratio'], row
        narrow = 'f32' if row['dtype'] == 'bf16' else row['dtype']
        assert row['mpi_call'] == narrow + ' ' + row['op'].replace('mean', 'sum'), row
    assert '* MPI lacks this call' in text, text
    assert '* MPI lacks this call' not in h.rows(['-b', '64', '-e', '64', '--compare', 'mpi'])[2]


def hands_any_order_to_mpi(h):
    rows, _, _ = h.rows(['-b', '8', '-e', '32K', '-f', '64', '-d', 'f32,bf16,i32', '-o', 'all', '--order', 'any'])
    assert all(row['order'] == 'any' and row['wrong'] == 0 for row in rows), rows


def does_not_check_when_told_so(h):
    rows, _, text = h.rows(['-b', '64', '-e', '64', '-c', '0'])
    assert all(row['wrong'] is None for row in rows), rows
    assert 'N/A' in text and 'not checked' in text, text


def reads_the_command_line_before_variables_before_a_file(h):
    config = h.file('minbytes = 16\nmaxbytes = 16\ndatatype = i32\nop = max\n')
    rows, _, _ = h.rows(['-o', 'min', '--config', config], variables={'LOCKSTEP_PERF_DATATYPE': 'f64', 'LOCKSTEP_PERF_OP': 'sum'})
    assert {(r['bytes'], r['dtype'], r['op']) for r in rows} == {(16, 'f64', 'min')}, rows


def counts_planted_faults_and_exits_1(h):
    for arguments, field in ((['--order', 'any'], 'wrong'), (['--compare', 'mpi'], 'mpi_wrong')):
        rows, _, text = h.rows(['-b', '64', '-e', '4K', '-f', '64', *arguments], code=1, before=['env', 'LD_PRELOAD=' + h.fault])
        # 4 calls, one element each, on one rank
        assert [row[field] for row in rows] == [0, 0, 4, 4], rows
        assert 'FAILED' in text, text


def refuses(h, arguments, parts, variables=None):
    done = h.run(arguments, variables)
    spoken = [line for line in done.stderr.splitlines() if line.startswith('lockstep-perf:')]
    assert done.returncode == 2, f'exit code {done.returncode}:\n{done.stdout}{done.stderr}'
    assert len(spoken) == 1, spoken
    assert [part for part in parts if part not in spoken[0]] == [], spoken
    assert done.stdout.strip() == '' or 'lockstep' not in done.stdout, done.stdout
    assert done.seconds < 20, f'{done.seconds:.1f} s'


def refuses_what_cannot_be_once_and_quickly(h):
    # the texts are the same for every number of ranks; launching takes most of the time
    for arguments, parts in REFUSED if h.ranks == 2 else REFUSED[:2]:
        refuses(h, arguments, parts)
    refuses(h, [], ['LOCKSTEP_PERF_SPEED', '--help'], {'LOCKSTEP_PERF_SPEED': '3'})
    refuses(h, [], ['--iters', '"many"'], {'LOCKSTEP_PERF_ITERS': 'many'})
    refuses(h, ['--config', h.file('speed = 3\n')], ['speed', '--help'])


def explains_itself_once(h):
    done = h.run(['--help'])
    assert done.returncode == 0 and done.stdout.count('Usage:') == 1, done.stdout
    for group in ('Sizes', 'Operation:', 'Measurement:', 'Output:', '--minbytes', '--compare'):
        assert group in done.stdout, group


TESTS = [sweeps_and_finds_nothing_wrong, checks_every_dtype_and_op, takes_odd_sizes_and_steps_in_bytes, compares_with_mpi,
         hands_any_order_to_mpi, does_not_check_when_told_so, reads_the_command_line_before_variables_before_a_file,
         counts_planted_faults_and_exits_1, refuses_what_cannot_be_once_and_quickly, explains_itself_once]


def main():
    ranks, program, fault, launcher = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    harness = Harness(ranks, program, fault, launcher)
    print(f'1..{len(TESTS)}', flush=True)
    failed = 0
    for number, test in enumerate(TESTS, 1):
        name = f'{test.__name__} ({ranks} ranks)'
        if test is counts_planted_faults_and_exits_1 and fault == 'none':
            print(f'ok {number} - {name} # SKIP a sanitizer wants to be loaded first', flush=True)
            continue
        try:
            test(harness)
            print(f'ok {number} - {name}', flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f'not ok {number} - {name}')
            print(*(f'# {line}' for line in str(error).splitlines()[:40]), sep='\n', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
