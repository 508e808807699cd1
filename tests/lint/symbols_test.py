#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants one symbol after the other in listings that are otherwise clean: symbols.py must find each. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from planted import tree  # noqa: E402
from symbols import MODULE_OF_FOLDER, Symbols, declarations, module_of  # noqa: E402
from tap import Checks  # noqa: E402


def unit(module, name='unity0'):
    folder = next(folder for folder, other in MODULE_OF_FOLDER.items() if other == module)
    return f'lib/{folder}/{name}.cpp.o'


BASE, CONTEXT, CROSS, STRATEGY = unit('base'), unit('context'), unit('cross_device'), unit('strategy')
ENGINE, ROOT = unit('collectives/engine'), unit('collectives')
KERNEL = 'lib/device/cuda/sum.o'

CLEAN = {
    BASE: '_ZN8lockstep5checkEv T 0 10\nmalloc U\n',
    CONTEXT: '_ZN8lockstep5checkEv U\n_ZN8lockstep4meetEv T 0 10\n_ZN8lockstep6inlineEv W 0 10\nstate D 0 8\n',
    unit('context', 'unity1'): '_ZN8lockstep4meetEv U\n_ZN8lockstep6inlineEv U\n',
    CROSS: '_ZN8lockstep6gatherEv T 0 10\n',
    STRATEGY: '_ZN8lockstep4meetEv U\n_ZN8lockstep6gatherEv U\n_ZN8lockstep3runEv T 0 10\n_ZN8lockstep6inlineEv W 0 10\n'
              'hook B 0 8\n_ZN8lockstep6kernelEv U\n',
    ENGINE: '_ZN8lockstep5checkEv U\n_ZN8lockstep5driveEv T 0 10\n',
    ROOT: '_ZN8lockstep5driveEv U\n_ZN8lockstep5startEv T 0 10\n',
    KERNEL: '_ZN8lockstep6kernelEv T 0 10\n_ZN8lockstep5checkEv U\n',
}

# what it is, the object, the planted line, the module that defines the symbol
PLANTED = [
    ('a function of a higher module', CONTEXT, '_ZN8lockstep3runEv U', 'strategy'),
    ('a function of the same layer', CONTEXT, '_ZN8lockstep6gatherEv U', 'cross_device'),
    ('a variable of a higher module', BASE, 'hook U', 'strategy'),
    ('a weak reference to a higher module', BASE, '_ZN8lockstep3runEv w', 'strategy'),
    ('an inline function that only higher modules define', BASE, '_ZN8lockstep6inlineEv U', 'context'),
    ('a room that needs its root', ENGINE, '_ZN8lockstep5startEv U', 'collectives'),
    ('a CUDA kernel that needs a higher module', KERNEL, '_ZN8lockstep3runEv U', 'strategy'),
    ('a lower module that needs a CUDA kernel', BASE, '_ZN8lockstep6kernelEv U', 'device'),
]


def main():
    checks = Checks()
    found = Symbols(CLEAN).upward()
    checks.check('clean objects have no violation', not found, found)
    for name, path, line, definer in PLANTED:
        found = Symbols({**CLEAN, path: CLEAN[path] + line + '\n'}).upward()
        good = [(found[0][0], found[0][1])] == [(path, line.split()[0])] and definer in found[0][3] if found else False
        checks.check(f'finds {name}', good, found)
    member = '_ZN8lockstep4Step4meetEv T 0 10\n'
    found = Symbols({CONTEXT: member, STRATEGY: member.replace('4meet', '3run')}).divided()
    checks.check('finds a class of two modules', found == [('Step', ['context', 'strategy'])], found)
    declared = {'get': {'context'}, 'run': {'context', 'strategy'}}
    found = Symbols({STRATEGY: '_ZN8lockstep3getEv T 0 10\n_ZN8lockstep3runEv T 0 10\n'}).misplaced(declared)
    checks.check('finds a function of another module', found == [('get', 'strategy', 'context')], found)
    header = '[[nodiscard]] LOCKSTEP_API Strategy& get();\nclass LOCKSTEP_API Step {};\nint hidden();\n'
    with tree({'include/lockstep/context/a.hpp': header}) as source:
        found = dict(declarations(source))
    checks.check('reads the functions of public headers', found == {'get': {'context'}}, found)
    found = [module_of('lib/liblockstep.so.p/a.o'), module_of('lib/liblockstep-mystery.a.p/a.o')]
    checks.check('objects of no module are left out', found == [None, None], found)
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
