#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Installs a build, moves it to another prefix, and uses it there as strangers would. Prints TAP.

  consumers.py SOURCE BUILD MPIEXEC [OPTION...]
  consumers.py --subproject SOURCE BUILD MPIEXEC [OPTION...]   builds the whole library as a Meson subproject, and no more
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    pass


def run(command, expect=0, **keywords):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **keywords)
    if done.returncode != expect:
        raise Failed(f'{shlex.join(command)}\nexit code {done.returncode}\n{done.stdout[-4000:]}')
    return done.stdout


class Consumers:
    def __init__(self, source, build, mpiexec, scratch):
        self.source, self.build, self.mpiexec, self.scratch = source, build, mpiexec, scratch

    def install(self):
        build, scratch = self.build, self.scratch
        with open(os.path.join(build, 'meson-info', 'intro-buildoptions.json'), encoding='utf-8') as file:
            options = {option['name']: option['value'] for option in json.load(file)}
        stage = os.path.join(scratch, 'stage')
        run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', stage])
        self.prefix = os.path.join(scratch, 'moved here')
        shutil.move(stage + options['prefix'], self.prefix)
        self.libdir = os.path.join(self.prefix, options['libdir'])
        self.includedir = os.path.join(self.prefix, options['includedir'])
        self.bindir = os.path.join(self.prefix, options['bindir'])

    def folder(self, name, *files):
        path = os.path.join(self.scratch, name)
        os.makedirs(path)
        for file in files:
            shutil.copy(os.path.join(HERE, file), path)
        return path

    def start(self, program, expected='2 replicas, sum of ids 1\n'):
        text = run([*self.mpiexec, '-n', '2', program], timeout=60)
        if text.count(expected) != 1:
            raise Failed(f'{program} on 2 ranks printed: {text}')

    def every_public_header_is_installed(self):
        def headers(top):
            return {os.path.relpath(os.path.join(folder, name), top) for folder, _, names in os.walk(top) for name in names
                    if name.endswith('.hpp')}
        source, installed = headers(os.path.join(self.source, 'include')), headers(self.includedir)
        if source != installed:
            raise Failed(f'only in the source: {sorted(source - installed)}; only installed: {sorted(installed - source)}')

    def installed_programs_start(self):
        environment = {name: value for name, value in os.environ.items() if name != 'LD_LIBRARY_PATH'}
        names = sorted(os.listdir(self.bindir)) if os.path.isdir(self.bindir) else []
        if not names:
            raise Failed('no program was installed')
        for name in names:
            run([os.path.join(self.bindir, name), '--help'], env=environment, timeout=60)

    def flags(self):
        environment = {**os.environ, 'PKG_CONFIG_PATH': os.path.join(self.libdir, 'pkgconfig')}
        flags = shlex.split(run(['pkg-config', '--cflags', '--libs', 'lockstep'], env=environment))
        if not any(os.path.realpath(word[2:]) == os.path.realpath(self.includedir) for word in flags):
            raise Failed(f'lockstep.pc names the old prefix (configure with pkgconfig.relocatable=true): {flags}')
        return [*flags, f'-Wl,-rpath,{self.libdir}']

    def pkg_config(self):
        path = self.folder('pkg-config', 'program.cpp')
        run(['c++', '-std=c++20', '-Wall', '-Wextra', '-Werror', 'program.cpp', *self.flags(), '-o', 'consumer'], cwd=path)
        self.start(os.path.join(path, 'consumer'))

    def pkg_config_for_c99(self):
        """The example in C, with the C compiler alone."""
        path = self.folder('c99')
        example = os.path.join(self.source, 'apps', 'examples', 'collectives.c')
        run(['cc', '-std=c99', '-Wall', '-Wextra', '-pedantic', '-Werror', example, *self.flags(), '-o', 'consumer'], cwd=path)
        self.start(os.path.join(path, 'consumer'), '2 ranks, total 3, slowest 10\n')

    def first_program_of_the_readme(self):
        """The program, and the command that the page gives."""
        with open(os.path.join(self.source, 'README.md'), encoding='utf-8') as file:
            page = file.read()
        section = page[page.index('## A first program'):]
        program = section.split('```cpp\n')[1].split('```')[0]
        command, start, output = re.search(r'\$ (g\+\+ [^\n]*)\n\$ mpirun -n 3 (\./hello)\n([^\n]*\n)', section).groups()
        path = self.folder('readme')
        with open(os.path.join(path, 'hello.cpp'), 'w', encoding='utf-8') as file:
            file.write(program)
        environment = {name: value for name, value in os.environ.items() if name != 'LD_LIBRARY_PATH'}
        prefix = os.path.join(path, 'prefix')  # the command is for a prefix without spaces
        os.symlink(self.prefix, prefix)
        packages = os.path.join(prefix, os.path.relpath(self.libdir, self.prefix), 'pkgconfig')
        run(['sh', '-c', command.replace('g++', 'c++', 1)], cwd=path, env={**environment, 'PKG_CONFIG_PATH': packages})
        text = run([*self.mpiexec, '-n', '3', start], cwd=path, env=environment, timeout=60)
        if output not in text:
            raise Failed(f'the first program of README.md printed: {text}')

    def cmake(self):
        path = self.folder('cmake', 'program.cpp', 'cmake/CMakeLists.txt')
        run(['cmake', '-S', '.', '-B', 'build', f'-DCMAKE_PREFIX_PATH={self.prefix}'], cwd=path)
        run(['cmake', '--build', 'build'], cwd=path)
        self.start(os.path.join(path, 'build', 'consumer'))

    def meson_subproject_compiles_a_program(self):
        build = os.path.join(self.set_up_subproject(), 'build')
        with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
            objects = [entry['output'] for entry in json.load(file) if entry['output'].startswith('consumer.p/')]
        run(['ninja', '-C', build, *objects])

    def meson_subproject(self):
        path = self.set_up_subproject()
        run(['ninja', '-C', 'build', '-j', str(os.cpu_count())], cwd=path)
        self.start(os.path.join(path, 'build', 'consumer'))

    def set_up_subproject(self):
        path = self.folder('subproject', 'program.cpp', 'subproject/meson.build')
        os.makedirs(os.path.join(path, 'subprojects', 'lockstep'))
        for name in ('meson.build', 'meson_options.txt', 'include', 'lib'):
            os.symlink(os.path.join(self.source, name), os.path.join(path, 'subprojects', 'lockstep', name))
        run(['meson', 'setup', '--wrap-mode=forcefallback', '-Dbuildtype=plain', '-Dunity=on', '-Dunity_size=16',
             '-Dlockstep:werror=false', '-Dlockstep:kernels=few', '-Dlockstep:cuda=disabled', 'build'], cwd=path)
        return path


def main():
    arguments = sys.argv[1:]
    names = ['install', 'every_public_header_is_installed', 'installed_programs_start', 'pkg_config', 'pkg_config_for_c99',
             'first_program_of_the_readme', 'cmake',
             'meson_subproject_compiles_a_program']
    if arguments[0] == '--subproject':
        names = ['meson_subproject']
        del arguments[0]
    source, build = (os.path.abspath(argument) for argument in arguments[:2])
    failed = 0
    print(f'1..{len(names)}', flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        consumers = Consumers(source, build, arguments[2:], scratch)
        for number, name in enumerate(names, 1):
            title = name.replace('_', ' ')
            if name == 'cmake' and not shutil.which('cmake'):
                print(f'ok {number} - {title} # SKIP cmake is not installed')
                continue
            try:
                getattr(consumers, name)()
                print(f'ok {number} - {title}', flush=True)
            except (Failed, subprocess.TimeoutExpired, OSError) as error:
                failed += 1
                print(f'not ok {number} - {title}', *(f'# {line}' for line in str(error).split('\n')), sep='\n', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
