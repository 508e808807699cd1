#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Tests the job scripts of apps/jobs in a Slurm of two simulated nodes: slurm_test.py MPIRUN JOBS TASKS TRAIN. Prints TAP.

TRAIN is "none" if lockstep-train is not built.
"""

import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../hosts'))
import hosts  # noqa: E402
import slurm  # noqa: E402
import tap  # noqa: E402

NAME = 'jobs under Slurm'
ADDRESSES = ['h1:8888', 'h1:8889', 'h2:8888', 'h2:8889']
STARTS = 3  # Debian's PMIx sometimes crashes when it starts on several nodes

mpirun, jobs, tasks, train = sys.argv[1:]


def enter_or_skip():
    try:
        hosts.enter()
        slurm.check_possible()
        return slurm.Slurm(2, mpirun=mpirun)
    except hosts.Unavailable as reason:
        print(f'1..1\nok 1 - {NAME} # SKIP no Slurm on simulated hosts: {reason}', flush=True)
        sys.exit(0)


def finish(number, what, seconds=300):
    """The output of a job that must succeed."""
    job = cluster.wait(number, seconds)
    text = output_of_job()
    tap.expect(job.get('JobState') == 'COMPLETED', f'{what}: {job}\n{text[-3000:]}\n{cluster.logs()}')
    return text


def output_of_job():
    with open(output, encoding='utf-8', errors='replace') as file:
        return file.read()


def fresh_output():
    if os.path.exists(output):
        os.remove(output)
    return ['--output', output]


def lines(text, kind):
    """{task id: (host, address, the rest)} from the output lines of one resolver."""
    found = re.findall(rf'^(\S+) {kind} worker (\d+) (\S+)(.*)$', text, re.MULTILINE)
    return {int(number): (host, address, rest.split()) for host, number, address, rest in found}


def check_addresses(found, expected):
    tap.expect([found[i][1] for i in sorted(found)] == expected, f'{found}')
    for host, address, _ in found.values():
        tap.expect(address.startswith(host + ':'), f'{found}')


def job_of(*command, **options):
    """Runs a command in a job of 2 nodes with 2 tasks each, and returns its output."""
    script = os.path.join(cluster.folder, 'job.sh')
    with open(script, 'w', encoding='utf-8') as file:
        file.write('#!/bin/sh\nexec "$@"\n')
    number = cluster.submit(script, *command, options=['--nodes=2', '--ntasks-per-node=2', *fresh_output()], **options)
    return finish(number, ' '.join(command))


def slurm_resolver_agrees_with_block():
    check_addresses(lines(job_of('srun', '--mpi=none', '--distribution=block', tasks, '--no-mpi'), 'slurm'), ADDRESSES)


def slurm_resolver_agrees_with_cyclic():
    found = lines(job_of('srun', '--mpi=none', '--distribution=cyclic', tasks, '--no-mpi'), 'slurm')
    check_addresses(found, ['h1:8888', 'h2:8888', 'h1:8889', 'h2:8889'])


def slurm_resolver_refuses_what_it_cannot_know():
    text = job_of('srun', '--mpi=none', '--distribution=plane=2', tasks, '--no-mpi')
    tap.expect(text.count('slurm refused invalid_argument') == 4 and 'plane' in text, text)


def mpirun_is_asked_and_slurm_is_not():
    number = cluster.submit(os.path.join(jobs, 'slurm_mpirun.sh'), tasks, options=fresh_output())
    text = finish(number, 'slurm_mpirun.sh')
    found = lines(text, 'mpi')
    check_addresses(found, ADDRESSES)
    tap.expect([found[i][2] for i in sorted(found)] == [['local', str(i % 2), '2'] for i in range(4)], text)
    tap.expect(text.count('slurm refused failed_precondition') == 4 and 'MpiClusterResolver' in text, text)
    tap.expect(f"4 ranks on 2 nodes, started by Open MPI's mpirun in Slurm job {number}" in text, text)


def srun_starts_ranks_that_know_their_place():
    for attempt in range(STARTS):
        number = cluster.submit(os.path.join(jobs, 'slurm_srun.sh'), tasks, options=fresh_output())
        if cluster.wait(number).get('JobState') == 'COMPLETED' or attempt + 1 == STARTS:
            break
    text = finish(number, 'slurm_srun.sh')
    check_addresses(lines(text, 'mpi'), ADDRESSES)
    check_addresses(lines(text, 'slurm'), ADDRESSES)


def hash_of(text):
    found = re.findall(r'^parameters (0x[0-9a-f]{16})$', text, re.MULTILINE)
    tap.expect(len(found) == 1, f'one line "parameters 0x..." is expected in\n{text[-3000:]}')
    return found[0]


def preempted_job_ends_with_the_same_bits():
    common = ['--data', 'synthetic', '--steps', '600', '--global-batch', '64']
    script = os.path.join(jobs, 'slurm_requeue.sh')
    expected = hash_of(finish(cluster.submit(script, train, *common, options=fresh_output()), 'without a break', 600))
    folder = os.path.join(cluster.folder, 'checkpoints')
    number = cluster.submit(script, train, *common, '--checkpoint-dir', folder, '--save-every', '50', '--resume',
                            options=fresh_output())
    end = time.monotonic() + 300
    while not (os.path.isdir(folder) and os.listdir(folder)) and time.monotonic() < end:
        time.sleep(0.05)  # lets some steps run
    cluster.ask('scancel', '--batch', '--signal=USR1', number)
    text = finish(number, 'preempted', 600)
    restarts = cluster.job(number).get('Restarts')
    tap.expect('ranks ended with exit code 75' in text, f'it was not preempted:\n{text[-3000:]}')
    tap.expect(restarts == '1', f'{restarts} restarts\n{text[-3000:]}')
    tap.expect(hash_of(text) == expected, f'{hash_of(text)} instead of {expected}\n{text[-3000:]}')


cluster = enter_or_skip()
output = os.path.join(cluster.folder, 'job.out')
CASES = [('the resolver of Slurm agrees with block distribution', slurm_resolver_agrees_with_block),
         ('the resolver of Slurm agrees with cyclic distribution', slurm_resolver_agrees_with_cyclic),
         ('the resolver of Slurm refuses what it cannot know', slurm_resolver_refuses_what_it_cannot_know),
         ('under mpirun the communicator is asked, and Slurm is not', mpirun_is_asked_and_slurm_is_not),
         ('srun starts ranks that know their place', srun_starts_ranks_that_know_their_place)]
if train != 'none':
    CASES.append(('a preempted job ends with the same bits', preempted_job_ends_with_the_same_bits))
with cluster:
    code = tap.run_cases(CASES)
sys.exit(code)
