#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants one wait after the other in a small tree that is otherwise clean: pauses.py must find each. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from pauses import violations  # noqa: E402
from planted import tree  # noqa: E402
from tap import Checks  # noqa: E402

BUILD = """
unit_tests = {
  'context': ['context/a_test.cpp', 'context/b_test.cpp'],
  'values': ['values/a_test.cpp'],
  'layouts': ['collectives/layout_test.cpp'],
  'processes': ['base/a_test.cpp'],
}
in_virtual_time = ['context', %s]
"""

SLEEPS = 'void f() { std::this_thread::sleep_for(1ms); }\n'

CLEAN = {
    'tests/unit/meson.build': BUILD % "'values'",
    'tests/unit/context/a_test.cpp': SLEEPS,
    'tests/unit/context/fixture.hpp': SLEEPS,
    'tests/unit/values/a_test.cpp': SLEEPS,
    'tests/unit/collectives/layout_test.cpp': '// no sleep_for here\nauto text = "sleep_for";\n',
    'tests/unit/base/a_test.cpp': SLEEPS,  # in the table
    'include/lockstep/a.hpp': 'void wait(int lock);  // asm\n',
    'lib/base/pause.hpp': 'inline void cpu_relax() { __builtin_ia32_pause(); }\n',
    'lib/core/a.cpp': 'void f() { condition.wait(lock, is_set); condition_.wait(lock_); request.wait(); std::this_thread::yield(); auto x = tensor.clone(); }\n',
}

# what it is, the file, its planted content, a part of the message
PLANTED = [
    ('a pause of the processor', 'lib/core/b.cpp', '\n__builtin_ia32_pause();\n', 'b.cpp:2: the scheduler does not see this'),
    ('a pause by its other name', 'lib/core/b.cpp', '_mm_pause();\n', 'b.cpp:1: the scheduler does not see this'),
    ('a reading of the counter', 'lib/core/b.cpp', 'auto t = __rdtsc();\n', 'the scheduler does not see this'),
    ('assembly', 'lib/core/b.hpp', 'asm volatile("isb");\n', 'the scheduler does not see this'),
    ('assembly in a public header', 'include/lockstep/b.hpp', 'asm("isb");\n', 'the scheduler does not see this'),
    ('a wait for an atomic', 'lib/core/b.cpp', 'flag.wait(0);\n', 'std::atomic::wait'),
    ('a wait for an atomic by a pointer', 'lib/core/b.cpp', 'flag->wait(false, std::memory_order_acquire);\n', 'std::atomic::wait'),
    ('a wait for an atomic by a function', 'lib/core/b.cpp', 'std::atomic_wait(&flag, 0);\n', 'std::atomic::wait'),
    ('a thread of C11', 'lib/core/b.cpp', 'thrd_create(&thread, f, nullptr);\n', 'does not replace this'),
    ('a barrier of POSIX', 'lib/core/b.cpp', 'pthread_barrier_wait(&barrier);\n', 'does not replace this'),
    ('a system call', 'lib/core/b.cpp', 'syscall(SYS_nanosleep, &time);\n', 'system call'),
    ('a new process or thread', 'lib/core/b.cpp', 'clone(f, stack, flags, nullptr);\n', 'system call'),
    ('a latch', 'lib/core/b.cpp', 'std::latch latch(2);\n', 'without a deadline'),
    ('a sleep in a test', 'tests/unit/collectives/layout_test.cpp', SLEEPS, 'layout_test.cpp:1: sleeps in real time: name layouts'),
    ('a sleep of C in a test', 'tests/unit/collectives/layout_test.cpp', 'usleep(10);\n', 'name layouts'),
    ('a sleep in a header of a test', 'tests/unit/layouts/a.hpp', SLEEPS, 'name layouts'),
    ('a program of the table in virtual time', 'tests/unit/meson.build', BUILD % "'values', 'processes'", 'processes runs in virtual time'),
    ('a program that is no longer in virtual time', 'tests/unit/meson.build', BUILD % '', 'name values'),
]


def main():
    print(f'1..{len(PLANTED) + 1}')
    checks = Checks()
    with tree(CLEAN) as root:
        found = violations(root)
        checks.check('a clean tree', not found, found)
    for what, path, text, message in PLANTED:
        with tree({**CLEAN, path: text}) as root:
            found = violations(root)
            checks.check(what, any(message in each for each in found), found)
    return 1 if checks.failed else 0


if __name__ == '__main__':
    sys.exit(main())
