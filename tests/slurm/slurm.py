#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""A private Slurm on simulated hosts.

  slurm.py [HOSTS]     starts Slurm on HOSTS hosts (default 2), and opens a shell on the first one; ends with the shell

Starts controller and daemons with their own key, sockets and directories. They are independent of another Slurm on this
machine, and end when this program ends for any reason. Needs root, the packages slurmctld, slurmd, slurm-client and munge,
and the requirements of hosts.py.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../hosts'))
import hosts  # noqa: E402

CONFIGURATION = """\
ClusterName=simulated
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# a requeued job waits until its old credentials have expired
AuthInfo=socket=FOLDER/munge.socket,cred_expire=2
StateSaveLocation=FOLDER/state
SlurmctldPidFile=FOLDER/slurmctld.pid
SlurmctldLogFile=FOLDER/slurmctld.log
SlurmdPidFile=FOLDER/slurmd-%n.pid
SlurmdLogFile=FOLDER/slurmd-%n.log
SlurmdSpoolDir=FOLDER/spool-%n
# one for each node; otherwise nodes would share the directories of PMIx
TmpFS=FOLDER/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
PlugStackConfig=/dev/null
KillOnBadExit=1
KillWait=5
ReturnToService=2
SchedulerParameters=bf_interval=1,sched_interval=1
NodeName=h[1-COUNT] CPUs=4 RealMemory=512
PartitionName=all Nodes=ALL Default=YES MaxTime=60
"""
PROGRAMS = (('munged', 'munge'), ('slurmctld', 'slurmctld'), ('slurmd', 'slurmd'), ('sbatch', 'slurm-client'))
ENDED = ('COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL', 'OUT_OF_MEMORY', 'BOOT_FAIL', 'DEADLINE')


def check_possible():
    """Raises hosts.Unavailable if Slurm cannot run. Call it inside the namespaces."""
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    for program, package in PROGRAMS:
        if shutil.which(program) is None:
            raise hosts.Unavailable(f'{program} is missing (package {package})')
    with open('/proc/self/uid_map', encoding='utf-8') as file:
        if file.read().split()[:2] != ['0', '0']:
            raise hosts.Unavailable('slurmd needs the real root, not a user namespace')


class Slurm(hosts.Hosts):
    """Hosts h1, h2, ..., each a node of 4 CPUs; the controller is on h1."""

    def __init__(self, count, mpirun='mpirun'):
        super().__init__(count, mpirun=mpirun)
        try:
            self._start_slurm()
        except BaseException:
            self.close()
            raise

    def _start_slurm(self):
        for name in ('state', *(f'spool-h{i}' for i in range(1, self.count + 1))):
            os.mkdir(os.path.join(self.folder, name))
        os.chmod(self.folder, 0o755)
        self.configuration = os.path.join(self.folder, 'slurm.conf')
        with open(self.configuration, 'w', encoding='utf-8') as file:
            file.write(CONFIGURATION.replace('FOLDER', self.folder).replace('COUNT', str(self.count)))
        key = os.path.join(self.folder, 'munge.key')
        with open(key, 'wb', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(128))
        self._daemon('h1', 'munged', '--foreground', '--force', '--key-file', key, '--socket', f'{self.folder}/munge.socket',
                     '--pid-file', f'{self.folder}/munge.pid', '--log-file', f'{self.folder}/munge.log', '--seed-file',
                     f'{self.folder}/munge.seed')
        self._wait_for('munged', lambda: os.path.exists(f'{self.folder}/munge.socket'))
        self._daemon('h1', 'slurmctld', '-D', '-i', '-f', self.configuration)
        for i in range(1, self.count + 1):
            self._daemon(f'h{i}', 'slurmd', '-D', '-f', self.configuration, '-N', f'h{i}')
        self._wait_for('all nodes', lambda: self.ask('sinfo', '-h', '-o', '%T %D').split() == ['idle', str(self.count)])

    def _daemon(self, host, *words):
        with open(os.path.join(self.folder, f'{words[0]}-{host}.out'), 'w', encoding='utf-8') as out:
            subprocess.Popen(self.on(host, *words), env=self.environment(), stdin=subprocess.DEVNULL, stdout=out,
                             stderr=subprocess.STDOUT, start_new_session=True)

    def _wait_for(self, what, holds, seconds=200):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f'no {what} after {seconds} s\n{self.logs()}')
            time.sleep(0.1)

    def on(self, host, *words):
        """The command that runs a command on a host."""
        return [os.path.join(self.folder, 'agent'), host, f'cd {shlex.quote(os.getcwd())} && exec {shlex.join(words)}']

    def environment(self, **more):
        return {**hosts.environment(), 'SLURM_CONF': self.configuration, 'OMPI_MCA_btl_tcp_if_include': 'eth0',
                'OMPI_MCA_oob_tcp_if_include': 'eth0', 'OMPI_MCA_pml': 'ob1', 'OMPI_MCA_mpi_yield_when_idle': '1', **more}

    def ask(self, *words, **more):
        """The output of a command on h1; empty if it fails."""
        return subprocess.run(self.on('h1', *words), env=self.environment(**more), capture_output=True, text=True).stdout

    def submit(self, script, *arguments, options=(), **more):
        """Submits a job and returns its number."""
        words = ['sbatch', '--parsable', *options, script, *arguments]
        done = subprocess.run(self.on('h1', *words), env=self.environment(**more), capture_output=True, text=True)
        if not done.stdout.strip().isdigit():
            raise RuntimeError(f'{shlex.join(words)}: {done.stdout}{done.stderr}')
        return done.stdout.strip()

    def job(self, number):
        """The properties of a job: {"JobState": "RUNNING", "Restarts": "0", ...}"""
        text = self.ask('scontrol', '--oneliner', 'show', 'job', number)
        return dict(re.findall(r'(\S+?)=(\S*)', text))

    def wait(self, number, seconds=300):
        """Waits until a job has ended or the time is over, and returns its properties."""
        end = time.monotonic() + seconds
        while (job := self.job(number)).get('JobState') not in ENDED and time.monotonic() < end:
            time.sleep(0.2)
        return job

    def logs(self):
        """The last lines of all daemons."""
        text = ''
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(('.log', '.out')):
                with open(os.path.join(self.folder, name), encoding='utf-8', errors='replace') as file:
                    text += f'== {name}\n{file.read()[-1500:]}'
        return text


def main():
    try:
        hosts.enter()
        check_possible()
        with Slurm(int(sys.argv[1]) if len(sys.argv) > 1 else 2) as slurm:
            return subprocess.call(slurm.on('h1', os.environ.get('SHELL', 'bash')), env=slurm.environment())
    except hosts.Unavailable as reason:
        print(f'slurm.py: {reason}', file=sys.stderr)
        return 77


if __name__ == '__main__':
    sys.exit(main())
