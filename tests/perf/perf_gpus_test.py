#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-perf on fake GPUs (perf_on_fakes.cpp). Prints TAP; see harness.py.

FAKE_NCCL in the environment: a library to be opened as NCCL's, nccl_over_mpi.cpp; "none" in builds without NCCL's header.
"""

import os
import sys

from harness import Skip, run_tests

CUDA = ['--memory', 'cuda']
SMALL = ['-b', '64', '-e', '16K', '-f', '16']


def on(gpus, **variables):
    return {'FAKE_GPUS': str(gpus), **variables}


def checks_every_row(rows, order, count):
    assert len(rows) == count, len(rows)
    for row in rows:
        assert row['wrong'] == 0 and row['time_us'] > 0 and row['memory'] == 'cuda' and row['order'] == order, row


def reduces_in_nccls_order_unless_another_is_given(h):
    for arguments, order in (([], 'any'), (['--order', 'canonical'], 'canonical'), (['--order', 'any'], 'any')):
        rows, environment, text = h.rows([*CUDA, *SMALL, '-d', 'f32,bf16,i32', '-o', 'sum,mean,max', *arguments], variables=on(h.ranks))
        # 3 sizes, in place and out of place, but no mean of integers in place
        checks_every_row(rows, order, (9 * 2 - 1) * 3)
        assert environment['gpus']['devices'] == ['gpu:0'] and f'order: {order}' in text, text


def follows_the_environment_that_tightens_the_order(h):
    for arguments in ([], ['--order', 'any']):
        rows, _, text = h.rows([*CUDA, *SMALL, *arguments], variables=on(h.ranks, LOCKSTEP_ORDER='canonical'))
        checks_every_row(rows, 'canonical', 6)
        assert 'order: canonical' in text, text


def puts_several_replicas_on_a_gpu(h):
    for gpus, order, devices in ((1, 'any', ['gpu:0', 'gpu:0#1', 'gpu:0#2']), (1, 'canonical', ['gpu:0', 'gpu:0#1', 'gpu:0#2']),
                                 (2 * h.ranks, 'canonical', ['gpu:0', 'gpu:0#1', 'gpu:1'])):
        rows, environment, text = h.rows([*CUDA, *SMALL, '--replicas-per-rank', '3', '--order', order], variables=on(gpus))
        checks_every_row(rows, order, 6)
        assert environment['gpus']['devices'] == devices, environment['gpus']
        assert ', '.join(devices) in text, text


def says_what_the_memory_of_one_gpu_allows(h):
    rows, environment, text = h.rows([*CUDA, '-b', '64K', '-e', '64K', '--replicas-per-rank', '2', '--collective', 'all_reduce,reduce,barrier'],
                                     variables=on(1))
    gbs = environment['gpus']['copy_gbs']
    assert (gbs is not None) == ('of HBM' in text) == (h.ranks == 1), text
    for row in rows:
        if h.ranks != 1 or row['collective'] == 'barrier':
            assert row['hbm_floor_us'] is None and row['of_hbm'] is None, row
            continue
        # both inputs and, of reduce on the root, both outputs
        assert abs(row['hbm_floor_us'] - 4 * 65536 / gbs * 1e-3) < 1e-9 * row['hbm_floor_us'], row
        assert abs(row['of_hbm'] - row['hbm_floor_us'] / row['time_us']) < 1e-9 * row['of_hbm'], row
    assert h.rows([*CUDA, '-b', '64', '-e', '64', '--replicas-per-rank', '2'], variables=on(2 * h.ranks))[1]['gpus']['copy_gbs'] is None


def does_every_collective(h):
    rows, _, _ = h.rows([*CUDA, '-b', '4K', '-e', '4K', '--collective', 'all', '--replicas-per-rank', '2'], variables=on(1))
    # in place too: all_reduce, reduce, broadcast; messages need two ranks; three kinds of creation
    checks_every_row(rows, 'any', 13 + 3 + (2 if h.ranks > 1 else 0) + 3)


def reduces_lists(h):
    sizes = h.file('64\n4096\n17\n')
    for arguments in ([], ['--async'], ['--unprepared']):
        rows, _, _ = h.rows([*CUDA, '--list', sizes, '--replicas-per-rank', '2', *arguments], variables=on(1))
        checks_every_row(rows, 'any', 3)


def compares_with_mpi_in_host_memory(h):
    rows, _, _ = h.rows([*CUDA, *SMALL, '--compare', 'mpi'], variables=on(h.ranks))
    checks_every_row(rows, 'any', 6)
    assert all(row['mpi_wrong'] == 0 and row['mpi_memory'] == 'malloc' for row in rows), rows


def fake_nccl():
    name = os.environ['FAKE_NCCL']
    if name == 'none':
        raise Skip('this build has no header of NCCL')
    return name


def compares_with_nccl_on_the_same_buffers(h):
    variables = on(2 * h.ranks, LOCKSTEP_NCCL=fake_nccl(), FAKE_HOST_ACCESS='1')
    compare = [*CUDA, *SMALL, '--compare', 'nccl', '--replicas-per-rank', '2']
    rows, _, text = h.rows([*compare, '-d', 'f32,i32', '-o', 'sum,mean'], variables=variables)
    checks_every_row(rows, 'any', (4 * 2 - 1) * 3)
    for row in rows:
        assert row['nccl_wrong'] == 0 and row['nccl_time_us'] > 0 and row['nccl_call'] == row['dtype'] + ' sum', row
    assert ' NCCL ' in text and "NCCL's time is that of the sum" in text and 'MPI lacks' not in text, text
    rows, _, text = h.rows(compare, code=1, variables={**variables, 'NCCL_OVER_MPI_FAULT': 'bit'})
    # 4 calls, one element each, on every replica
    assert all(row['wrong'] == 0 and row['nccl_wrong'] == 4 * 2 * h.ranks for row in rows), rows
    assert "NCCL's wrong values" in text, text
    # ours have left the same sums in other calls' buffers
    rows, _, text = h.rows(compare, code=1, variables={**variables, 'NCCL_OVER_MPI_FAULT': 'nothing'})
    assert all(row['wrong'] == 0 and row['nccl_wrong'] > 0 for row in rows), rows


def refuses_nccl_with_two_replicas_on_a_gpu(h):
    variables = on(1, LOCKSTEP_NCCL=fake_nccl())
    h.refuses([*CUDA, '--compare', 'nccl', '--replicas-per-rank', '2'], ['--compare "nccl"', 'one replica for each GPU', '0000:01:00.0'], variables)


def refuses_a_missing_nccl(h):
    fake_nccl()
    h.refuses([*CUDA, '--compare', 'nccl'], ['--compare "nccl"', '/no/such/nccl', 'LOCKSTEP_NCCL'],
              on(h.ranks, LOCKSTEP_NCCL='/no/such/nccl'))


def refuses_without_a_gpu(h):
    h.refuses(CUDA, ['--memory "cuda"', 'no GPU', 'give arena, malloc or huge'], on(0))


def refuses_more_than_the_memory_of_a_gpu(h):
    h.refuses([*CUDA, '-e', '512M'], ['--maxbytes', 'gpu:0', 'MiB', 'give less'], on(1))


TESTS = [reduces_in_nccls_order_unless_another_is_given, follows_the_environment_that_tightens_the_order,
         puts_several_replicas_on_a_gpu, says_what_the_memory_of_one_gpu_allows, does_every_collective, reduces_lists,
         compares_with_mpi_in_host_memory, compares_with_nccl_on_the_same_buffers, refuses_nccl_with_two_replicas_on_a_gpu,
         refuses_a_missing_nccl, refuses_without_a_gpu, refuses_more_than_the_memory_of_a_gpu]

if __name__ == '__main__':
    sys.exit(run_tests(TESTS))
