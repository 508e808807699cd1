#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what an MPI compiler wrapper passes to its compiler, one word a line: wrapper_flags.py compile|link WRAPPER.

Asks the wrapper as Open MPI, MPICH (and Intel MPI) and Cray's CC answer. Exit code 1, with the reason, if the wrapper answers none of the three.
"""

import os
import shlex
import subprocess
import sys

# In this order: MPICH's wrapper refuses the option of Open MPI, while Open MPI's takes -show too.
QUESTIONS = {'compile': [['--showme:compile'], ['-show'], ['--cray-print-opts=cflags']],
             'link': [['--showme:link'], ['-show'], ['--cray-print-opts=libs']]}
FLAGS = {'compile': ('-I', '-D', '-isystem', '-pthread'), 'link': ('-L', '-l', '-Wl,', '-pthread')}
WITH_A_WORD = ('-I', '-D', '-isystem', '-L', '-l')


def select(words, kind):
    """The words for the compiler or for the linker, of a whole command line."""
    words, selected = iter(words), []
    for word in words:
        if word == '-Xlinker':
            if kind == 'link':
                selected.append('-Wl,' + next(words))
        elif word in WITH_A_WORD:
            word += next(words)
            if word.startswith(FLAGS[kind]):
                selected.append(word.replace('-isystem', '-I', 1))
        elif word.startswith(FLAGS[kind]):
            selected.append(word)
    return selected


def main():
    kind, wrapper = sys.argv[1:]
    # If this is not set, Intel MPI's wrapper prints a name that the shell would have to replace, instead of its folder.
    folder = os.path.dirname(os.path.dirname(os.path.abspath(wrapper)))
    environment = {**os.environ, 'I_MPI_ROOT': os.environ.get('I_MPI_ROOT', folder)}
    answer = ''
    for question in QUESTIONS[kind]:
        try:
            done = subprocess.run([wrapper, *question], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            sys.exit(f'{wrapper}: {error}')
        if done.returncode == 0 and done.stdout.strip():
            print('\n'.join(select(shlex.split(done.stdout), kind)))
            return
        answer = done.stderr.strip() or f'exit code {done.returncode}'
    asked = ', '.join(question[0] for question in QUESTIONS[kind])
    sys.exit(f'{wrapper} answers none of {asked}; the last answer: {answer[-500:]}')


if __name__ == '__main__':
    main()
