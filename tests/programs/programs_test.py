# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The drop-in under programs from elsewhere: CP2K (Fortran), LAMMPS (C++), PETSc and mpi4py, as Debian packages them.

programs_test.py LIBRARY STOP [--measure ROUNDS [--malloc LIBRARY]] -- MPIEXEC...

Each program runs with and without LIBRARY, liblockstep_mpi.so; its results must be equal, or within the tolerance of the
program. Then one of its ranks is stopped before an MPI_Allreduce, by STOP, a library that is preloaded too. With
--measure, only times: rounds in turns, without and with, and with liblockstep_malloc.so, too.
"""

import argparse
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import Skip, expect, run_cases  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = '/usr/bin/python3'  # Debian's, for which its modules are
RANKS = 2


class Program:
    """`pattern` finds what the program computes in its output; `stop_call`: the MPI_Allreduce before which a rank stops."""

    def __init__(self, name, words, needs, pattern, calls, stop_call=100, env=None, seconds=None):
        self.name, self.words, self.needs, self.pattern = name, words, needs, re.compile(pattern, re.M)
        self.calls, self.stop_call, self.env, self.seconds = calls, stop_call, env or {}, seconds

    def is_installed(self):
        return shutil.which(self.words[0]) is not None and (self.needs is None or bool(glob.glob(self.needs)))

    def results(self, output):
        return [found.group(0) for found in self.pattern.finditer(output)]


PETSC = '/usr/lib/petscdir/petsc*/*-real'
PROGRAMS = [
    Program('cp2k', ['cp2k', f'{HERE}/water.inp'], None, r'ENERGY\| Total.*', ['MPI_Allreduce', 'MPI_Bcast', 'MPI_Alltoallv'],
            stop_call=2000, env={'OMP_NUM_THREADS': '1'}),
    Program('lammps', ['lmp', '-in', f'{HERE}/liquid.lmp', '-log', 'none'], None, r'^ +\d+ +[-0-9.]+ +[-0-9.]+ .*', ['MPI_Allreduce'],
            stop_call=2000, env={'OMP_NUM_THREADS': '1'}, seconds=r'Loop time of ([0-9.]+)'),
    Program('petsc', [PYTHON, f'{HERE}/poisson.py'], PETSC, r'\d+ iterations, norm .*', ['MPI_Allreduce'], stop_call=500,
            env={'PETSC_DIR': (glob.glob(PETSC) or [''])[0], 'OMP_NUM_THREADS': '1'}),
    Program('mpi4py', [PYTHON, f'{HERE}/arrays.py'], '/usr/lib/python3/dist-packages/mpi4py', r'^\d+ ', ['MPI_Allreduce', 'MPI_Allgather'],
            stop_call=50),
]


class Runs:
    def __init__(self, library, stop, launcher):
        self.library, self.stop, self.launcher = library, stop, launcher

    def run(self, program, preload, limit=300, **more):
        env = dict(os.environ, LOCKSTEP_RECORDER='0', **program.env, **more)
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*self.launcher, '-n', str(RANKS), 'env', f'LD_PRELOAD={preload}', *program.words], env=env,
                                  cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
        return done.returncode, done.stdout.decode(errors='replace'), time.monotonic() - begin


def cases_of(runs, program):
    def compare():
        if not program.is_installed():
            raise Skip('not installed')
        code, plain, _ = runs.run(program, '')
        expect(code == 0 and program.results(plain), f'it does not run without the drop-in:\n{plain[-3000:]}')
        code, taken, _ = runs.run(program, runs.library, LOCKSTEP_TIMEOUT='20,60')
        expect(code == 0, f'it fails with the drop-in:\n{taken[-3000:]}')
        for call in program.calls:
            expect(re.search(rf'taken over: .*\d+ {call}\b', taken), f'no {call} is taken over:\n{taken[-1000:]}')
        before, after = program.results(plain), program.results(taken)
        expect(len(before) == len(after), f'{len(before)} results without the drop-in, {len(after)} with it')
        differing = sum(a != b for a, b in zip(before, after))
        print(f'# {program.name}: {len(before)} results, {differing} of them differ in their text')
        for a, b in zip(before, after):
            for x, y in zip(re.findall(r'-?\d+\.?\d*(?:[eE][-+]?\d+)?', a), re.findall(r'-?\d+\.?\d*(?:[eE][-+]?\d+)?', b)):
                expect(abs(float(x) - float(y)) <= 1e-9 * max(1, abs(float(x))), f'without: {a}\nwith: {b}')

    def stop():
        if not program.is_installed():
            raise Skip('not installed')
        code, output, seconds = runs.run(program, f'{runs.stop} {runs.library}', limit=120, LOCKSTEP_TIMEOUT='2,5', STOP_RANK='1',
                                         STOP_CALL=str(program.stop_call))
        expect(code != 0 and re.search(r'lockstep: rank 0: MPI_\w+: deadline_exceeded.*waiting for rank 1', output),
               f'exit code {code}, {seconds:.0f} s\n{output[-3000:]}')
        print(f'# {program.name}: ended after {seconds:.0f} s')
    return [(f'{program.name}: the results of MPI, to 9 digits', compare),
            (f'{program.name}: rank 1 stops before an MPI_Allreduce: the job ends, and names it', stop)]


def measure(runs, rounds, malloc):
    preloads = {'MPI': '', 'with the drop-in': runs.library}
    if malloc:
        preloads['and shared memory'] = f'{runs.library}:{os.path.abspath(malloc)}'
    for program in PROGRAMS:
        if not program.is_installed():
            print(f'{program.name}: not installed')
            continue
        times = {}  # seconds of the program, or microseconds of an Allreduce, by what was measured and by library
        for _ in range(rounds):
            for library, preload in preloads.items():
                _, output, seconds = runs.run(program, preload)
                found = re.search(program.seconds, output) if program.seconds else None
                taken = [('s', float(found.group(1)) if found else seconds)]
                if program.name == 'mpi4py':
                    taken += [(f'us, Allreduce of {size} B', float(value)) for size, value in re.findall(r'^(\d+) ([0-9.]+)$', output, re.M)]
                for what, value in taken:
                    times.setdefault(what, {}).setdefault(library, []).append(value)
        for what, by_library in times.items():
            medians = {library: statistics.median(values) for library, values in by_library.items()}
            print(f'{program.name}, {what}:', ', '.join(f'{library} {median:.4g} ({median / medians["MPI"]:.2f})'
                                                       for library, median in medians.items()), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('library')
    parser.add_argument('stop')
    parser.add_argument('--measure', type=int, metavar='ROUNDS')
    parser.add_argument('--malloc')
    own = sys.argv[1:sys.argv.index('--')] if '--' in sys.argv else sys.argv[1:]
    launcher = sys.argv[sys.argv.index('--') + 1:] if '--' in sys.argv else ['mpirun']
    options = parser.parse_args(own)
    runs = Runs(os.path.abspath(options.library), os.path.abspath(options.stop), launcher)
    if options.measure:
        measure(runs, options.measure, options.malloc)
        return 0
    return run_cases([case for program in PROGRAMS for case in cases_of(runs, program)])


if __name__ == '__main__':
    sys.exit(main())
