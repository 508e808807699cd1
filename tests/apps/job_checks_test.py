#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Tests what the job scripts check and how they pass arguments on, with launchers that print them: job_checks_test.py JOBS. Prints TAP."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap  # noqa: E402

jobs = sys.argv[1]
LAUNCHERS = {'slurm_mpirun.sh': 'mpirun', 'slurm_srun.sh': 'srun', 'slurm_requeue.sh': 'mpirun', 'pbs.sh': 'mpirun', 'lsf.sh': 'mpirun',
             'ssh_hosts.sh': 'mpirun', 'hydra_hosts.sh': 'mpiexec.hydra', 'flux.sh': 'flux'}
WITH_HOSTS = ('ssh_hosts.sh', 'hydra_hosts.sh')
BY_VARIABLE = ('pbs.sh', 'lsf.sh')


def write(path, text, mode=0o755):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    os.chmod(path, mode)
    return path


class Scene:
    """A folder with launchers of our own, a host file, and a program whose path has a space."""

    def __init__(self, folder, launchers=True):
        self.folder = folder
        self.bin = os.path.join(folder, 'bin')
        os.mkdir(self.bin)
        for tool in ('sed', 'awk', 'wc', 'bash', 'sleep'):
            found = subprocess.run(['sh', '-c', f'command -v {tool}'], capture_output=True, text=True, check=True).stdout.strip()
            os.symlink(found, os.path.join(self.bin, tool))
        for launcher in set(LAUNCHERS.values()) if launchers else ():
            write(os.path.join(self.bin, launcher), '#!/bin/bash\nprintf "<%s>" "$@"\n')
        os.mkdir(os.path.join(folder, 'a b'))
        self.program = write(os.path.join(folder, 'a b', 'program'), '#!/bin/bash\n')
        self.hosts = write(os.path.join(folder, 'hosts'), '# two hosts\nn1:2\nn2\n', 0o644)

    def start(self, script, program, *arguments):
        words = [os.path.join(jobs, script)]
        if script in WITH_HOSTS:
            words.append(self.hosts)
        variables = {'PATH': self.bin, 'SLURM_JOB_ID': '1', 'PBS_O_WORKDIR': self.folder, 'PBS_NODEFILE': self.hosts,
                     'LSB_DJOB_HOSTFILE': self.hosts}
        if script in BY_VARIABLE:
            variables['PROGRAM'] = program
        else:
            words += [program, *arguments]
        return subprocess.run(words, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)


def refused(done, script, *parts):
    tap.expect(done.returncode == 2 and done.stderr.startswith(f'{script}: ') and all(part in done.stderr for part in parts),
               f'{script}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}')


def every_script_is_listed():
    found = {name for name in os.listdir(jobs) if name.endswith('.sh')}
    tap.expect(found == set(LAUNCHERS), f'in apps/jobs: {sorted(found)}; in this test: {sorted(LAUNCHERS)}')
    for name in found:
        tap.expect(os.access(os.path.join(jobs, name), os.X_OK), f'{name} is not executable')


def missing_launcher():
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder, launchers=False)
        for script, launcher in LAUNCHERS.items():
            refused(scene.start(script, scene.program), script, f'{launcher} is not found in PATH')


def missing_program():
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder)
        for script in LAUNCHERS:
            refused(scene.start(script, '/nowhere/program'), script, 'program /nowhere/program is not found')


def words():
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder)
        for script in LAUNCHERS:
            done = scene.start(script, scene.program, 'two words')
            end = f'<{scene.program}>' + ('' if script in BY_VARIABLE else '<two words>')
            line = done.stdout.split('\n')[0].replace('ranks ended with exit code 0', '')
            tap.expect(done.returncode == 0 and line.endswith(end), f'{script}: {done.returncode}\n{done.stdout}\n{done.stderr}')


def words_of_the_variable():
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder)
        for script in BY_VARIABLE:
            done = scene.start(script, 'wc --epochs 5')
            tap.expect(done.returncode == 0 and done.stdout.endswith('<wc><--epochs><5>'), f'{script}: {done.stdout}\n{done.stderr}')


def ranks_of_hydra():
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder)
        done = scene.start('hydra_hosts.sh', scene.program)
        tap.expect(done.stdout == f'<-f><{scene.hosts}><-n><3><{scene.program}>', f'{done.stdout}\n{done.stderr}')
        write(scene.hosts, '\n# none\n', 0o644)
        refused(scene.start('hydra_hosts.sh', scene.program), 'hydra_hosts.sh', 'names no host')


def missing_host_file():
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(folder)
        os.remove(scene.hosts)
        for script, text in {'ssh_hosts.sh': scene.hosts, 'hydra_hosts.sh': scene.hosts, 'pbs.sh': 'PBS_NODEFILE is not set to a file',
                             'lsf.sh': 'LSB_DJOB_HOSTFILE is not set to a file'}.items():
            refused(scene.start(script, scene.program), script, text)


sys.exit(tap.run_cases([('every job script is executable, and tested here', every_script_is_listed),
                        ('a missing launcher is named', missing_launcher),
                        ('a missing program is named', missing_program),
                        ('a path and an argument with spaces stay whole', words),
                        ('the variable PROGRAM is split into words', words_of_the_variable),
                        ('hydra_hosts.sh starts a rank for each slot', ranks_of_hydra),
                        ('a missing host file is named', missing_host_file)]))
