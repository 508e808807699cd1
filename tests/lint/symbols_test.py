#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants one symbol after the other in listings that are otherwise clean: symbols.py must find each. Prints TAP."""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
from symbols import MODULE_OF_FOLDER, Symbols, declarations, module_of  # noqa: E402


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
    print(f'1..{len(PLANTED) + 5}')
    failed = number = 0

    def result(good, name, found):
        nonlocal failed, number
        failed += not good
        number += 1
        print(f'{"ok" if good else "not ok"} {number} - {name}')
        if not good:
            print(f'# found: {found}')

    found = Symbols(CLEAN).upward()
    result(not found, 'clean objects have no violation', found)
    for name, path, line, definer in PLANTED:
        found = Symbols({**CLEAN, path: CLEAN[path] + line + '\n'}).upward()
        good = [(found[0][0], found[0][1])] == [(path, line.split()[0])] and definer in found[0][3] if found else False
        result(good, f'finds {name}', found)
    member = '_ZN8lockstep4Step4meetEv T 0 10\n'
    found = Symbols({CONTEXT: member, STRATEGY: member.replace('4meet', '3run')}).divided()
    result(found == [('Step', ['context', 'strategy'])], 'finds a class of two modules', found)
    declared = {'get': {'context'}, 'run': {'context', 'strategy'}}
    found = Symbols({STRATEGY: '_ZN8lockstep3getEv T 0 10\n_ZN8lockstep3runEv T 0 10\n'}).misplaced(declared)
    result(found == [('get', 'strategy', 'context')], 'finds a function of another module', found)
    with tempfile.TemporaryDirectory() as source:
        os.makedirs(os.path.join(source, 'include/lockstep/context'))
        with open(os.path.join(source, 'include/lockstep/context/a.hpp'), 'w', encoding='utf-8') as file:
            file.write('[[nodiscard]] LOCKSTEP_API Strategy& get();\nclass LOCKSTEP_API Step {};\nint hidden();\n')
        found = dict(declarations(source))
    result(found == {'get': {'context'}}, 'reads the functions of public headers', found)
    found = [module_of('lib/liblockstep.so.p/a.o'), module_of('lib/liblockstep-mystery.a.p/a.o')]
    result(found == [None, None], 'objects of no module are left out', found)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
