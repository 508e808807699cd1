#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Tests the job scripts that can run without a batch system, on two simulated hosts: job_scripts_test.py MPIRUN JOBS TASKS.

Prints TAP. Sets the environment variables and files that PBS and LSF would provide.
"""

import os
import subprocess
import sys

import hosts
import tap

mpirun, jobs, tasks = sys.argv[1:]
tasks = os.path.abspath(tasks)
hosts.enter_or_skip('job scripts on simulated hosts')


def start(these, script, *arguments, **variables):
    """The finished script, started on h1."""
    agent = os.path.join(these.folder, 'agent')
    launch = {'OMPI_MCA_plm': 'rsh', 'OMPI_MCA_plm_rsh_agent': agent, 'OMPI_MCA_oob_tcp_if_include': 'eth0',
              'PRTE_MCA_plm': 'ssh', 'PRTE_MCA_plm_ssh_agent': agent, 'PRTE_MCA_oob_tcp_if_include': 'eth0',
              'OMPI_MCA_btl_tcp_if_include': 'eth0', 'OMPI_MCA_pml': 'ob1', 'OMPI_MCA_mpi_yield_when_idle': '1'}
    words = [agent, 'h1', 'bash ' + ' '.join([os.path.join(jobs, script), *arguments])]
    return subprocess.run(words, env={**hosts.environment(), **launch, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=200)


def write(these, name, text):
    path = os.path.join(these.folder, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def check(done):
    tap.expect(done.returncode == 0, f'exit code {done.returncode}\n{done.stdout}\n{done.stderr}')
    tap.expect("4 ranks on 2 nodes, started by Open MPI's mpirun" in done.stdout, f'{done.stdout}\n{done.stderr}')


def pbs():
    with hosts.Hosts(2, mpirun=mpirun) as these:
        nodes = write(these, 'nodes', 'h1\nh1\nh2\nh2\n')
        check(start(these, 'pbs.sh', PBS_NODEFILE=nodes, PBS_O_WORKDIR=these.folder, PROGRAM=tasks))


def lsf():
    with hosts.Hosts(2, mpirun=mpirun) as these:
        check(start(these, 'lsf.sh', LSB_DJOB_HOSTFILE=write(these, 'hosts', 'h1\nh1\nh2\nh2\n'), PROGRAM=tasks))


def plain_hosts():
    with hosts.Hosts(2, mpirun=mpirun) as these:
        check(start(these, 'ssh_hosts.sh', write(these, 'hosts', 'h1 slots=2\nh2 slots=2\n'), tasks))


def plain_hosts_without_a_file():
    with hosts.Hosts(1, mpirun=mpirun) as these:
        done = start(these, 'ssh_hosts.sh')
    tap.expect(done.returncode != 0 and 'usage: ssh_hosts.sh HOSTS' in done.stderr, f'{done.returncode}\n{done.stderr}')


sys.exit(tap.run_cases([('pbs.sh starts a rank for each line of its file', pbs),
                        ('lsf.sh starts a rank for each line of its file', lsf),
                        ('ssh_hosts.sh starts a rank for each slot', plain_hosts),
                        ('ssh_hosts.sh says what it needs', plain_hosts_without_a_file)]))
