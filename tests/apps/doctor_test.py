#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-doctor on set-ups that are really broken, as far as one machine permits.

doctor_test.py quick|rest DOCTOR MPIEXEC [OPTION...]
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from programs import Launcher, expect, expect_in, kill, ranks_under, run_cases
from tap import Skip

which, doctor = sys.argv[1:3]
launcher = Launcher(sys.argv[3:])
CPUS = sorted(os.sched_getaffinity(0))
RANK = '${OMPI_COMM_WORLD_RANK:-$PMI_RANK}'


def findings(result):
    """The findings of a run with --json, and its exit code."""
    start = result.stdout.find('{')
    expect(start >= 0, f'no JSON; code {result.returncode}\n{result.stdout}\n{result.stderr}')
    return json.JSONDecoder().raw_decode(result.stdout[start:])[0]


def expect_finding(result, severity, parts, ranks=None):
    report = findings(result)
    for each in report['findings']:
        text = each['text'] + ' ' + each['remedy']
        if each['severity'] == severity and all(part in text for part in parts) and ranks in (None, each['ranks']):
            expect(each['remedy'], f'no remedy: {each}')
            return report
    raise AssertionError(f'no {severity} with {parts} for {ranks} in:\n' + json.dumps(report['findings'], indent=1) + result.stderr)


def with_variables(code, severity, parts, **variables):
    def case():
        result = launcher.run(0, doctor, '--quick', '--json', env=dict(os.environ, **variables), timeout=100)
        expect_finding(result, severity, parts)
        expect(result.returncode == code, f'exit code {result.returncode}')

    return case


def wrong_options():
    for options, part in ((['--seconds', '0'], '--seconds=0'), (['--seconds', '1s'], '--seconds=1s: expected a number'), (['--sec', '1'], '--sec'), (['--quick', 'now'], 'lockstep-doctor:')):
        result = launcher.run(0, doctor, *options)
        expect(result.returncode == 2, f'{options}: exit code {result.returncode}')
        expect_in([part, '--help'], result.stderr)
        expect(result.stdout == '', result.stdout)
    result = launcher.run(0, doctor, '--help')
    expect(result.returncode == 0 and 'median' in result.stdout, result.stdout)


def healthy():
    result = launcher.run(2, doctor, '--seconds', '0.5')
    expect(result.returncode == 0, result.stdout + result.stderr)
    expect_in(['2 ranks on 1 node', '1 link inside hosts: median latency', '0 errors'], result.stdout)
    expect('\033' not in result.stdout, 'colors under a launcher')


def limited(name, soft, code, severity, parts):
    def case():
        hard = resource.getrlimit(name)[1]
        result = subprocess.run([doctor, '--quick', '--json'], capture_output=True, text=True, timeout=100, check=False,
                                preexec_fn=lambda: resource.setrlimit(name, (soft, hard)))
        expect_finding(result, severity, parts)
        expect(result.returncode == code, f'exit code {result.returncode}')

    return case


def bound_to_one_core():
    if shutil.which('taskset') is None or len(CPUS) < 2:
        raise Skip('needs taskset and two processors')
    result = launcher.run(2, 'taskset', '--cpu-list', CPUS[0], doctor, '--quick', '--json')
    expect_finding(result, 'warning', ['bound to the same 1 core'], [])
    expect(result.returncode == 0, f'exit code {result.returncode}')


def too_few_cores():
    if len(CPUS) > 4:
        raise Skip('would need more ranks than this test starts')
    result = launcher.run(len(CPUS) + 1, doctor, '--quick', '--json')
    expect_finding(result, 'warning', ['ranks on'], [])


def variable_of_one_rank():
    script = f'[ {RANK} = 1 ] && export LOCKSTEP_ORDER=canonical; exec {doctor} --quick --json'
    result = launcher.run(3, 'sh', '-c', script)
    expect_finding(result, 'warning', ['LOCKSTEP_ORDER: canonical here, but not set on rank 0'], [1])


def bad_variable_of_one_rank():
    script = f'[ {RANK} = 1 ] && export LOCKSTEP_ORDER=fast; exec {doctor} --quick --json'
    result = launcher.run(2, 'sh', '-c', script)
    expect_finding(result, 'error', ['LOCKSTEP_ORDER="fast"'])
    expect(result.returncode == 3, f'exit code {result.returncode}')


def rank_that_never_starts():
    script = f'[ {RANK} = 1 ] && exec sleep 600; exec {doctor} --json'
    result = launcher.run(2, 'sh', '-c', script, env=dict(os.environ, LOCKSTEP_TIMEOUT='1,3'), timeout=100)
    expect_finding(result, 'error', ['did not return within 3 s'])
    expect(result.returncode == 3, f'exit code {result.returncode}')


def full_shared_memory():
    script = f'mount -t tmpfs -o size=1m none /dev/shm && exec {doctor} --quick --json'
    for more in ([], ['--user', '--map-root-user']):
        result = subprocess.run(['unshare', *more, '--mount', 'sh', '-c', script], capture_output=True, text=True, timeout=100, check=False)
        if '{' in result.stdout:
            expect_finding(result, 'warning', ['/dev/shm', '1 MiB free of 1 MiB'])
            return
    raise Skip(f'mount namespaces are not allowed: {result.stderr.strip()}')


def stopped_rank():
    """A rank that is stopped while links are measured is named, and the program ends."""
    for delay in (1, 1.5, 2, 3, 5, 8, 13, 20):  # the measurement begins and ends sooner on a fast machine
        try:
            stop_rank_after(delay)
            return
        except AssertionError as error:
            failure = error
    raise failure


def stop_rank_after(delay):
    command = [*launcher.command, '-n', '3', doctor, '--seconds', '8', '--json']
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, LOCKSTEP_TIMEOUT='2,20'))
    try:
        children = wait_for_children(process, 3)
        time.sleep(delay)
        kill(children[1:2], signal.SIGSTOP)
        out, err = process.communicate(timeout=200)
        report = expect_finding(subprocess.CompletedProcess(command, process.returncode, out, err), 'error', ['rank'])
        expect(report['exit_code'] == 3, f'{report["exit_code"]}')
        expect(process.returncode != 0, 'exit code 0')
    finally:
        if process.poll() is None:
            kill(ranks_under(process, doctor), signal.SIGKILL)
            process.kill()


def wait_for_children(process, ranks):
    """Process ids: each rank is a process and its child."""
    end = time.monotonic() + 100
    children = []
    while len(children) < ranks:
        expect(time.monotonic() < end and process.poll() is None, f'{children}')
        time.sleep(0.02)
        pids = ranks_under(process, doctor)
        children = sorted(pid for pid in pids if parent_of(pid) in pids)
    return children


def parent_of(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='ascii') as file:
            return int(file.read().rsplit(')', 1)[1].split()[1])
    except OSError:
        return None  # it has ended


def slow_rank():
    """Rank 1 is stopped for 20 times as long as it ran just before, so that it has a 21st of a processor at most, however busy the machine is."""
    command = [*launcher.command, '-n', '2', 'sh', '-c', f'[ {RANK} = 1 ] && export THE_SLOW_RANK=1; exec {doctor} --seconds 0.2 --json']
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, text=True)
        try:
            slow = next(pid for pid in wait_for_children(process, 2) if b'THE_SLOW_RANK=1' in pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0'))
            end = time.monotonic() + 400
            while process.poll() is None and time.monotonic() < end:
                begin = time.monotonic()
                kill([slow], signal.SIGCONT)
                time.sleep(0.002)
                kill([slow], signal.SIGSTOP)
                time.sleep(20 * (time.monotonic() - begin))
            expect(process.poll() is not None, 'it does not end')
        finally:
            if process.poll() is None:
                kill(ranks_under(process, doctor), signal.SIGKILL)
                process.kill()
                process.wait()
        out.seek(0)
        err.seek(0)
        result = subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())
    expect_finding(result, 'warning', ['slow rank', 'fixed computation'], [1])


QUICK = [
    ('wrong options have code 2', wrong_options),
    ('two ranks are measured', healthy),
    ('srun with another MPI', with_variables(3, 'error', ['MPI sees one rank', 'SLURM_PROCID=2'], SLURM_PROCID='2')),
    ('mpiexec of another MPI', with_variables(3, 'error', ['MPI sees one rank', 'PMI_SIZE=4'], PMI_SIZE='4')),
    ('a malformed variable', with_variables(3, 'error', ['LOCKSTEP_TIMEOUT="soon"'], LOCKSTEP_TIMEOUT='soon')),
    ('a misspelt variable', with_variables(0, 'warning', ['LOCKSTEP_TIMOUT', 'did you mean LOCKSTEP_TIMEOUT?'], LOCKSTEP_TIMOUT='3')),
    ('ranks bound to one core', bound_to_one_core),
    ('a variable of one rank', variable_of_one_rank),
    ('a full /dev/shm', full_shared_memory),
]
REST = [
    ('a malformed variable of one rank', bad_variable_of_one_rank),
    ('ulimit -l', limited(resource.RLIMIT_MEMLOCK, 65536, 0, 'warning', ['ulimit -l 64 KiB'])),
    ('ulimit -n', limited(resource.RLIMIT_NOFILE, 60, 3, 'error', ['ulimit -n 60'])),
    ('more ranks than cores', too_few_cores),
    ('a rank that never starts MPI', rank_that_never_starts),
    ('a stopped rank', stopped_rank),
    ('a slow rank', slow_rank),
]
sys.exit(run_cases(QUICK if which == 'quick' else REST))
