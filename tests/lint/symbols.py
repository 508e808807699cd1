#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the layers after compilation, which includes do not show: a module defines what it declares.

  symbols.py SOURCE BUILD     prints each violation; exits 1 if there is one

  - No object needs a symbol that only modules of its own layer or above define.
  - All members of a class are defined in one module.
  - A function of a public header is defined in the module of that header.

Every module is a library of its own in the build, so an object belongs to one module, with unity builds and without.
Modules and layers are those of layers.py. A symbol that no object defines belongs to a foreign library. An inline function
is defined in each module that uses it.
"""

import collections
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from layers import LAYERS, private_module, public_module  # noqa: E402

# The folder in which Meson puts the objects of a module's library.
MODULE_OF_FOLDER = {f'liblockstep-{module.replace("/", "-")}.a.p': module for module in LAYERS}


def module_of(path):
    """Module of an object, whose path is relative to the build: objects of CUDA's compiler are in their source's folder."""
    parts = path.split('/')
    if parts[1].endswith('.p'):
        return MODULE_OF_FOLDER.get(parts[1])
    return private_module(path)


def objects(build):
    for folder, folders, names in os.walk(os.path.join(build, 'lib')):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), build)
            if name.endswith('.o') and module_of(path) in LAYERS:
                yield path


def listing_of(build, path):
    return subprocess.run(['nm', '--extern-only', '--format=posix', path], cwd=build, check=True, capture_output=True,
                          text=True).stdout


def declarations(source):
    """{function: modules that declare it} of the functions in public headers that the library exports."""
    found = collections.defaultdict(set)
    include = os.path.join(source, 'include')
    for folder, _, names in os.walk(include):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith('.hpp'):
                with open(path, encoding='utf-8') as file:
                    for function in re.findall(r'\bLOCKSTEP_API\b[^;{(]*?\b(\w+)\(', file.read()):
                        found[function].add(public_module(os.path.relpath(path, include)))
    return found


class Symbols:
    """What the modules' objects define and need, from the listings of nm: {path of an object: text}."""

    def __init__(self, listings):
        self.defined = collections.defaultdict(set)  # symbol -> modules
        self.strong = set()  # (symbol, module), without inline functions
        self.needed = collections.defaultdict(dict)  # symbol -> module -> an object
        for path, listing in listings.items():
            module = module_of(path)
            for line in listing.splitlines():
                symbol, kind = line.split()[:2]
                if kind in 'Uwv':
                    self.needed[symbol].setdefault(module, path)
                else:
                    self.defined[symbol].add(module)
                    if kind in 'TDBR':
                        self.strong.add((symbol, module))

    def references(self):
        """(module, object, symbol, modules that define it) of each symbol that a module needs of others."""
        for symbol, users in self.needed.items():
            for module, path in users.items():
                if symbol in self.defined and module not in self.defined[symbol]:
                    yield module, path, symbol, self.defined[symbol]

    def upward(self):
        """(object, symbol, module, modules that define it), where only modules that are not below do."""
        return sorted((path, symbol, module, sorted(definers)) for module, path, symbol, definers in self.references()
                      if all(LAYERS[definer] >= LAYERS[module] for definer in definers))

    def named(self):
        """(name without namespace lockstep, module) of each function of a class or of lockstep itself."""
        symbols = sorted(self.strong)
        for (_, module), name in zip(symbols, demangled([symbol for symbol, _ in symbols])):
            found = re.match(r'lockstep::((?:\w+::)*~?\w+)(?:\[abi:\w+\])?\(', name)
            if found:
                yield found.group(1), module

    def divided(self):
        """(class, modules) of each class with members in several modules."""
        modules = collections.defaultdict(set)
        for name, module in self.named():
            found = re.fullmatch(r'((?:\w+::)*[A-Z]\w*)::~?\w+', name)
            if found:
                modules[found.group(1)].add(module)
        return sorted((name, sorted(found)) for name, found in modules.items() if len(found) > 1)

    def misplaced(self, declared):
        """(function, module, modules that declare it) of each public function that another module defines."""
        return sorted({(name, module, ', '.join(sorted(map(str, declared[name])))) for name, module in self.named()
                       if name in declared and module not in declared[name]})


def demangled(names):
    if not names:
        return []
    done = subprocess.run(['c++filt'], input='\n'.join(names), check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def main():
    source, build = sys.argv[1:]
    symbols = Symbols({path: listing_of(build, path) for path in objects(build)})
    if not any(symbols.references()):
        print(f'{build}: no object of a module needs a symbol of another one: is this a build of lockstep?')
        return 1
    upward = symbols.upward()
    violations = [f'{path}: {module} needs {name}, which is defined in {", ".join(definers)}'
                  for (path, _, module, definers), name in zip(upward, demangled([entry[1] for entry in upward]))]
    violations += [f'class {name} is defined in several modules: {", ".join(modules)}'
                   for name, modules in symbols.divided()]
    violations += [f'function {name} is declared in {modules}, but defined in {module}'
                   for name, module, modules in symbols.misplaced(declarations(source))]
    print(*violations, sep='\n', end='\n' if violations else '')
    if violations:
        print(f'{len(violations)} violations', file=sys.stderr)
    return 1 if violations else 0


if __name__ == '__main__':
    sys.exit(main())
