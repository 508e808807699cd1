# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The drop-in under programs that know nothing of lockstep.

drop_in_test.py LIBRARY PROGRAMS [--malloc LIBRARY] [--fortran PROGRAM] [--calls N] -- MPIEXEC...

LIBRARY is liblockstep_mpi.so, that of --malloc liblockstep_malloc.so, PROGRAMS the folder of random-calls and scenarios.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import Checks  # noqa: E402


SHORT = ('forgotten', 'stopped')


class Result:
    def __init__(self, code, output, seconds):
        self.code, self.output, self.seconds = code, output, seconds


class Job:
    def __init__(self, library, launcher):
        self.library, self.launcher = library, launcher

    def run(self, ranks, words, mode='on', timeout='20,60', limit=200, only_rank=None, beside=''):
        """Starts the program with the drop-in and the libraries `beside`; with `only_rank`, on that rank alone."""
        env = dict(os.environ, LOCKSTEP_TIMEOUT=timeout, LOCKSTEP_MPI=mode, LOCKSTEP_RECORDER='0')
        preload = f'LD_PRELOAD={self.library}:{beside}'
        program = ['env', preload, *words]
        if only_rank is not None:
            rank = '${OMPI_COMM_WORLD_RANK:-$PMI_RANK}'
            program = ['sh', '-c', f'if [ {rank} = {only_rank} ]; then exec env {preload} "$@"; else exec "$@"; fi', 'sh', *words]
        with tempfile.NamedTemporaryFile() as written:  # by the ranks: a launcher that ends a job may lose what is in its pipes
            into_file = ['sh', '-c', 'file=$1; shift; exec "$@" >>"$file" 2>&1', 'sh', written.name]
            begin = time.monotonic()
            done = subprocess.run([*self.launcher, '-n', str(ranks), *into_file, *program], env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
            seconds = time.monotonic() - begin
            return Result(done.returncode, (written.read() + done.stdout).decode(errors='replace'), seconds)


def taken(output, call):
    found = re.search(rf'taken over: [^(]*?(\d+) {call}\b', output)
    return int(found.group(1)) if found else 0


def check_random_calls(checks, job, program, calls):
    for ranks in (2, 3, 4):
        result = job.run(ranks, [program, str(calls), str(ranks)], limit=1500)
        checks.check(f'{calls} random calls on {ranks} ranks: equal to those of MPI, or in canonical order',
                     result.code == 0 and f'{calls} calls, 0 wrong' in result.output, result.output)
        checks.check(f'calls of every kind were taken over on {ranks} ranks',
                     all(taken(result.output, f'MPI_{name}') > 0 for name in
                         ('Allreduce', 'Reduce', 'Reduce_scatter', 'Reduce_scatter_block', 'Bcast', 'Allgather', 'Allgatherv',
                          'Gather', 'Gatherv', 'Scatter', 'Scatterv', 'Alltoall', 'Alltoallv')), result.output)
    result = job.run(3, [program, '400', '1'], mode='off', limit=300)
    checks.check('without the drop-in, the same test finds sums in other orders', result.code != 0 and ' wrong' in result.output,
                 result.output)


def check_right_programs(checks, job, program):
    for name, ranks in (('errors-return', 2), ('communicators', 3), ('kept-by-mpi', 3), ('pending-send', 2), ('threads', 2),
                        ('late', 2), ('read-only-scatter', 4), ('fortran-type', 2), ('bad-arguments', 3), ('no-memory', 3)):
        result = job.run(ranks, [program, name], timeout='5,15' if name == 'late' else '20,60')
        checks.check(f'{name}: right, to its end', result.code == 0 and 'done' in result.output and 'taken over' in result.output,
                     result.output)


def check_ranks_apart(checks, job, program):
    """More than 16 ranks on a node: a rank that stops in a call keeps few others from completing it."""
    # 18 ranks that poll share few processors: only a hang takes so long
    result = job.run(18, [program, 'left-apart'], timeout='5,20', limit=900)
    errors = re.findall(r'a failure has left the ranks at different operations: [^;]*; ([^;]*)', result.output)
    checks.check('a rank stopped in a call: later calls are errors, and a new communicator works',
                 result.code == 0 and 'done' in result.output, result.output)
    checks.check('the errors say what a program of MPI can do', all('call MPI_Comm_dup on every rank' in error for error in errors)
                 and (errors or re.search(r'\b(0|18) of 18 ranks completed', result.output)) and 'recover' not in result.output, result.output)


def check_memory(checks, job, library, random_calls, scenarios):
    """Programs whose large blocks are in the arena."""
    result = job.run(2, [scenarios, 'arena'], beside=library)
    checks.check('blocks of the arena: malloc, calloc, realloc, aligned, in threads and in a child process',
                 result.code == 0 and 'done' in result.output, result.output)
    result = job.run(2, [scenarios, 'arena'])
    checks.check('without the library, blocks are not in the arena',
                 result.code != 0 and 'not true: a large block of malloc is in the arena' in result.output, result.output)
    result = job.run(2, [scenarios, 'freed-twice'], beside=library)
    checks.check('a block that is freed twice is an error', result.code != 0 and 'a pointer was freed twice' in result.output, result.output)
    result = job.run(3, [random_calls, '500', '7'], limit=300, beside=library)
    checks.check('random calls of a program whose large blocks are in the arena',
                 result.code == 0 and '500 calls, 0 wrong' in result.output, result.output)
    result = job.run(2, [scenarios, 'kept-by-mpi'], mode='off', beside=library)
    checks.check('off: the library does nothing', result.code == 0 and 'lockstep' not in result.output, result.output)


def check_wrong_programs(checks, job, program):
    """Each ends, and an error names what is wrong. Only a timeout ends those of SHORT."""
    cases = {
        'counts-differ': ['MPI_Allreduce', r'f64 \[8\]', r'f64 \[4\]'],
        'calls-differ': ['MPI_Bcast', 'MPI_Allreduce', 'rank 0', 'rank 1'],
        'roots-differ': ['MPI_Reduce to rank 0', 'MPI_Reduce to rank 1'],
        'forgotten': ['MPI_Barrier', 'deadline_exceeded', 'rank 2'],
        'stopped': ['MPI_Allreduce', 'rank 1'],
        'killed': ['rank 1|EXIT CODE: 9|KILLED BY SIGNAL: 9'],  # Hydra ends the job before the other ranks notice
    }
    for name, texts in cases.items():
        result = job.run(3, [program, name], timeout='5,15' if name in SHORT else '100,150')
        checks.check(f'{name}: ends in time, with a text that names the rank and the call',
                     result.code != 0 and 'done' not in result.output and result.seconds < 100 and
                     all(re.search(text, result.output) for text in texts), f'{result.seconds:.1f} s\n{result.output}')
        if name in SHORT:
            checks.check(f'{name}: the exit code is that of a lost rank', result.code == 69, f'{result.code}\n{result.output}')


def check_modes(checks, job, program):
    result = job.run(2, [program, 'kept-by-mpi'], mode='report')
    checks.check('report: takes over nothing, and prints calls and times',
                 result.code == 0 and 'taken over' not in result.output and re.search(r'MPI_Allreduce +up to 7 B', result.output)
                 and 'most that LOCKSTEP_MPI=on can gain' in result.output, result.output)
    result = job.run(2, [program, 'kept-by-mpi'], mode='off')
    checks.check('off: nothing is printed', result.code == 0 and 'lockstep' not in result.output, result.output)
    result = job.run(2, [program, 'kept-by-mpi'], mode='maybe')
    checks.check('a malformed mode is an error', result.code != 0 and 'expected off, report or on' in result.output, result.output)
    result = job.run(2, [program, 'kept-by-mpi'], timeout='never')
    checks.check('a malformed LOCKSTEP_TIMEOUT is an error that names the variable',
                 result.code != 0 and 'LOCKSTEP_TIMEOUT' in result.output, result.output)
    result = job.run(1, [program, 'kept-by-mpi'])
    checks.check('one rank: MPI serves everything', result.code == 0 and 'lockstep' not in result.output, result.output)


def check_cost_of_preloading(checks, library):
    """A process without MPI loads only the library itself, which takes a fraction of a millisecond; what serves MPI is large."""
    def files_of(env):
        maps = subprocess.run(['cat', '/proc/self/maps'], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
        return {line.split(maxsplit=5)[5] for line in maps.splitlines() if '.so' in line}
    more = files_of(dict(os.environ, LD_PRELOAD=library)) - files_of(dict(os.environ))
    checks.check('a process without MPI loads no other library', more == {os.path.realpath(library)}, more)
    checks.check('the library that it loads is small', os.path.getsize(library) < 256 << 10, os.path.getsize(library))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('library')
    parser.add_argument('programs')
    parser.add_argument('--fortran')
    parser.add_argument('--malloc')
    parser.add_argument('--calls', type=int, default=1500)
    arguments, launcher = sys.argv[1:], []
    if '--' in arguments:
        launcher = arguments[arguments.index('--') + 1:]
        arguments = arguments[:arguments.index('--')]
    options = parser.parse_args(arguments)
    library = os.path.abspath(options.library)
    job, checks = Job(library, launcher), Checks()
    random_calls, scenarios = (os.path.join(options.programs, name) for name in ('random-calls', 'scenarios'))
    check_random_calls(checks, job, random_calls, options.calls)
    check_right_programs(checks, job, scenarios)
    check_ranks_apart(checks, job, scenarios)
    if options.malloc:
        check_memory(checks, job, os.path.abspath(options.malloc), random_calls, scenarios)
    check_wrong_programs(checks, job, scenarios)
    check_modes(checks, job, scenarios)
    check_cost_of_preloading(checks, library)
    if options.fortran:
        result = job.run(3, [options.fortran])
        checks.check('Fortran: mpif.h, use mpi and use mpi_f08, in place too, are right and taken over',
                     result.code == 0 and re.search(r'T T T', result.output) and taken(result.output, 'MPI_Allreduce') == 5 and
                     taken(result.output, 'MPI_Bcast') == 3, result.output)
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
