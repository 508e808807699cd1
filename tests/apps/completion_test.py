#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The completion of options in bash.

completion_test.py COMPLETION PROGRAM...     ends with code 77 if there is no bash
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import Skip, expect, run_cases  # noqa: E402

SCRIPT = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep "$1" "${@: -1}" "${@: -2:1}"; printf "%s\\n" "${COMPREPLY[@]}"'
completion = sys.argv[1]
programs = {os.path.basename(path): path for path in sys.argv[2:]}


def completed(*words):
    """What bash proposes for the last word."""
    done = subprocess.run(['bash', '-c', SCRIPT, completion, *words], capture_output=True, text=True, timeout=100)
    expect(done.returncode == 0 and done.stderr == '', done.stderr)
    return done.stdout.split()


def knows_all_options_of(name):
    def case():
        text = subprocess.run([programs[name], '--help'], capture_output=True, text=True, timeout=100).stdout
        shown = set()
        for line in re.findall(r'^ {0,4}(-.*?)(?:  |$)', text, re.MULTILINE):
            shown.update(re.findall(r'--[\w-]+', line))
        expect({'--help', '--version'} <= shown, text)
        found = completed(programs[name], '--')
        expect(sorted(found) == sorted(shown), f'in --help: {sorted(shown)}\ncompleted: {sorted(found)}')

    return case


def proposes(expected, name, *words):
    def case():
        if name not in programs:
            raise Skip(f'{name} was not built')
        found = completed(programs[name], *(programs.get(word, word) for word in words))
        expect(sorted(found) == sorted(expected), str(found))

    return case


def is_registered_for_all_programs():
    done = subprocess.run(['bash', '-c', 'source "$0"; complete -p', completion], capture_output=True, text=True, timeout=100)
    names = re.findall(r'-F _lockstep (\S+)', done.stdout)
    expect(set(programs) <= set(names), f'programs: {sorted(programs)}\ncompleted: {sorted(names)}')


if shutil.which('bash') is None:
    print('skipped: bash is not installed')
    sys.exit(77)
sys.exit(run_cases([
    ('is registered for all programs', is_registered_for_all_programs),
    *((f'knows all options of {name}', knows_all_options_of(name)) for name in sorted(programs)),
    ('completes the beginning of an option', proposes(['--epochs'], 'lockstep-train', '--ep')),
    ('knows short options', proposes(['-h'], 'lockstep-hello', '-h')),
    ('leaves other words to bash', proposes([], 'lockstep-train', 'file')),
    ('lockstep-run completes its own options', proposes(['--bind'], 'lockstep-run', '-n', '2', '--bi')),
    ('lockstep-run completes the options of its program', proposes(['--epochs'], 'lockstep-run', '-n', '2', 'lockstep-train', '--ep')),
    ('lockstep-run does not start another program', proposes([], 'lockstep-run', '-n', '2', 'ls', '-a')),
]))
