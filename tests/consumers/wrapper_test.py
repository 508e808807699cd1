#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Tests how the MPI library is found by its compiler wrapper, with wrappers that only answer questions. Prints TAP.

  wrapper_test.py SOURCE PKG_CONFIG_MODULE
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
import tap  # noqa: E402

source, module = sys.argv[1:]
FLAGS = os.path.join(source, 'lib/bindings/mpi/wrapper_flags.py')


def wrapper(folder, answers):
    """A program that prints answers[option], and refuses other options."""
    path = os.path.join(folder, 'mpicxx')
    cases = '\n'.join(f"{option}) cat <<'E'\n{answer}\nE\n;;" for option, answer in answers.items())
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'#!/bin/sh\ncase "$1" in\n{cases}\n*) echo "unrecognized option $1" >&2; exit 1 ;;\nesac\n')
    os.chmod(path, 0o755)
    return path


def expect_flags(answers, compile_flags, link_flags):
    with tempfile.TemporaryDirectory() as folder:
        path = wrapper(folder, answers)
        for kind, expected in (('compile', compile_flags), ('link', link_flags)):
            done = subprocess.run([sys.executable, FLAGS, kind, path], capture_output=True, text=True, timeout=30)
            tap.expect(done.stdout.split('\n')[:-1] == expected, f'{kind}: {done.stdout}\n{done.stderr}')


def open_mpi():
    expect_flags({'--showme:compile': '-I/m/include -pthread', '--showme:link': '-pthread -L/m/lib -Wl,-rpath -Wl,/m/lib -lmpi'},
                 ['-I/m/include', '-pthread'], ['-pthread', '-L/m/lib', '-Wl,-rpath', '-Wl,/m/lib', '-lmpi'])


def mpich():
    expect_flags({'-show': 'g++ -O2 -I "/m n/include" -L"/m n/lib" -Xlinker -rpath -Xlinker "/m n/lib" -lmpi'},
                 ['-I/m n/include'], ['-L/m n/lib', '-Wl,-rpath', '-Wl,/m n/lib', '-lmpi'])


def cray():
    expect_flags({'--cray-print-opts=cflags': '-I/m/include', '--cray-print-opts=libs': '-L/m/lib -lmpi_cray'},
                 ['-I/m/include'], ['-L/m/lib', '-lmpi_cray'])


def no_answer():
    with tempfile.TemporaryDirectory() as folder:
        path = wrapper(folder, {})
        done = subprocess.run([sys.executable, FLAGS, 'link', path], capture_output=True, text=True, timeout=30)
    tap.expect(done.returncode == 1 and f'{path} answers none of --showme:link, -show' in done.stderr, done.stderr)


def configure(folder, *options, **variables):
    done = subprocess.run(['meson', 'setup', os.path.join(folder, 'build'), source, '-Dcuda=disabled', '-Dapps=disabled', '-Dbench=disabled', *options],
                          cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, env={**os.environ, **variables})
    return done.returncode, done.stdout + done.stderr


def a_build_is_set_up():
    def flags(option):
        return subprocess.run(['pkg-config', option, module], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        path = wrapper(folder, {'-show': f'c++ {flags("--cflags")} {flags("--libs")} -Wl,-rpath -Wl,{folder}'})
        code, text = configure(folder, MPICXX=path)
        tap.expect(code == 0 and f' by {path}\n' in text, text[-3000:])
        with open(os.path.join(folder, 'build/meson-private/lockstep.pc'), encoding='utf-8') as file:
            pc = file.read()
        tap.expect(f'-Wl,{folder}' in pc and 'Requires:' not in pc, pc)
        with open(os.path.join(folder, 'build/lib/cmake/lockstepConfig.cmake'), encoding='utf-8') as file:
            tap.expect(f'NAMES "{path}"' in file.read(), 'lockstepConfig.cmake does not name the wrapper')


def a_missing_wrapper_is_named():
    with tempfile.TemporaryDirectory() as folder:
        code, text = configure(folder, '-Dmpi_wrapper=/nowhere/mpicxx')
    tap.expect(code != 0 and 'mpi_wrapper: /nowhere/mpicxx is not found' in text, text[-3000:])


def a_wrapper_that_contradicts():
    with tempfile.TemporaryDirectory() as folder:
        code, text = configure(folder, '-Dmpi_wrapper=mpicxx', '-Dmpi=mpich')
    tap.expect(code != 0 and 'mpi_wrapper: mpicxx is given, but -Dmpi=mpich' in text, text[-3000:])


def flags_that_do_not_work():
    with tempfile.TemporaryDirectory() as folder:
        path = wrapper(folder, {'-show': 'c++ -I/nowhere -lmpi-of-nowhere'})
        code, text = configure(folder, f'-Dmpi_wrapper={path}')
    tap.expect(code != 0 and 'cannot be compiled and linked' in text and path in text, text[-3000:])


sys.exit(tap.run_cases([('the answers of Open MPI', open_mpi), ('the answer of MPICH and Intel MPI, with spaces', mpich), ('the answers of Cray', cray),
                        ('a wrapper that does not answer is named', no_answer), ('a build is set up by MPICXX', a_build_is_set_up),
                        ('a missing wrapper is named', a_missing_wrapper_is_named),
                        ('a wrapper beside -Dmpi=mpich is refused', a_wrapper_that_contradicts),
                        ('flags that do not work are refused', flags_that_do_not_work)]))
