#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Simulates several hosts on one machine, to run MPI programs on them.

  hosts.py [--rate 1gbit] RANKS,RANKS... PROGRAM [ARGUMENT...]      such as: hosts.py 2,1,1 build/tests/mpi/mpi-communicator

Each host is a network namespace with its own host name, IPC, /dev/shm, temporary directory and share of the CPUs. A bridge
connects the hosts, so ranks of different hosts communicate through TCP only. All hosts are inside one process namespace,
which is removed when this program ends for any reason. Needs iproute2, util-linux, Open MPI or MPICH, and root or user
namespaces.

All hosts have the same kernel, so memory can be opened across them: only MPI can tell which ranks share a node.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))  # tap.py, for the tests

INSIDE = 'SIMULATED_HOSTS'  # set in the process namespace
NETWORK = '10.77.0'
HOLDER = 'mount -t tmpfs -o size=2g none /dev/shm && mount --bind "$1" /etc/hosts && hostname "$2" && echo up && exec sleep infinity'
AGENT = """#!/bin/sh
# mpirun calls this instead of ssh: [OPTION]... HOST COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec taskset --cpu-list "$(cat "FOLDER/$host.cpus")" nsenter --target "$(cat "FOLDER/$host.pid")" --net --mount --ipc --uts env TMPDIR="FOLDER/$host" sh -c "$*"
"""
NAMESPACES = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--propagation', 'private']


class Unavailable(Exception):
    """This machine cannot simulate hosts; the text gives the reason."""


def enter():
    """Runs this program again inside new namespaces, and returns there. Raises Unavailable."""
    if os.environ.pop(INSIDE, None):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
        return
    for tool, package in (('unshare', 'util-linux'), ('nsenter', 'util-linux'), ('taskset', 'util-linux'), ('ip', 'iproute2')):
        if shutil.which(tool) is None:
            raise Unavailable(f'{tool} is missing (package {package})')
    why = ''
    for more in ([], ['--user', '--map-root-user']):
        command = ['unshare', *more, *NAMESPACES]
        tried = subprocess.run([*command, 'ip', 'link', 'add', 'name', 'trial', 'type', 'bridge'], capture_output=True, text=True)
        if tried.returncode == 0:
            os.environ[INSIDE] = '1'
            os.execvp('unshare', [*command, sys.executable, *sys.argv])
        why = why or ' '.join((tried.stdout + tried.stderr).split())
    raise Unavailable(f'namespaces are not allowed here: {why}')


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise Unavailable(f'{" ".join(command)}: {" ".join((result.stdout + result.stderr).split())}')
    return result.stdout


def cpus_of(index, count):
    """The CPUs of host `index` of `count`; all CPUs if there are fewer CPUs than hosts."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[len(cpus) * index // count:len(cpus) * (index + 1) // count] if len(cpus) >= count else cpus


def launcher_version(mpirun):
    """The major version of Open MPI; None for Hydra, the launcher of MPICH. Raises Unavailable for another launcher."""
    text = subprocess.run([mpirun, '--version'], capture_output=True, text=True).stdout
    if text.startswith('HYDRA'):
        return None
    words = text.splitlines()[0].split() if 'Open MPI' in text or 'OpenRTE' in text else []
    if not words:
        raise Unavailable(f'{mpirun} is neither of Open MPI nor of MPICH')
    return int(words[-1].split('.')[0])


class Hosts:
    """`count` hosts named h1, h2, ..., until `close`. Call `enter` first."""

    def __init__(self, count, rate=None, mpirun='mpirun'):
        self.count = count
        self.mpirun = mpirun
        self.version = launcher_version(mpirun)
        self.folder = tempfile.mkdtemp(prefix='hosts-', dir='/tmp')  # a short path, because sockets are in it
        self.holders = []
        try:
            self._start(rate)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self, rate):
        names = os.path.join(self.folder, 'etc-hosts')
        with open(names, 'w') as file:
            file.writelines(['127.0.0.1 localhost\n', *(f'{NETWORK}.{i} h{i}\n' for i in range(1, self.count + 1))])
        agent = os.path.join(self.folder, 'agent')
        with open(agent, 'w') as file:
            file.write(AGENT.replace('FOLDER', self.folder))
        os.chmod(agent, 0o755)
        run('ip', 'link', 'add', 'switch', 'type', 'bridge')
        run('ip', 'link', 'set', 'switch', 'up')
        for i in range(1, self.count + 1):
            os.mkdir(os.path.join(self.folder, f'h{i}'))
            self._add(i, names, rate)

    def _add(self, i, names, rate):
        holder = subprocess.Popen(['unshare', '--net', '--mount', '--ipc', '--uts', '--propagation', 'private', 'sh', '-c', HOLDER,
                                   'holder', names, f'h{i}'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.holders.append(holder)
        if (said := holder.stdout.readline()) != 'up\n':
            raise Unavailable(f'host {i}: {said.strip()}')
        for name, value in (('pid', holder.pid), ('cpus', ','.join(map(str, cpus_of(i - 1, self.count))))):
            with open(os.path.join(self.folder, f'h{i}.{name}'), 'w') as file:
                print(value, file=file)
        inside = ['nsenter', '--target', str(holder.pid), '--net']
        run('ip', 'link', 'add', f'port{i}', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', str(holder.pid))
        run('ip', 'link', 'set', f'port{i}', 'master', 'switch', 'up')
        run(*inside, 'ip', 'addr', 'add', f'{NETWORK}.{i}/24', 'dev', 'eth0')
        for device in ('lo', 'eth0'):
            run(*inside, 'ip', 'link', 'set', device, 'up')
        if rate:
            # limits what the host sends; the kernel keeps few bytes of a connection in this queue
            run(*inside, 'tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'tbf', 'rate', rate, 'burst', '256kb', 'latency', '50ms')

    def command(self, ranks, program, options=()):
        """The command that starts `program`, a list of words, with ranks[i] ranks on host i + 1."""
        where = ','.join(f'h{i}:{count}' for i, count in enumerate(ranks, 1))
        agent = os.path.join(self.folder, 'agent')
        if self.version is None:
            words = [self.mpirun, '-n', str(sum(ranks)), '-hosts', where, '-launcher', 'ssh', '-launcher-exec', agent, *options, *program]
            return self._on_first(agent, words)
        tcp = ['--mca', 'btl_tcp_if_include', 'eth0', '--mca', 'pml', 'ob1']
        if self.version >= 5:
            launch = ['--prtemca', 'plm', 'ssh', '--prtemca', 'plm_ssh_agent', agent, '--prtemca', 'oob_tcp_if_include', 'eth0',
                      '--mca', 'btl', 'sm,tcp,self', '--map-by', ':OVERSUBSCRIBE']
        else:
            launch = ['--mca', 'plm', 'rsh', '--mca', 'plm_rsh_agent', agent, '--mca', 'oob_tcp_if_include', 'eth0',
                      '--mca', 'btl', 'vader,tcp,self', '--mca', 'btl_vader_single_copy_mechanism', 'none', '--oversubscribe']
        # waiting ranks must yield, because ranks share cores
        words = [self.mpirun, '-n', str(sum(ranks)), '--host', where, *launch, *tcp, '--bind-to', 'none', '--mca',
                 'mpi_yield_when_idle', '1', *options, *program]
        return self._on_first(agent, words)

    def _on_first(self, agent, words):
        return [agent, 'h1', f'cd {shlex.quote(os.getcwd())} && exec {shlex.join(words)}']

    def start(self, ranks, program, options=(), **more):
        return subprocess.Popen(self.command(ranks, program, options), env=environment(), stdin=subprocess.DEVNULL, text=True,
                                start_new_session=True, **more)

    def run(self, ranks, program, options=(), timeout=200):
        """The finished process, with its output; its return code is None if it took longer than `timeout` seconds."""
        process = self.start(ranks, program, options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            end_all_but(self.holders)
            out, err = process.communicate()
            code = None
        return subprocess.CompletedProcess(process.args, code, out, err)

    def cut(self, host):
        """Disconnects host `host` from the network."""
        run('ip', 'link', 'set', f'port{host}', 'down')

    def heal(self, host):
        run('ip', 'link', 'set', f'port{host}', 'up')

    def close(self):
        end_all_but([])
        for holder in self.holders:
            holder.wait()
        # the kernel removes the namespaces of ended processes with a delay
        for device in [*(f'port{i}' for i in range(1, self.count + 1)), 'switch']:
            subprocess.run(['ip', 'link', 'del', device], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def enter_or_skip(name):
    """Enters namespaces; if that is not possible, prints `name` as skipped and ends the program."""
    try:
        enter()
        with Hosts(2) as pair:
            tried = pair.run([1, 1], ['hostname'], timeout=100)
            if sorted(tried.stdout.split()) != ['h1', 'h2']:
                raise Unavailable(f'mpirun does not start ranks there: {" ".join(tried.stderr.split())[-300:]}')
    except Unavailable as reason:
        print(f'1..1\nok 1 - {name} # SKIP no simulated hosts: {reason}', flush=True)
        sys.exit(0)


def environment():
    """The environment of launchers, which run as root in namespaces and must use the interface of the simulated network."""
    kept = {name: value for name, value in os.environ.items() if name != 'OMPI_MCA_btl'}
    return {**kept, 'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'PRTE_ALLOW_RUN_AS_ROOT': '1',
            'PRTE_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'HWLOC_HIDE_ERRORS': '2'}


def processes(text=''):
    """Ids of the other running processes of this namespace whose command line contains `text`."""
    found = []
    for name in os.listdir('/proc'):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f'/proc/{name}/cmdline', encoding='utf-8', errors='replace') as file:
                line = file.read().replace('\0', ' ')
        except OSError:
            continue
        if line and text in line:  # ended processes have an empty command line
            found.append(int(name))
    return found


def end_all_but(kept):
    """Kills every process of this namespace except this one and `kept`."""
    kept = {process.pid for process in kept}
    for _ in range(50):
        others = [number for number in processes() if number not in kept]
        if not others:
            return
        for number in others:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)


def main():
    words = sys.argv[1:]
    rate = words.pop(1) if words[:1] == ['--rate'] and len(words) > 1 else None
    words = words[1:] if rate else words
    if len(words) < 2 or not words[0].replace(',', '').isdigit():
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    try:
        enter()
        ranks = [int(word) for word in words[0].split(',')]
        with Hosts(len(ranks), rate) as hosts:
            return hosts.start(ranks, words[1:]).wait()
    except Unavailable as reason:
        print(f'hosts.py: {reason}', file=sys.stderr)
        return 77


if __name__ == '__main__':
    sys.exit(main())
