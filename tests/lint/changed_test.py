#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Changes one file after the other of a small made-up build: changed.py must choose the tests that it affects. Prints TAP."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import changed  # noqa: E402
from changed import Build, Test, choose  # noqa: E402
from tap import Checks  # noqa: E402

# The library has three objects: low, high (which needs low), and other. unit-low and unit-high are linked with the archive of objects, the
# program with the shared library. Objects of tests wait for a file that is made after the precompiled header.
NINJA = '''
build all: phony tests/unit-low | tests/unit-high
build lib/low.o: cpp_COMPILER lib/low-unity0.cpp
 ARGS = -O1
build lib/high.o: cpp_COMPILER ../lib/high.cpp || lib/generated.hpp
build lib/other.o: cpp_COMPILER ../lib/other.cpp
build lib/liblockstep-internal.a: STATIC_LINKER lib/low.o lib/high.o lib/other.o
build lib/liblockstep.so.0.1.0: cpp_LINKER $
    lib/low.o lib/high.o lib/other.o | /usr/lib/libfmt.so
build lib/liblockstep.so.0.1.0.p/liblockstep.so.0.1.0.symbols: SHSYM lib/liblockstep.so.0.1.0
build tests/pch.o: cpp_COMPILER ../tests/pch.cpp
build tests/mark.hpp: CUSTOM_COMMAND tests/pch.o
build tests/low_test.o: cpp_COMPILER ../tests/unit/low/low_test.cpp | tests/mark.hpp
build tests/high_test.o: cpp_COMPILER ../tests/unit/high/high_test.cpp
build tests/unit-low | tests/unit-low.map: cpp_LINKER tests/low_test.o | lib/liblockstep-internal.a
build tests/unit-high: cpp_LINKER tests/high_test.o | lib/liblockstep-internal.a
build apps/main.o: cpp_COMPILER ../apps/program/main.cpp
build apps/program: cpp_LINKER apps/main.o | lib/liblockstep.so.0.1.0.p/liblockstep.so.0.1.0.symbols
build tests/slow.o: cpp_COMPILER ../tests/unit/slow/slow_test.cpp
build tests/unit-slow: cpp_LINKER tests/slow.o | lib/liblockstep-internal.a
'''

DEPS = '''lib/low.o: #deps 2, deps mtime 1 (VALID)
    ../lib/low.cpp
    ../include/lockstep/low.hpp

lib/high.o: #deps 1, deps mtime 1 (VALID)
    ../lib/high.cpp
    ../lib/high.hpp
    ../include/lockstep/low.hpp

lib/other.o: #deps 1, deps mtime 1 (VALID)
    ../lib/other.cpp

tests/pch.o: #deps 1, deps mtime 1 (VALID)
    ../include/lockstep/low.hpp
    ../include/lockstep/high.hpp

tests/low_test.o: #deps 1, deps mtime 1 (VALID)
    ../tests/unit/low/low_test.cpp

tests/high_test.o: #deps 1, deps mtime 1 (VALID)
    ../tests/unit/high/high_test.cpp
    ../lib/high.hpp

apps/main.o: #deps 1, deps mtime 1 (VALID)
    ../apps/program/main.cpp

tests/slow.o: #deps 1, deps mtime 1 (VALID)
    ../tests/unit/slow/slow_test.cpp
'''

SYMBOLS = {
    'build/lib/low.o': ({'low'}, set()),
    'build/lib/high.o': ({'high'}, {'low', 'printf'}),
    'build/lib/other.o': ({'other'}, set()),
}
NEEDS = {
    'build/tests/low_test.o': {'low'},
    'build/tests/high_test.o': {'high'},
    'build/apps/main.o': {'other'},
    'build/tests/slow.o': {'other'},
}
TESTS = [
    Test('low', ('unit',), ('build/tests/unit-low',), ('build/tests/unit-low',)),
    Test('high', ('unit',), ('build/tests/unit-high',), ('build/tests/unit-high',)),
    Test('slow', ('unit', 'slow'), ('build/tests/unit-slow',), ('build/tests/unit-slow',)),
    Test('program', ('apps',), ('tests/apps/program_test.py', 'build/apps/program', 'apps/jobs'), ('build/apps/program',)),
    Test('words', ('lint',), ('tests/lint/words.py', '.'), ()),
    Test('shellcheck', ('lint',), ('apps/demo.sh', 'tests/run.sh'), ()),
    Test('compile-fail', ('lint',), ('tests/compile_fail/compile_fail.py', '.', 'build'), ()),
    Test('headers', ('lint', 'slow'), ('tests/lint/headers.py', '.', 'build'), ()),
    Test('consumers', ('consumers',), ('tests/consumers/consumers.py', '.', 'build'), ()),
]
SCRIPTS = {'program': {'tests/apps/program_test.py', 'tests/tap.py'}}
LINTS = {'words', 'shellcheck'}

# what has changed, files, tests other than lints, and what runs the whole plain lane or is a lane that is left out
CASES = [
    ('a source of the library affects the programs that need its object', {'lib/other.cpp'}, {'program', 'slow'}, set()),
    ('and those that need it through another object', {'lib/low.cpp'}, {'low', 'high'}, set()),
    ('but not those that need only what is below', {'lib/high.cpp'}, {'high'}, set()),
    ('a private header affects the objects that include it', {'lib/high.hpp'}, {'high'}, set()),
    ('a header in the precompiled header affects every test that uses that', {'include/lockstep/high.hpp'},
     {'low', 'compile-fail', 'consumers'}, set()),
    ('a source of a test affects this test', {'tests/unit/high/high_test.cpp'}, {'high'}, set()),
    ('a source of a program affects its test', {'apps/program/main.cpp'}, {'program'}, set()),
    ('a script affects the tests that run it', {'tests/apps/program_test.py'}, {'program'}, set()),
    ('and those whose scripts import it', {'tests/tap.py'}, {'program'}, set()),
    ('a file in a folder that a test names affects this test', {'apps/jobs/slurm.sh'}, {'program'}, set()),
    ('data beside a program of a test', {'tests/unit/high/cases.json'}, set(), {'tests/unit/high/cases.json'}),
    ('a page affects lints', {'docs/train.md', 'lib/README.md', 'README.md'}, set(), set()),
    ('a shell script without a test affects lints', {'apps/demo.sh'}, set(), set()),
    ('what drives the lanes needs the plain lane', {'tests/run.sh'}, set(), {'tests/run.sh'}),
    ('files of Meson need the plain lane', {'meson.build'}, set(), {'meson.build'}),
    ('an unknown file needs the plain lane', {'lib/secret.xyz'}, set(), {'lib/secret.xyz'}),
    ('code for CUDA is for another lane', {'lib/device/cuda/sum.cu'}, set(), {'cuda'}),
    ('the backend in Python is for another lane', {'python/lockstep_torch/group.cpp'}, set(), {'torch'}),
    ('misuse that must not compile', {'tests/compile_fail/a.cpp'}, {'compile-fail'}, set()),
    ('a new header without readers', {'lib/new.hpp'}, set(), set()),
]


def made_up_build():
    def placed(path):
        return os.path.normpath(os.path.join('build', path))

    inputs = {placed(output): [placed(name) for name in names] for output, names in changed.statements(NINJA).items()}
    inputs['build/lib/low.o'].append('lib/low.cpp')
    deps = {placed(name): {placed(path) for path in files} for name, files in changed.recorded(DEPS).items()}
    return Build(inputs, deps, SYMBOLS, lambda path: NEEDS.get(path, set()),
                 lambda path: path.startswith('build/lib/liblockstep'))


def history(checks):
    """The commit since which CI checks files, in a repository with commits of given days."""
    with tempfile.TemporaryDirectory() as folder:
        def commit(day, path=None):
            when = f'{1700000000 + day * 24 * 3600} +0000'
            names = {f'GIT_{who}_{what}': 'x' for who in ('AUTHOR', 'COMMITTER') for what in ('NAME', 'EMAIL')}
            env = {**os.environ, **names, 'GIT_AUTHOR_DATE': when, 'GIT_COMMITTER_DATE': when}
            if path:
                os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(folder, path), 'w', encoding='utf-8') as file:
                    file.write(str(day))
                changed.git(folder, 'add', path)
            subprocess.run(['git', '-C', folder, 'commit', '--quiet', '--allow-empty', '--message', str(day)], check=True, env=env)
            return changed.git(folder, 'rev-parse', 'HEAD').strip()

        subprocess.run(['git', 'init', '--quiet', folder], check=True)
        commit(0)
        checks.check('of one commit, CI checks all files', changed.recent_base(folder) is None)
        checks.check('and runs all lanes', changed.is_needed(folder, 'kernels'))
        second = commit(0)
        third = commit(1)
        commit(1.5)
        checks.check('without a commit of two days ago it checks what differs from the parent', changed.recent_base(folder) == third,
                     changed.recent_base(folder))
        commit(2.5)
        checks.check('it checks what differs from the newest commit that is two days older', changed.recent_base(folder) == second,
                     changed.recent_base(folder))
        commit(3, 'lib/strategy/scope.cpp')
        checks.check('it leaves out a lane for other files', not changed.is_needed(folder, 'kernels'))
        commit(3.5, 'lib/kernels/sum.cpp')
        checks.check('it runs a lane for its files', changed.is_needed(folder, 'kernels'))
        commit(5.6)
        checks.check('until two days later', not changed.is_needed(folder, 'kernels'))


def main():
    checks = Checks()
    for what, files, expected, rest in CASES:
        new = files if 'new' in what else set()
        choice = choose(made_up_build(), TESTS, files, new, lambda test: SCRIPTS.get(test.name, set()))
        found = {test.name for test in choice.tests}
        checks.check(what, found == expected | LINTS and set(choice.plain) | {lane.split(',')[0] for lane in choice.lanes} == rest,
                     f'{found - LINTS}, plain lane: {choice.plain}, other lanes: {choice.lanes}')
    build = made_up_build()
    del build.deps['build/tests/low_test.o']
    found = {test.name for test in choose(build, TESTS, {'lib/other.cpp'}, set(), lambda test: set()).tests}
    checks.check('an object that has not been compiled may depend on anything', found == {'low', 'program', 'slow'} | LINTS, found)
    lines = list(changed.report(choose(made_up_build(), TESTS, {'lib/other.cpp'}, set(), lambda test: set()), TESTS, {'lib/other.cpp'}))
    checks.check('the report names tests of other lanes', any('lane slow: slow' in line for line in lines), lines)
    sources = changed.tidy_sources(made_up_build(), {'lib/low.cpp', 'lib/high.hpp', 'include/lockstep/low.hpp', 'testing/run.cpp', 'tests/a.cpp'})
    checks.check('clang-tidy checks sources, and the source of a header', sources == {'lib/low.cpp', 'lib/high.cpp', 'testing/run.cpp'}, sources)
    history(checks)
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
