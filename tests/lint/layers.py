#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what the compiler does not: which module may include which, and a few rules for every file.

  layers.py [ROOT]     prints each violation as file:line: text; exits 1 if there is one

A module includes only modules of lower layers, and itself. A foreign header stays in the modules that wrap it. The two
tables below are the rules; a new module or a new library is one line in one of them.
"""

import os
import re
import sys

# Module -> layer. Modules of one layer do not include each other. The rooms of collectives are modules of their own, between two layers.
LAYERS = {
    'base': 0,
    'core': 1, 'schedule': 1,
    'bindings/mpi': 2, 'bindings/cuda': 2, 'bindings/nccl': 2, 'bindings/openssl': 2, 'kernels': 2,
    'device': 3, 'cluster': 3,
    'transport': 4, 'values': 4,
    'collectives/call': 5, 'collectives/engine': 5.1, 'collectives/host': 5.2, 'collectives/nccl': 5.2, 'collectives/gpu': 5.3,
    'collectives': 5.9,
    'cross_device': 6, 'context': 6, 'interop': 6,
    'variables': 7, 'input': 7,
    'strategy': 8,
    'checkpoint': 9, 'training': 9,
}

# Folders whose folders are modules.
MODULES_OF_ROOMS = {module.split('/')[0] for module in LAYERS if '/' in module}

# Public headers of a room; the others of the folder belong to the module.
PUBLIC_ROOMS = {'lockstep/lockstep.h': 'interop',
                'lockstep/collectives/item.hpp': 'collectives/call',
                'lockstep/collectives/detail/propagate.hpp': 'collectives/engine'}

# include/lockstep/interop/x.hpp is implemented by this module and belongs to its layer.
INTEROP = {'mpi': 'collectives', 'cuda': 'device', 'dlpack': 'device', 'eigen': 'device', 'torch': 'training'}

# Private headers that programs include, too. Their sources use no other part of the library, so that programs which do not need the
# library, or see only what it exports, compile them themselves: apps/options/meson.build.
OF_PROGRAMS = ('base/json_reader.hpp', 'base/output_file.hpp', 'base/printable.hpp')

# Foreign headers: pattern -> the places that may include it. A place is a path, or a folder that ends in '/'.
PROGRAMS = ['apps/', 'bench/', 'testing/', 'tests/']
FOREIGN = [
    (r'std(def|int)\.h', ['include/lockstep/lockstep.h', 'apps/drop_in/calls.h']),
    (r'bits/chrono\.h', ['include/lockstep/base/chrono.hpp']),
    (r'fmt/.*', ['lib/'] + PROGRAMS),
    (r'mpi\.h', ['lib/bindings/mpi/', 'include/lockstep/interop/mpi.hpp'] + PROGRAMS),
    (r'(cuda.*|driver_types|vector_types)\.h', ['lib/bindings/cuda/', 'lib/device/cuda/',
                                                'include/lockstep/interop/cuda.hpp'] + PROGRAMS),
    (r'cublas.*\.h', ['apps/train/gpu/']),
    (r'nccl\.h', ['lib/bindings/nccl/'] + PROGRAMS),
    (r'nvtx3/.*', ['lib/bindings/cuda/']),
    (r'hwy/.*', ['lib/kernels/']),
    (r'hwloc(\.h|/.*)', ['lib/cluster/'] + PROGRAMS),
    (r'zlib\.h', ['lib/input/'] + PROGRAMS),
    (r'nlohmann/.*', ['lib/base/json_reader.hpp', 'lib/base/json_reader.cpp', 'lib/base/json_writer.cpp', 'lib/checkpoint/', 'lib/cluster/'] + PROGRAMS),
    (r'dlpack/.*', ['include/lockstep/interop/dlpack.hpp'] + PROGRAMS),
    (r'(Eigen|unsupported/Eigen)/.*', ['include/lockstep/interop/eigen.hpp'] + PROGRAMS),
    (r'(torch|ATen|c10)/.*', ['include/lockstep/interop/torch.hpp', 'python/lockstep_torch/'] + PROGRAMS),
    (r'(Python\.h|pybind11/.*)', ['python/lockstep_torch/']),
    (r'boost/.*', PROGRAMS),
    (r'(cblas|lapacke|openblas_config|omp)\.h', PROGRAMS),
    (r'(oneapi/dnnl/.*|dnnl.*\.(h|hpp))', PROGRAMS),
    (r'smpi/.*', ['tests/']),
    (r'benchmark/.*', ['bench/']),
    (r'(gtest|gmock)/.*', ['testing/', 'tests/']),
    # The operating system and the compiler: never in public headers.
    (r'(sys|linux|netinet|arpa|net)/.*', ['lib/'] + PROGRAMS),
    (r'(cxxabi|dirent|dlfcn|errno|execinfo|fcntl|ifaddrs|link|malloc|mqueue|netdb|poll|pthread|sched|semaphore|signal|spawn|threads|ucontext|unistd|x86intrin|immintrin|cpuid)\.h',
     ['lib/'] + PROGRAMS),
]

# Sources for CUDA's compiler: kernels and their launches. A build without CUDA omits them. The probe is compiled when a
# build is set up; programs may have their own.
CUDA_CODE = ('.cu', '.cuh')
CUDA_PLACES = ('lib/device/cuda/', 'lib/bindings/cuda/probe.cu', 'apps/')

# The suffixes of the files that are checked.
CODE = ('.hpp', '.h', '.cpp', '.cc', '.cu', '.cuh')
SPDX = CODE + ('.c', '.F90', '.inc', '.py', '.sh', '.bash', 'meson.build', 'meson_options.txt', 'CMakeLists.txt', '.cmake.in', '.supp', '.env')
SPDX_FILES = ('docs/Doxyfile.in', '.clang-format', '.clang-tidy', '.editorconfig', '.ci/run', 'tests/packages')
SPDX_LINES = ('SPDX-FileCopyrightText: The lockstep authors', 'SPDX-License-Identifier: Apache-2.0')
TOP = ('include', 'lib', 'apps', 'bench', 'docs', 'python', 'testing', 'tests', 'packaging')

# The only place that names kinds of operations one by one; other code asks for their traits.
KINDS = 'lib/collectives/call/call.hpp'

INCLUDE = re.compile(r'^\s*#\s*(?:include|include_next|import)\s*([<"])([^>"]+)[>"]')
# Compiler options that make results depend on the build.
FORBIDDEN_OPTIONS = re.compile(r'-m(?:arch|cpu|tune)=native|-ffast-math|-Ofast|-ffp-contract=(?:fast|on)'
                               r'|-use_fast_math|-fmad=true|-ftz=true|-prec-(?:div|sqrt)=false')


def private_module(path):
    """'lib/bindings/mpi/x.hpp' -> 'bindings/mpi', 'lib/device/host/x.cpp' -> 'device', else None."""
    parts = path.split('/')
    if len(parts) > 3 and parts[1] in MODULES_OF_ROOMS:
        return '/'.join(parts[1:3])
    return parts[1] if len(parts) > 2 else None


def public_module(name):
    """'lockstep/core/dtype.hpp' -> 'core'; None for the umbrella header, which is above all modules."""
    if name in PUBLIC_ROOMS:
        return PUBLIC_ROOMS[name]
    parts = name.split('/')
    if len(parts) == 3 and parts[1] == 'interop':
        return INTEROP.get(parts[2].split('.')[0], 'interop')
    return parts[1] if len(parts) > 2 else None


class Lint:
    def __init__(self, root):
        self.root = root
        self.violations = []

    def report(self, path, line, text):
        self.violations.append(f'{path}:{line}: {text}')

    def exists(self, path):
        return os.path.isfile(os.path.join(self.root, path))

    def files(self):
        for top in TOP:
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders[:] = sorted(f for f in folders if not f.startswith('.') and f != '__pycache__')
                for name in sorted(names):
                    yield os.path.relpath(os.path.join(folder, name), self.root)
        for name in ('meson.build', 'meson_options.txt') + SPDX_FILES:
            if self.exists(name) and name.split('/')[0] not in TOP:
                yield name

    def run(self):
        for path in self.files():
            code = path.endswith(CODE)
            if not code and not path.endswith(SPDX) and path not in SPDX_FILES:
                continue
            with open(os.path.join(self.root, path), encoding='utf-8') as file:
                lines = file.read().split('\n')
            self.check_spdx(path, lines)
            if path.endswith(CUDA_CODE) and not path.startswith(CUDA_PLACES):
                self.report(path, 1, f'CUDA sources are allowed only in {", ".join(CUDA_PLACES)}')
            if path.endswith(('meson.build', 'meson_options.txt')):
                self.check_options(path, lines)
            if code:
                self.check_code(path, lines)
        return self.violations

    def check_spdx(self, path, lines):
        first = 1 if lines[0].startswith('#!') else 0
        for offset, wanted in enumerate(SPDX_LINES):
            if wanted not in ''.join(lines[first + offset:first + offset + 1]):
                self.report(path, first + offset + 1, f'expected "{wanted}" here')

    def check_options(self, path, lines):
        for number, line in enumerate(lines, 1):
            found = FORBIDDEN_OPTIONS.search(line)
            if found:
                self.report(path, number, f'{found.group()} changes what a build computes; not for lockstep')

    def check_code(self, path, lines):
        if path.startswith('include/') and path.endswith('.hpp') and '#pragma once' not in lines:
            self.report(path, 1, 'no #pragma once')
        for number, line in enumerate(lines, 1):
            found = INCLUDE.match(line)
            if found:
                text = self.check_include(path, *found.groups())
                if text:
                    self.report(path, number, text)
            elif path.startswith('lib/') and 'OperationKind::' in line and path != KINDS:
                self.report(path, number, f'names a kind of operation; add a column to the traits in {KINDS}')
            elif path.startswith('include/'):
                text = self.check_signature(line)
                if text:
                    self.report(path, number, text)

    def check_signature(self, line):
        """Checks the part of the rule that is visible in one line; exports.py checks the exported symbols."""
        declared = re.match(r'\s*LOCKSTEP_API\b|.*\]\]\s*LOCKSTEP_API\b', line)
        if declared and 'detail::' in line.split('{')[0]:
            return 'lockstep::detail in a public signature'
        return None

    def check_include(self, path, quote, name):
        top = path.split('/')[0]
        if '..' in name.split('/'):
            return f'"{name}": no relative paths upward; name the module'
        if name.startswith('lockstep/') or (quote == '"' and self.exists('include/' + name)):
            return self.check_public(path, top, quote, name)
        if quote == '"':
            return self.check_private(path, top, name)
        return self.check_foreign(path, name)

    def check_public(self, path, top, quote, name):
        if quote == '"':
            return f'"{name}" is a public header: write <{name}>'
        if not self.exists('include/' + name):
            return f'<{name}> does not exist'
        if top in ('apps', 'bench', 'python', 'testing', 'tests'):
            return None
        module = public_module(name)
        if module is None:
            return None if path == 'include/lockstep/lockstep.hpp' else f'<{name}> is for users; include the headers that are used'
        return self.check_layers(path, module)

    def check_private(self, path, top, name):
        if top == 'include':
            return f'"{name}": a public header includes only <lockstep/...> and the standard library'
        if self.exists('lib/' + name) and not self.exists(os.path.join(os.path.dirname(path), name)):
            if top in ('apps', 'bench') and name in OF_PROGRAMS:
                return None
            if top in ('apps', 'bench', 'python'):
                return f'"{name}" is private: {top} uses <lockstep/...> only'
            return None if top in ('testing', 'tests') else self.check_layers(path, private_module('lib/' + name))
        if top == 'lib':
            return f'"{name}": write "module/x.hpp", from lib/'
        return None

    def check_layers(self, path, target):
        if path == 'include/lockstep/lockstep.hpp':
            return None
        own = public_module(path[len('include/'):]) if path.startswith('include/') else private_module(path)
        for module in (own, target):
            if module not in LAYERS:
                return f'module {module} is not in the table of {os.path.basename(__file__)}'
        if own == target or LAYERS[target] < LAYERS[own]:
            return None
        relation = 'the same layer' if LAYERS[target] == LAYERS[own] else f'layer {LAYERS[target]}'
        return f'{own} (layer {LAYERS[own]}) includes {target} ({relation}): only lower layers may be included'

    def check_foreign(self, path, name):
        if '/' not in name and not name.endswith('.h'):
            return None  # the C++ standard library
        for pattern, places in FOREIGN:
            if re.fullmatch(pattern, name):
                if any(path == place or (place.endswith('/') and path.startswith(place)) for place in places):
                    return None
                return f'<{name}> may be included only in {", ".join(places)}'
        if path.startswith('tests/consumers/'):
            return None
        return f'<{name}> is not in the table of {os.path.basename(__file__)}: say there which modules may include it'


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
    violations = Lint(os.path.abspath(root)).run()
    for violation in violations:
        print(violation)
    if violations:
        print(f'{len(violations)} violations', file=sys.stderr)
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
