#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-perf: collectives, kinds of memory and peers. Prints TAP; see harness.py."""

import sys

from harness import run_tests

COLLECTIVES = ['all_reduce', 'reduce', 'reduce_scatter', 'all_gather', 'all_gather_v', 'gather', 'gather_v', 'scatter',
               'scatter_v', 'all_to_all', 'all_to_all_v', 'broadcast', 'barrier']
MESSAGES = ['send_recv', 'halo']
CREATION = ['duplicate', 'split', 'first_call']
IN_PLACE = {'all_reduce', 'reduce', 'broadcast'}
ROOTED = {'reduce', 'gather', 'gather_v', 'scatter', 'scatter_v', 'broadcast'}
MODES = ['one_plan', 'one_by_one', 'buckets', 'gradient_buckets']


def bus_factor(collective, ranks):
    if collective == 'all_reduce':
        return 2 * (ranks - 1) / ranks
    if collective == 'send_recv':
        return 2
    return 1 if collective in ('reduce', 'broadcast', 'barrier', 'halo', *CREATION) else (ranks - 1) / ranks


def all_calls(ranks):
    return COLLECTIVES + (MESSAGES if ranks > 1 else []) + CREATION


def finds_nothing_wrong(rows):
    assert rows
    for row in rows:
        assert row['wrong'] == 0 and not row['mpi_wrong'] and row['time_us'] > 0, row


def measures_every_collective(h):
    rows, _, text = h.rows(['--collective', 'all', '-b', '8', '-e', '20000', '-f', '2500', '-d', 'f32,bf16,u8', '-o', 'sum,max'])
    finds_nothing_wrong(rows)
    assert list(dict.fromkeys(row['collective'] for row in rows)) == all_calls(h.ranks), rows
    for row in rows:
        assert row['collective'] in IN_PLACE or not row['in_place'], row
        assert row['root'] == (0 if row['collective'] in ROOTED else -1), row
        assert (row['op'] is None) == (row['collective'] not in ('all_reduce', 'reduce', 'reduce_scatter')), row
        bus = row['algbw_gbs'] * bus_factor(row['collective'], h.ranks)
        assert abs(row['busbw_gbs'] - bus) <= 1e-9 * bus, row
    for collective in ('barrier', *CREATION):
        without_data = [(row['bytes'], row['count'], row['dtype']) for row in rows if row['collective'] == collective]
        assert without_data == [(0, 0, None)], without_data
    for row in rows:
        assert row['form'] == ('async' if row['collective'] == 'halo' else 'blocking') and row['calls'] == 1, row
    for collective in all_calls(h.ranks):
        assert f'# {collective}{", async" if collective == "halo" else ""}\n' in text, text


def gives_every_replica_a_part(h):
    rows, _, _ = h.rows(['--collective', 'reduce_scatter,all_gather_v,gather,scatter,all_to_all_v', '-b', '1', '-e', '1', '-d', 'f64'])
    finds_nothing_wrong(rows)
    assert {(row['count'], row['bytes']) for row in rows} == {(h.ranks, 8 * h.ranks)}, rows


def compares_every_collective_with_mpi(h):
    # MPICH 4.0.2 crashes in MPI_Reduce in place on roots other than 0
    for root, placement in ((0, 'both'), (h.ranks - 1, 'no')):
        rows, _, _ = h.rows(['--collective', 'all', '-b', '24', '-e', '40800', '-f', '1700', '-d', 'f32,f16,bool', '-o', 'max',
                             '--compare', 'mpi', '--root', str(root), '--in-place', placement])
        finds_nothing_wrong(rows)
        for row in rows:
            assert row['mpi_wrong'] == 0 and row['mpi_time_us'] > 0 and row['ratio'] > 0, row
            assert row['root'] == (root if row['collective'] in ROOTED else -1), row


def has_several_replicas_on_a_rank(h):
    rows, _, _ = h.rows(['--collective', 'all', '-b', '8', '-e', '20000', '-f', '2500', '-d', 'f32,bf16', '-o', 'sum,mean',
                         '--replicas-per-rank', '3', '--compare', 'mpi', '--limit', '-r', str(h.ranks - 1)])
    finds_nothing_wrong(rows)
    assert all(row['replicas_per_rank'] == 3 and row['mpi_wrong'] == 0 for row in rows), rows


def waits_for_asynchronous_calls(h):
    rows, _, text = h.rows(['--collective', 'all', '-b', '4K', '-e', '4K', '--async', '--compare', 'mpi'])
    finds_nothing_wrong(rows)
    assert 'asynchronous' in text and '# all_reduce, async\n' in text, text
    assert not [row for row in rows if row['collective'] in CREATION], rows
    for row in rows:
        assert row['form'] == 'async' and 0 < row['posted_us'] and row['mpi_wrong'] == 0, row
    rows, _, _ = h.rows(['-b', '64', '-e', '64'])
    assert all(row['form'] == 'blocking' and row['posted_us'] is None for row in rows), rows


def has_many_calls_in_flight(h):
    for replicas in ('1', '3'):
        rows, _, text = h.rows(['--collective', 'all', '-b', '8', '-e', '4K', '-f', '512', '--form', 'in_flight', '--compare', 'mpi',
                                '-r', str(h.ranks - 1), '--limit', '--in-place', 'no', '--replicas-per-rank', replicas])
        finds_nothing_wrong(rows)
        assert list(dict.fromkeys(row['collective'] for row in rows)) == all_calls(h.ranks)[:-len(CREATION)], rows
        assert 'in_flight: 16 asynchronous calls' in text and '# all_reduce, in_flight\n' in text, text
        for row in rows:
            assert (row['form'], row['calls'], row['mpi_wrong']) == ('in_flight', 16, 0) and row['posted_us'] > 0, row
            assert abs(row['algbw_gbs'] - 16 * row['bytes'] / row['time_us'] * 1e-3) <= 1e-9 * row['algbw_gbs'], row


def makes_one_call_after_the_other(h):
    for form in ('loop', 'async_loop'):
        rows, _, text = h.rows(['--collective', 'all', '-b', '8', '-e', '4K', '-f', '512', '--form', form, '--compare', 'mpi',
                                '-r', str(h.ranks - 1), '--in-place', 'no'])
        finds_nothing_wrong(rows)
        calls = [call for call in all_calls(h.ranks)[:-len(CREATION)] if form != 'loop' or call != 'halo']
        assert list(dict.fromkeys(row['collective'] for row in rows)) == calls, rows
        assert 'loop, async_loop: 16 calls' in text and f'# all_reduce, {form}\n' in text, text
        for row in rows:
            assert (row['form'], row['calls'], row['mpi_wrong']) == (form, 16, 0), row
            assert (row['posted_us'] is None) == (form == 'loop'), row


def shows_each_form_of_a_call(h):
    calls = ['--collective', 'all_reduce,halo,split', '-b', '64', '-e', '64', '--form', 'all', '--in-place', 'no']
    if h.ranks == 1:
        h.refuses(calls, ['--collective "halo"', 'two ranks'])
        return
    rows, _, _ = h.rows(calls)
    finds_nothing_wrong(rows)
    forms = [(row['collective'], row['form']) for row in rows]
    assert forms == [*(('all_reduce', form) for form in ('blocking', 'async', 'in_flight', 'loop', 'async_loop')),
                     *(('halo', form) for form in ('async', 'in_flight', 'async_loop')), ('split', 'blocking')], forms


def reduces_lists_in_each_mode(h):
    counts = h.file('1\n# a comment\n\n1000   # another\n70001\n16\n8000000\n3\n')
    rows, _, text = h.rows(['--list', counts, '--compare', 'mpi', '--limit', '-d', 'f32,bf16'], calls=('2', '1'))
    finds_nothing_wrong(rows)
    assert [row['mode'] for row in rows] == 2 * MODES, rows
    for row in rows:
        assert (row['list'], row['tensors'], row['count'], row['in_place']) == (counts, 6, 8071021, True), row
        assert row['mpi_wrong'] == 0 and row['limit_us'] is None if h.ranks == 1 else row['limit_us'] > 0, row
    for one_plan, one_by_one, buckets, gradient_buckets in (rows[:4], rows[4:]):
        assert one_by_one['mpi_call'] == 'f32 sum, one_by_one' and buckets['mpi_call'] == 'f32 sum, buckets', rows
        for row in (one_plan, gradient_buckets):
            assert row['mpi_time_us'] == min(one_by_one['mpi_time_us'], buckets['mpi_time_us']), rows
    assert 'all_reduce of ' + counts in text and 'one_by_one' in text, text


def reduces_lists_of_many_replicas_asynchronously(h):
    counts = h.file('5\n1000\n70001\n')
    rows, _, _ = h.rows(['--list', counts, '--compare', 'mpi', '--async', '--replicas-per-rank', '2', '-d', 'all', '-o', 'all'],
                        calls=('1', '0'))
    finds_nothing_wrong(rows)
    # GradientBuckets is for one replica; bool has five ops, the integers no mean, the floats none on bits
    assert len(rows) == 3 * (4 * 5 + 8 * 7 + 5), len(rows)
    assert all(row['posted_us'] > 0 for row in rows), rows


def knows_resnet50(h):
    if h.ranks != 2:
        return
    rows, _, _ = h.rows(['--list', 'resnet50'], calls=('1', '0'))
    finds_nothing_wrong(rows)
    assert {(row['tensors'], row['count']) for row in rows} == {(161, 25557032)}, rows


def takes_memory_of_each_kind(h):
    for kind, mpi_kind, words in (('arena', 'malloc', 'from the arena'), ('malloc', 'malloc', 'from malloc'),
                                  ('huge', 'huge', 'huge pages (madvise)')):
        rows, _, text = h.rows(['-b', '64', '-e', '4M', '-f', '65536', '--memory', kind, '--compare', 'mpi'])
        finds_nothing_wrong(rows)
        assert all((row['memory'], row['mpi_memory']) == (kind, mpi_kind) for row in rows), rows
        assert words in text, text
    rows, _, text = h.rows(['-b', '64', '-e', '64', '--memory', 'arena', '--compare', 'mpi', '--mpi-memory', 'huge'])
    assert all(row['mpi_memory'] == 'huge' for row in rows) and "MPI's buffers from malloc, on huge pages" in text, text


def calls_without_a_plan(h):
    for memory in ('arena', 'malloc'):
        rows, _, text = h.rows(['--collective', 'all_reduce,broadcast', '-b', '64', '-e', '64K', '-f', '32', '--memory', memory,
                                '--unprepared'])
        finds_nothing_wrong(rows)
        assert not any(row['prepared'] for row in rows) and 'not prepared' in text, text
    rows, _, _ = h.rows(['--list', h.file('64\n99999\n'), '--unprepared', '--async'])
    finds_nothing_wrong(rows)
    rows, _, _ = h.rows(['--collective', 'all_reduce,broadcast', '-b', '64', '-e', '64'])
    assert all(row['prepared'] == (row['collective'] == 'all_reduce') for row in rows), rows


def reports_the_node(h):
    rows, _, text = h.rows(['--node-report', '-e', '4K'], calls=('2', '1'))
    finds_nothing_wrong(rows)
    assert [row['bytes'] for row in rows] == [8, 64, 512, 4096], rows
    assert all(row['in_place'] and row['memory'] == 'arena' and row['mpi_wrong'] == 0 for row in rows), rows
    assert f'Node report: {h.ranks} ranks on 1 nodes' in text and 'all_reduce in the arena' in text, text
    lines = text.split('round trip of a cache line with rank 0\n')[1].split('#')[0].split('\n')
    assert [int(line.split()[0]) for line in lines if line] == list(range(1, h.ranks)), text


def shows_the_limit(h):
    rows, _, text = h.rows(['--collective', 'all', '-b', '64', '-e', '64K', '-f', '32', '--limit'])
    finds_nothing_wrong(rows)
    assert 'of limit' in text, text
    for row in rows:
        if row['collective'] in ('barrier', *CREATION) or (h.ranks == 1 and row['in_place']):
            assert row['limit_us'] is None and row['of_limit'] is None, row
        else:
            assert row['limit_us'] > 0 and abs(row['of_limit'] - row['limit_us'] / row['time_us']) < 1e-9, row


def runs_at_each_thread_level(h):
    for level in ('single', 'funneled', 'serialized', 'multiple'):
        rows, environment, text = h.rows(['-b', '64', '-e', '64', '--thread-level', level])
        finds_nothing_wrong(rows)
        # MPI may grant more
        assert environment['thread_level'] == level or level != 'multiple', environment
        assert 'thread level ' + environment['thread_level'] in text, text
    given = h.rows(['-b', '64', '-e', '64', '--thread-level', 'single'])[1]['thread_level']
    assert h.rows(['-b', '64', '-e', '64', '--compare', 'mpi'])[1]['thread_level'] == given
    assert h.rows(['-b', '64', '-e', '64'])[1]['thread_level'] == 'multiple'


def counts_faults_planted_in_every_collective(h):
    rows, _, _ = h.rows_with_fault(['--collective', 'all', '-b', '4K', '-e', '4K', '--compare', 'mpi'])
    for row in rows:
        # 4 calls, one element each, on one rank; some calls have none
        assert (row['wrong'], row['mpi_wrong']) == (0, 0 if row['collective'] in ('barrier', *CREATION) else 4), row
    if h.ranks > 1:
        rows, _, _ = h.rows_with_fault(['--collective', 'all_reduce,send_recv,halo', '-b', '4K', '-e', '4K', '--compare', 'mpi',
                                        '--form', 'in_flight', '--in-place', 'no'])
        assert [(row['wrong'], row['mpi_wrong']) for row in rows] == 3 * [(0, 16 * 4)], rows
        rows, _, _ = h.rows_with_fault(['--collective', 'all_reduce,send_recv,halo', '-b', '4K', '-e', '4K', '--compare', 'mpi',
                                        '--form', 'loop,async_loop', '--in-place', 'no'])
        assert [(row['wrong'], row['mpi_wrong']) for row in rows] == 5 * [(0, 16 * 4)], rows
    rows, _, _ = h.rows_with_fault(['--list', h.file('16\n4096\n50\n200\n'), '--compare', 'mpi'])
    for row in rows:
        assert row['wrong'] == 0 and row['mpi_wrong'] >= 4, row


TESTS = [measures_every_collective, gives_every_replica_a_part, compares_every_collective_with_mpi,
         has_several_replicas_on_a_rank, waits_for_asynchronous_calls, has_many_calls_in_flight, makes_one_call_after_the_other,
         shows_each_form_of_a_call, reduces_lists_in_each_mode,
         reduces_lists_of_many_replicas_asynchronously, knows_resnet50, takes_memory_of_each_kind,
         calls_without_a_plan, reports_the_node, shows_the_limit,
         runs_at_each_thread_level, counts_faults_planted_in_every_collective]

if __name__ == '__main__':
    sys.exit(run_tests(TESTS))
