#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs one job of the fault matrix and prints what happened as JSON: cell.py CELL, where CELL is JSON that matrix.py makes.

The job has namespaces of its own if the machine permits: nothing of it can outlive this program, and its /dev/shm is private.
The result has the reports of the ranks, the exit codes, how long everything took, and what was left behind.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, 'hosts'))
import hosts  # noqa: E402

MARK = 'FAULTS_CELL'  # set in the environment of every process of the job
SHARED_MEMORY_BYTES = {'shm-full': '64k'}
SMALL_BYTES = 32 << 20
CUT_SECONDS = 1
NO_SHARED_MEMORY = """
mkdir "$1" && mount -t tmpfs none "$1" && mkdir "$1/pts" && ln -s /proc/self/fd "$1/fd" && mount --rbind /dev/pts "$1/pts" &&
for name in null zero full random urandom tty ptmx; do touch "$1/$name" && mount --bind "/dev/$name" "$1/$name" || exit; done &&
mount --rbind "$1" /dev
"""
# A launcher that does not see the end of a rank: a shell runs it, and stays until all ranks have ended.
WRAP = ('"$@"; echo $? >"$0/code.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; until [ -e "$0/over" ]; do sleep 0.1; done')


class Job:
    """A job that runs: started with `start`, watched with `watch`."""

    def __init__(self, cell, folder):
        self.cell = cell
        self.folder = folder
        self.event = None  # time and process id
        self.acted = False
        self.result = {'hang': False, 'launcher_stays': False, 'left': []}
        self.shared_before = shared_files()
        self.group = cell['group']
        if self.group:
            os.mkdir(self.group)
            required = cell['groups']['limit']
            for limit, value in ((required, SMALL_BYTES), ('memory.swap.max', 0), ('memory.memsw.limit_in_bytes', SMALL_BYTES)):
                if limit == required or os.path.exists(os.path.join(self.group, limit)):
                    with open(os.path.join(self.group, limit), 'w', encoding='ascii') as file:
                        file.write(str(value))

    def arguments(self):
        cell = self.cell
        words = [cell['program'], *(f'{name}={cell[name]}' for name in
                 ('event', 'moment', 'interface', 'culprit', 'fail', 'recover', 'seed', 'elements')), f'folder={self.folder}']
        return ['sh', '-c', WRAP, self.folder, *words] if cell['launch'] == 'wrap' else words

    def environment(self):
        fail = float(self.cell['fail'])
        # without a file system for shared memory Open MPI connects the ranks by TCP, if its variables permit that
        is_full = self.cell['event'] == 'shm-full' and self.cell['moment'] == 'creation'
        mpi = {'OMPI_MCA_btl': '^uct,openib,ofi', 'OMPI_MCA_btl_tcp_if_include': 'lo'} if is_full else {}
        if self.cell['event'] == 'shm-full' and not is_full:  # messages of Open MPI do not reserve their pages: SIGBUS
            mpi = {f'OMPI_MCA_btl_{name}_backing_directory': os.path.join(self.folder, 't') for name in ('vader', 'sm')}
        return {**os.environ, **mpi, 'LOCKSTEP_TIMEOUT': f'{fail / 3:g},{fail:g}', 'LOCKSTEP_RECORDER': f'512,{self.folder}/records',
                MARK: self.folder, 'TMPDIR': os.path.join(self.folder, 't'), 'FAULTS_GROUP': self.group}

    def start(self):
        ranks = ['-n', str(sum(self.cell['ranks']))]
        self.process = subprocess.Popen([*self.cell['mpiexec'], *ranks, *self.arguments()], env=self.environment(), cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    @property
    def log(self):
        return open(os.path.join(self.folder, 'log'), 'ab')

    def act(self):
        """What only the driver can do: continue a stopped rank."""
        file = os.path.join(self.folder, 'event')
        if self.event is None and os.path.exists(file):
            with open(file, encoding='ascii') as words:
                at, process = words.read().split()
            self.event = float(at), int(process)
        if self.event and self.cell['event'] == 'stop-cont' and not self.acted and time.monotonic() > self.event[0] + self.cell['stop']:
            self.acted = True
            try:
                os.kill(self.event[1], signal.SIGCONT)
            except ProcessLookupError:
                pass

    def over(self):
        with open(os.path.join(self.folder, 'over'), 'w', encoding='ascii'):
            pass

    def watch(self):
        """Until the launcher has ended, or the bound is reached."""
        begin = time.monotonic()
        last = None  # when the last rank has ended
        has_begun = False
        while self.process.poll() is None:
            self.act()
            time.sleep(0.05)
            present = time.monotonic()
            since = self.event[0] if self.event else begin + self.cell['start_bound']
            if present > since + self.cell['bound']:
                self.result['hang'] = bool(self.processes(ranks_only=True))
                self.result['launcher_stays'] = not self.result['hang']
                break
            if self.processes(ranks_only=True):
                has_begun, last = True, None
            elif has_begun:
                last = last or present
                self.over()
                if present > last + self.cell['launcher_bound']:
                    self.result['launcher_stays'] = True
                    break
        self.act()  # the job may have ended before the driver looked
        self.result['seconds'] = time.monotonic() - begin
        self.result['after_event'] = time.monotonic() - self.event[0] if self.event else None

    def processes(self, ranks_only=False):
        """Ids of the processes of this job."""
        mark = f'{MARK}={self.folder}'.encode()
        name = os.path.basename(self.cell['program'])
        found = []
        for entry in os.listdir('/proc'):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f'/proc/{entry}/environ', 'rb') as file:
                    is_ours = mark in file.read().split(b'\0')
                if is_ours and (not ranks_only or os.path.basename(os.readlink(f'/proc/{entry}/exe')).startswith(name)):
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def end(self):
        """Kills what remains; ranks that have not ended by themselves are left behind."""
        self.over()
        if self.process.poll() is None:
            self.stop_launcher()
        code = self.process.poll()
        self.result['exit'] = code if code is None or code >= 0 else 128 - code
        wait_until = time.monotonic() + 2
        while self.processes() and time.monotonic() < wait_until:
            time.sleep(0.05)
        for process in self.processes():
            self.result['left'].append('process ' + command_line(process))
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stop_launcher(self):
        if not self.result['hang'] and not self.result['launcher_stays']:
            return
        if self.result['hang'] and os.environ.get('FAULTS_STACKS'):
            self.result['stacks'] = stacks_of(self.processes(ranks_only=True))
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def files_left(self):
        """Files outside of the job's folder, and unexpected ones inside."""
        expected = ('rank.', 'code.', 'event', 'acted', 'over', 'log', 't', 'checkpoints', 'dev', 'records')
        found = [name for name in os.listdir(self.folder) if not name.startswith(expected)]
        found += [f'checkpoints/{name}' for name in os.listdir(os.path.join(self.folder, 'checkpoints')) if is_broken(self.folder, name)
                  ] if os.path.isdir(os.path.join(self.folder, 'checkpoints')) else []
        found += [f't/{name}' for name in os.listdir(os.path.join(self.folder, 't')) if not is_of_mpi(name)]
        if self.cell['sandbox']:
            found += [f'/dev/shm/{name}' for name in sorted(shared_files() - self.shared_before) if not is_of_mpi(name) and name != 'filler']
        return [f'file {name}' for name in found]

    def collect(self):
        ranks = {}
        for file in glob.glob(os.path.join(self.folder, 'rank.*')):
            with open(file, encoding='utf-8') as lines:
                ranks[int(file.rsplit('.', 1)[1])] = [json.loads(line) for line in lines if line.endswith('}\n')]
        codes = {}
        for file in glob.glob(os.path.join(self.folder, 'code.*')):
            with open(file, encoding='ascii') as words:
                codes[int(file.rsplit('.', 1)[1])] = int(words.read() or -1)
        self.result['left'] += self.files_left()
        with open(os.path.join(self.folder, 'log'), encoding='utf-8', errors='replace') as text:
            self.result.update(ranks=ranks, codes=codes, event=self.event and self.event[0], log=text.read()[-6000:])
        return self.result


class HostsJob(Job):
    """The same on simulated hosts."""

    def __init__(self, cell, folder, these):
        super().__init__(cell, folder)
        self.these = these
        for host in range(1, these.count + 1):
            size = SHARED_MEMORY_BYTES.get(cell['event'], '64m') if cell['moment'] == 'creation' else '64m'
            self.inside(host, '--mount', 'mount', '-o', f'remount,size={size}', '/dev/shm')
            if cell['event'] == 'shm-absent':
                self.inside(host, '--mount', 'sh', '-c', NO_SHARED_MEMORY, 'sh', os.path.join(folder, f'dev{host}'))

    def inside(self, host, *words):
        with open(os.path.join(self.these.folder, f'h{host}.pid'), encoding='ascii') as file:
            namespaces = [word for word in words if word.startswith('--')]
            return hosts.run('nsenter', '--target', file.read().strip(), *namespaces, *words[len(namespaces):])

    def start(self):
        os.environ.update(self.environment())
        os.environ.pop('OMPI_MCA_btl', None)
        os.chdir(self.folder)
        self.process = self.these.start(self.cell['ranks'], self.arguments(), stdout=self.log, stderr=self.log)

    def act(self):
        super().act()
        event = self.cell['event']
        if not self.event or event not in ('cut', 'heal', 'slow') or self.acted:
            return
        host = len(self.cell['ranks'])
        if event == 'slow':
            self.inside(host, '--net', 'tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'tbf', 'rate', '1mbit', 'burst', '32kb', 'latency', '400ms')
        else:
            self.these.cut(host)
        if event == 'heal':
            time.sleep(CUT_SECONDS)
            self.these.heal(host)
        self.acted = True
        with open(os.path.join(self.folder, 'acted'), 'w', encoding='ascii'):
            pass


def is_of_mpi(name):
    """What Open MPI and MPICH leave if a rank is killed."""
    return name.startswith(('ompi.', 'openmpi-', 'vader_segment', 'sm_segment', 'pmix', 'prte', 'mpich', 'psm', '.'))


def is_broken(folder, name):
    """A folder that looks like a checkpoint but is incomplete; folders of interrupted saves have other names."""
    step = os.path.join(folder, 'checkpoints', name)
    return name.startswith('step-') and not all(os.path.exists(os.path.join(step, file)) for file in ('manifest.json', 'state.safetensors'))


def command_line(process):
    try:
        with open(f'/proc/{process}/cmdline', encoding='utf-8', errors='replace') as file:
            return file.read().replace('\0', ' ')[:200]
    except OSError:
        return str(process)


def stacks_of(processes):
    """For looking at a hang by hand."""
    words = [subprocess.run(['gdb', '-p', str(process), '-batch', '-ex', 'thread apply all bt 12'], capture_output=True, text=True,
                            timeout=60, check=False).stdout[-6000:] for process in processes]
    return words


def shared_files():
    return set(os.listdir('/dev/shm')) if os.path.isdir('/dev/shm') else set()


def prepare_shared_memory(cell, folder):
    """Only inside namespaces of our own."""
    size = SHARED_MEMORY_BYTES.get(cell['event'], '64m') if cell['moment'] == 'creation' else '64m'
    hosts.run('mount', '-t', 'tmpfs', '-o', f'size={size}', 'none', '/dev/shm')
    if cell['event'] == 'shm-absent':
        hosts.run('sh', '-c', NO_SHARED_MEMORY, 'sh', os.path.join(folder, 'dev'))


def prepare_disk(folder):
    checkpoints = os.path.join(folder, 'checkpoints')
    os.mkdir(checkpoints)
    hosts.run('mount', '-t', 'tmpfs', '-o', f'size={SMALL_BYTES}', 'none', checkpoints)


def run_in(cell, folder):
    os.mkdir(os.path.join(folder, 't'))
    if len(cell['ranks']) > 1:
        with hosts.Hosts(len(cell['ranks']), mpirun=cell['mpiexec'][0]) as these:
            job = HostsJob(cell, folder, these)
            job.start()
            job.watch()
            job.end()
            return job.collect()
    if cell['sandbox']:
        prepare_shared_memory(cell, folder)
        if cell['event'] == 'disk-full':
            prepare_disk(folder)
    job = Job(cell, folder)
    job.start()
    job.watch()
    job.end()
    return job.collect()


def main():
    cell = json.loads(sys.argv[1])
    if len(cell['ranks']) > 1:
        hosts.enter()
    folder = cell['folder']
    try:
        result = run_in(cell, folder)
    finally:
        os.chdir('/')
        for mounted in [*glob.glob(os.path.join(folder, 'dev*')), os.path.join(folder, 'checkpoints')]:
            subprocess.run(['umount', '--recursive', '--lazy', mounted], capture_output=True, check=False)
    print(json.dumps(result))


if __name__ == '__main__':
    main()
