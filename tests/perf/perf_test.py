#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-perf: sweeps of all_reduce, their verification, and invalid options. Prints TAP; see harness.py."""

import re
import subprocess
import sys

from harness import run_tests

FIELDS = ['collective', 'list', 'mode', 'tensors', 'bytes', 'count', 'dtype', 'op', 'root', 'replicas_per_rank', 'memory',
          'mpi_memory', 'order', 'form', 'calls', 'prepared', 'in_place', 'time_us', 'mpi_time_us', 'ratio', 'mpi_call', 'limit_us', 'of_limit',
          'hbm_floor_us', 'of_hbm', 'baseline_us', 'baseline_ratio', 'p10_us', 'p50_us', 'p90_us', 'p99_us', 'mpi_p10_us', 'mpi_p50_us', 'mpi_p90_us',
          'mpi_p99_us', 'posted_us', 'algbw_gbs', 'busbw_gbs', 'cache_line_before_us', 'cache_line_after_us', 'wrong', 'mpi_wrong']

# arguments -> parts of the one line of text; options_test.cpp has those that need no MPI job
REFUSED = [
    (['-b', '12Q'], ['--minbytes', '"12Q"', '64K']),
    (['--speed', 'high'], ['--speed', '--help']),
    (['-e', '900G'], ['--maxbytes', 'memory']),
    (['--root', '64'], ['--root', '"64"', 'the ranks are 0 to 1']),
    (['--list', 'bert_base', '--replicas-per-rank', '1000'], ['--list', 'bert_base', 'memory']),
    (['--json', '/no/such/folder/x.json'], ['--json', 'cannot be written']),
    (['--csv', '/no/such/folder/x.csv'], ['--csv', 'cannot be written']),
    (['--json', '/dev/null'], ['--json', 'it is not a regular file']),
    (['--csv', '/dev/stdout'], ['--csv', 'it is a symbolic link']),
    (['--plot', '/no/such/folder/x.svg'], ['--plot', '/no/such/folder/x.svg']),
    (['--baseline', '/no/such/file'], ['--baseline', '"/no/such/file"', 'cannot be read', '--json']),
]


def refuses_options_that_differ_between_ranks(h):
    if h.ranks == 1:
        return
    for own, parts in ((['-e', '128'], ['--maxbytes is "64" on rank 0, but "128" on rank 1']),
                       (['-e', '64', '--osu'], ['--osu is not given on rank 0, but "yes" on rank 1']),
                       (['-e', '64', '--compare', 'mpi'], ['--compare is not given on rank 0']),
                       (['-e', '64', '--help'], ['--help is not given on rank 0'])):
        command = [*h.launcher, '-n', '1', h.program, '-e', '64', '--json', h.file(), ':', '-n', str(h.ranks - 1), h.program, *own]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        spoken = [line for line in done.stderr.splitlines() if line.startswith('lockstep-perf:')]
        assert done.returncode == 2, f'{own}: exit code {done.returncode}:\n{done.stdout}{done.stderr}'
        assert len(spoken) == 1 and 'mismatch: ' in spoken[0] and parts[0] in spoken[0], spoken


def shows_no_control_characters_of_a_file(h):
    junk = h.file('\x1b[2J\x07\x00\x01' * 1000 + '\n')
    for option in ('--list', '--config'):
        done = h.run([option, junk])
        assert done.returncode == 2, done.stderr
        spoken = [line for line in done.stderr.splitlines() if line.startswith('lockstep-perf:')]
        assert len(spoken) == 1 and option in spoken[0] and len(spoken[0]) < 4000, spoken
        assert not [c for c in done.stderr if ord(c) < 32 and c != '\n'], repr(done.stderr)
    h.refuses(['--config', '/tmp'], ['--config', '"/tmp"', 'cannot be read'])


def sweeps_and_finds_nothing_wrong(h):
    rows, environment, text = h.rows(['-b', '8', '-e', '256K', '-f', '8'])
    assert [(r['bytes'], r['in_place']) for r in rows] == [(8 * 8**k, p) for k in range(6) for p in (False, True)], rows
    for row in rows:
        assert list(row) == FIELDS, row
        assert row['wrong'] == 0 and row['time_us'] > 0 and row['mpi_time_us'] is None and row['ratio'] is None, row
        assert row['count'] * 4 == row['bytes'] and row['dtype'] == 'f32' and row['op'] == 'sum', row
        bus = row['bytes'] / row['time_us'] * 1e-3 * 2 * (h.ranks - 1) / h.ranks
        assert abs(row['busbw_gbs'] - bus) <= 1e-9 * bus, row
    assert environment['ranks'] == h.ranks and environment['nodes'] == 1 and environment['mpi'], environment
    assert (environment['cache_line_round_trip_us']['before'] is None) == (h.ranks == 1), environment
    for word in ('out-of-place', 'in-place', 'busbw', '#wrong', 'Wrong values         : 0 OK', 'Avg bus bandwidth'):
        assert text.count(word) >= 1, text
    assert text.count('Avg bus bandwidth') == 1, 'one rank prints:\n' + text


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


def last_line(rows):
    ratios = [row['ratio'] for row in rows]
    slowest = rows[ratios.index(max(ratios))]
    name = ' '.join(str(slowest[key]) for key in ('collective', 'dtype', 'op') if slowest[key])
    name += (', ' + slowest['form'] if slowest['form'] != 'blocking' else '') + (', in place' if slowest['in_place'] else '')
    size = f', {slowest["bytes"]} B' if slowest['bytes'] else ''
    return f'# {sum(ratio <= 1 for ratio in ratios)} of {len(rows)} rows not slower than MPI; slowest: {name}{size} at {max(ratios):.2f}'


def counts_the_rows_that_are_not_slower_than_mpi(h):
    calls = ['-b', '8', '-e', '64K', '-f', '64', '--form', 'all']
    rows, _, text = h.rows([*calls, '--collective', 'all_reduce,duplicate,barrier', '--compare', 'mpi'])
    assert text.rstrip().splitlines()[-1] == last_line(rows), text
    rows, _, text = h.rows(['-b', '8', '-e', '8', '--in-place', 'yes', '--compare', 'mpi'])
    assert re.search(r'^# [01] of 1 row not slower than MPI; slowest: all_reduce f32 sum, in place, 8 B at [0-9.]+$', text, re.MULTILINE), text
    rows, _, text = h.rows(['--list', h.file('64\n', '.list'), '--compare', 'mpi'])
    assert re.search(r'^# [0-4] of [34] rows not slower than MPI; slowest: all_reduce of \S+ f32 sum, \w+, in place, 256 B at', text, re.MULTILINE), text
    assert 'not slower' not in h.rows(calls)[2]


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


def does_not_check_on_request(h):
    rows, _, text = h.rows(['-b', '64', '-e', '64', '-c', '0'])
    assert all(row['wrong'] is None for row in rows), rows
    assert 'N/A' in text and 'not checked' in text, text


def reads_the_command_line_before_variables_before_a_file(h):
    config = h.file('minbytes = 16\nmaxbytes = 16\ndatatype = i32\nop = max\n')
    rows, _, _ = h.rows(['-o', 'min', '--config', config], variables={'LOCKSTEP_PERF_DATATYPE': 'f64', 'LOCKSTEP_PERF_OP': 'sum'})
    assert {(r['bytes'], r['dtype'], r['op']) for r in rows} == {(16, 'f64', 'min')}, rows


def counts_planted_faults_and_exits_1(h):
    for arguments, field in ((['--order', 'any'], 'wrong'), (['--compare', 'mpi'], 'mpi_wrong')):
        rows, _, text = h.rows_with_fault(['-b', '64', '-e', '4K', '-f', '64', *arguments])
        # 4 calls, one element each, on one rank
        assert [row[field] for row in rows] == [0, 0, 4, 4], rows
        assert 'FAILED' in text, text


def refuses_invalid_options_once_and_quickly(h):
    # the texts are the same for every number of ranks; launching takes most of the time
    for arguments, parts in REFUSED if h.ranks == 2 else REFUSED[:2]:
        h.refuses(arguments, parts)
    h.refuses([], ['variable LOCKSTEP_PERF_ITERS', '"many"'], {'LOCKSTEP_PERF_ITERS': 'many'})


def explains_itself_once(h):
    done = h.run(['--help'])
    assert done.returncode == 0 and done.stdout.count('Usage:') == 1, done.stdout
    for group in ('Sizes', 'Operation:', 'Measurement:', 'Output:', '--minbytes', '--compare', '--list', '--baseline'):
        assert group in done.stdout, group


TESTS = [sweeps_and_finds_nothing_wrong, checks_every_dtype_and_op, takes_odd_sizes_and_steps_in_bytes, compares_with_mpi,
         counts_the_rows_that_are_not_slower_than_mpi,
         hands_any_order_to_mpi, does_not_check_on_request, reads_the_command_line_before_variables_before_a_file,
         counts_planted_faults_and_exits_1, refuses_invalid_options_once_and_quickly, refuses_options_that_differ_between_ranks,
         shows_no_control_characters_of_a_file, explains_itself_once]


if __name__ == '__main__':
    sys.exit(run_tests(TESTS))
