#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what the shared library exports: only names of lockstep, and lockstep::detail in no public signature.

  exports.py LIBRARY
"""

import re
import subprocess
import sys


# Private members that are exported for the templates in their header; users cannot call them.
PRIVATE = ('lockstep::ReplicaContext::merge(',)


def exported(library):
    listing = subprocess.run(['nm', '--dynamic', '--defined-only', '--demangle', library], check=True,
                             capture_output=True, text=True).stdout
    for line in listing.splitlines():
        found = re.match(r'[0-9a-f]+ (\w) (.*)', line)
        # Weak symbols (templates and inline functions, typeinfo) may be in every library; unique ones are their statics.
        if found and found.group(1) not in 'VvWwu':
            yield found.group(2)


def main():
    names = list(exported(sys.argv[1]))
    failed = 0
    for name in names:
        bare = re.sub(r'^(vtable|typeinfo|typeinfo name|VTT|guard variable|construction vtable) for ', '', name)
        if not bare.startswith(('lockstep::', 'lockstep_')):
            problem = 'is exported, but no name of lockstep'
        elif 'detail::' in bare and not bare.startswith(('lockstep::detail::', 'lockstep::v1::detail::', *PRIVATE)):
            problem = 'has lockstep::detail in its signature'
        else:
            continue
        failed += 1
        print(f'{name}: {problem}')
    if not names:
        print('nothing is exported')
    return 1 if failed or not names else 0


if __name__ == '__main__':
    sys.exit(main())
