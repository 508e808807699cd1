# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The tests of collectives of MPICH's own suite, with and without the drop-in: both must give the same verdicts.

mpich_suite.py LIBRARY SOURCES FOLDER [MPICC] [-- MPIEXEC...]

LIBRARY is liblockstep_mpi.so, SOURCES an unpacked source of MPICH (4.0.2 of Debian 12 was tried), FOLDER one for what is
compiled. Not part of a lane, since it needs that source. Takes about ten minutes.
"""

import glob
import os
import subprocess
import sys

CONFIGURATION = '''
#define HAVE_STDARG_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_STRING_H 1
#define HAVE_STDLIB_H 1
#define HAVE_STDINT_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_UNISTD_H 1
#define HAVE_GETRUSAGE 1
#define HAVE_MPI_WIN_CREATE 1
#define HAVE_LONG_LONG 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_FLOAT__COMPLEX 1
#define HAVE_DOUBLE__COMPLEX 1
#define HAVE__BOOL 1
#define STDCALL
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_NONE
#define THREAD_PACKAGE_NONE 0
'''


def tests_of(suite):
    """(name, ranks, arguments) of each test that is listed for all configurations."""
    for line in open(os.path.join(suite, 'coll', 'testlist.in')):
        words = line.split('#')[0].split()
        if len(words) < 2 or words[0].startswith('@'):
            continue
        arguments = [word[4:] for word in words[2:] if word.startswith('arg=')]
        if os.path.exists(os.path.join(suite, 'coll', words[0] + '.c')):
            yield words[0], int(words[1]), arguments


def compile_all(suite, folder, compiler):
    """Compiles what can be compiled; returns the names."""
    os.makedirs(os.path.join(folder, 'include'), exist_ok=True)  # dtpools includes ../dtpoolsconf.h
    with open(os.path.join(folder, 'mpitestconf.h'), 'w') as file:
        file.write(CONFIGURATION)
    with open(os.path.join(folder, 'dtpoolsconf.h'), 'w') as file:
        file.write(CONFIGURATION)
    # the first two let Open MPI declare what MPI-3 has removed
    common = [compiler, '-DOMPI_OMIT_MPI1_COMPAT_DECLS=0', '-DOMPI_REMOVED_USE_STATIC_ASSERT=0', '-O1', '-w', f'-I{folder}', f'-I{folder}/include', f'-I{suite}/include', f'-I{suite}/dtpools/include', f'-I{suite}/dtpools/src']
    objects = []
    for source in (*(f'{suite}/util/{name}.c' for name in ('mtest', 'mtest_common', 'mtest_single', 'dtypes')), *glob.glob(f'{suite}/dtpools/src/*.c')):
        objects.append(os.path.join(folder, os.path.basename(source)[:-2] + '.o'))
        subprocess.run([*common, '-c', source, '-o', objects[-1]], check=True)
    compiled = set()
    for name in sorted({test[0] for test in tests_of(suite)}):
        done = subprocess.run([*common, f'{suite}/coll/{name}.c', *objects, '-o', os.path.join(folder, name), '-lm'],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            compiled.add(name)
    return compiled


def verdict(launcher, ranks, words, preload):
    env = dict(os.environ, LOCKSTEP_TIMEOUT='15,30', LOCKSTEP_RECORDER='0')
    try:
        done = subprocess.run([*launcher, '-n', str(ranks), 'env', f'LD_PRELOAD={preload}', *words], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90)
    except subprocess.TimeoutExpired as late:
        return 'hangs', (late.stdout or b'').decode(errors='replace')
    output = done.stdout.decode(errors='replace')
    return ('passes' if done.returncode == 0 and 'No Errors' in output else 'fails'), output


def main():
    own = sys.argv[1:sys.argv.index('--')] if '--' in sys.argv else sys.argv[1:]
    launcher = sys.argv[sys.argv.index('--') + 1:] if '--' in sys.argv else ['mpirun']
    if len(own) not in (3, 4):
        sys.exit(__doc__)
    library, suite, folder = os.path.abspath(own[0]), os.path.join(os.path.abspath(own[1]), 'test/mpi'), os.path.abspath(own[2])
    compiled = compile_all(suite, folder, own[3] if len(own) == 4 else 'mpicc')
    print(f'# {len(compiled)} programs')
    counts = {'passes': 0, 'other': 0, 'differs': 0, 'taken': 0}
    for name, ranks, arguments in tests_of(suite):
        if name not in compiled:
            print(f'# {name} cannot be compiled with this MPI library')
            continue
        words = [os.path.join(folder, name), *arguments]
        plain, _ = verdict(launcher, ranks, words, '')
        taken, output = verdict(launcher, ranks, words, library)
        counts['taken'] += 'taken over: none' not in output and 'taken over' in output
        if plain == taken:
            counts['passes' if plain == 'passes' else 'other'] += 1
            if plain != 'passes':
                print(f'# {name} on {ranks} ranks {plain} both ways')
        elif taken == 'passes':
            counts['other'] += 1
            print(f'# {name} on {ranks} ranks {plain} without the drop-in, and passes with it')
        else:
            counts['differs'] += 1
            print(f'DIFFERS: {name} {" ".join(arguments)} on {ranks} ranks {plain} without the drop-in, and {taken} with it\n{output[-1500:]}')
        sys.stdout.flush()
    print(f'{counts["passes"]} tests pass both ways, {counts["other"]} do not pass without the drop-in, {counts["differs"]} fail with it only; '
          f'calls were taken over in {counts["taken"]}')
    return 1 if counts['differs'] else 0


if __name__ == '__main__':
    sys.exit(main())
