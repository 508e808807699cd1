#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Gives blocking.py the names of functions that block, and of some that do not. Prints TAP."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from blocking import undefined, violations  # noqa: E402
from tap import Checks  # noqa: E402

BLOCKING = ['pthread_mutex_lock', 'pthread_mutex_clocklock', 'pthread_rwlock_timedwrlock', 'pthread_cond_clockwait', 'pthread_once', 'pthread_create',
            'pthread_timedjoin_np', 'sem_wait', 'nanosleep', 'sched_yield', 'clock_gettime', 'epoll_wait', 'epoll_pwait2', 'read', 'recvmmsg', 'syscall',
            'mq_timedreceive', 'sigsuspend', 'mtx_timedlock', 'alarm']
OTHERS = ['pthread_mutex_init', 'pthread_mutex_trylock', 'pthread_self', 'clock_getres', 'waitpid', 'pread64', 'fread', 'strftime', 'localtime_r', 'mtx_trylock']


def main():
    checks = Checks()
    for name in BLOCKING:
        found = list(violations({name}))
        checks.check(name, len(found) == 1 and found[0].startswith(name + ' '), found)
    checks.check('functions that do not block', not list(violations(set(OTHERS))), list(violations(set(OTHERS))))
    checks.check('the names that a program takes from libraries', 'malloc' in undefined('/bin/sh'))
    return checks.end()


if __name__ == '__main__':
    sys.exit(main())
