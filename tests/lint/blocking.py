#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the programs in virtual time call no blocking function of the C library but those that the library in testing/virtual_time
replaces or refuses.

  blocking.py PROGRAM...     prints each violation as program: text; exits 1 if there is one
"""

import os
import re
import subprocess
import sys

# Functions of glibc that may wait for another thread, for time, for a descriptor, or for a signal.
BLOCKING = re.compile(r'''
    pthread_(?: mutex_(?!try)\w*lock | rwlock_(?!try)\w*lock | spin_lock | cond_\w*(?:wait|signal|broadcast) | once | create | \w*join\w* | detach
              | barrier_wait | cancel | yield )
  | sem_(?: wait | timedwait | clockwait | post )
  | thrd_(?: create | join | sleep | yield ) | mtx_(?!try)\w*lock | cnd_\w*(?:wait|signal|broadcast) | call_once
  | clock_gettime | gettimeofday | time | ftime | timespec_get | nanosleep | clock_nanosleep | usleep | sleep | sched_yield
  | poll | ppoll | select | pselect | epoll_p?wait2? | __(?:p?poll|f?read|recv\w*)_chk
  | read | readv | write | writev | recv | recvfrom | recvmsg | recvmmsg | send | sendto | sendmsg | sendmmsg | accept | accept4 | connect
  | p(?:read|write)v?(?:64)?v?2? | splice | tee | vmsplice | sendfile(?:64)?
  | sigwait | sigwaitinfo | sigtimedwait | sigsuspend | sigpause | pause | alarm | setitimer | timer_settime | timerfd_settime | ualarm
  | msgsnd | msgrcv | semop | semtimedop | mq_(?:timed)?(?:send|receive) | aio_suspend | lio_listio | io_getevents
  | flock | lockf(?:64)? | wait | wait3 | wait4 | waitid | waitpid | system | pclose | posix_spawn\w* | syscall | clone | getaddrinfo
''', re.VERBOSE)

# What really waits, also in a run, with the reason.
REAL = {
    'waitpid': 'for another process', 'wait': 'for another process', 'wait4': 'for another process', 'waitid': 'for another process',
    'system': 'for another process', 'pclose': 'for another process', 'clone': 'begins another process, in GoogleTest', 'posix_spawn': 'returns when the process has begun',
    'posix_spawnp': 'returns when the process has begun', 'pread': 'reads files', 'pread64': 'reads files', 'pwrite': 'writes files',
    'pwrite64': 'writes files', 'sendfile': 'copies files', 'sendfile64': 'copies files',
    'getaddrinfo': 'for the resolver', 'connect': 'for the system', 'flock': 'for another process', '__read_chk': 'reads files',
}


def undefined(program):
    """The names that the program takes from shared libraries."""
    lines = subprocess.run(['nm', '--dynamic', '--undefined-only', program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1].split('@')[0] for line in lines if line.strip()}


def violations(names):
    for name in sorted(names):
        if BLOCKING.fullmatch(name) and name not in REAL:
            yield f'{name} may block, and testing/virtual_time neither replaces nor refuses it'


def main():
    found = [f'{os.path.basename(program)}: {text}' for program in sys.argv[1:] for text in violations(undefined(program))]
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
