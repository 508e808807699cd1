#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Plants one defect after another in a copy of the sources, and lets the simulator search for it.

  mutations.py [--seconds S] [NAME...]   all patches of mutations/, or these; each search ends after S seconds (default: 300)
  mutations.py --check                   whether all patches apply to these sources

A patch begins with a line "Breaks: PROPERTY", and may have a line "Options: OPTION..." for the simulator, and a line "Lane: tsan" if the
simulator shall search for data races. The copy and its builds are in build/mutations, so that a second call compiles only what the patches
change. Ends with "N mutations, N found".
"""

import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRATCH = os.path.join(ROOT, 'build/mutations')
SOURCE = os.path.join(SCRATCH, 'source')
FOLDERS = {'plain': 'build', 'tsan': 'build-tsan'}  # of the lanes of tests/run.sh
SIMULATE = 'tests/simulation/simulate'


def patches(names):
    folder = os.path.join(HERE, 'mutations')
    found = sorted(name[:-len('.patch')] for name in os.listdir(folder) if name.endswith('.patch'))
    unknown = sorted(set(names) - set(found))
    if unknown:
        sys.exit(f'mutations.py: no mutation {unknown[0]}')
    return [(name, os.path.join(folder, name + '.patch')) for name in found if not names or name in names]


def header(path, key):
    with open(path, encoding='utf-8') as file:
        found = re.search(rf'^{key}: (.*)$', file.read(), re.MULTILINE)
    return found.group(1) if found else ''


def patch(path, folder, *options):
    """What git says if the patch does not apply; empty if it does."""
    # without the ceiling, git would take the copy for a folder of this repository
    environment = {**os.environ, 'GIT_CEILING_DIRECTORIES': SCRATCH}
    done = subprocess.run(['git', 'apply', *options, path], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return (done.stderr.strip() or 'git apply failed') if done.returncode != 0 else ''


def check():
    faults = 0
    for name, path in patches([]):
        fault = patch(path, ROOT, '--check') or ('' if header(path, 'Breaks') else 'no line "Breaks: ..."')
        fault = fault or ('' if (header(path, 'Lane') or 'plain') in FOLDERS else f'no lane {header(path, "Lane")} here')
        if fault:
            faults += 1
            print(f'{name}: {fault}')
    print(f'{len(patches([]))} mutations, {faults} faults')
    return 1 if faults else 0


def copy_sources():
    """Copies the files that git knows, or would know; files that are the same keep their times."""
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard', '-z'], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split('\0')):
        source, target = os.path.join(ROOT, name), os.path.join(SOURCE, name)
        if not os.path.isfile(source):
            continue
        with open(source, 'rb') as file:
            content = file.read()
        if os.path.isfile(target):
            with open(target, 'rb') as file:
                if file.read() == content:
                    continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)


def build(lane):
    done = subprocess.run(['sh', os.path.join(SOURCE, 'tests/run.sh'), '--targets', lane, SIMULATE], capture_output=True, text=True, check=False)
    return '' if done.returncode == 0 else (done.stdout + done.stderr)[-2000:] or 'no output'


def search(lane, options, seconds):
    """What shows the defect, and after how long; empty if nothing does."""
    begin = time.monotonic()
    command = [os.path.join(SOURCE, FOLDERS[lane], SIMULATE), '--first', '1', '--seconds', str(seconds), '--stop', *options]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=seconds + 120, check=False)
    except subprocess.TimeoutExpired:
        return 'a run does not end', time.monotonic() - begin
    found = [line for line in done.stdout.splitlines() if line.startswith('seed ')]
    # a failed check of the library, or a deadlock, ends the simulator
    shown = found[0] if found else done.stdout.strip().splitlines()[-1] if done.returncode not in (0, 1) else ''
    return shown, time.monotonic() - begin


def unchanged(lane):
    """The simulator without a defect."""
    return os.path.join(SCRATCH, f'simulate-{lane}')


def fails_without_defect(lane, options, shown):
    """Whether the job that shows the defect fails without it, too."""
    seed = re.match(r'seed (\d+)', shown)
    done = seed and subprocess.run([unchanged(lane), '--seed', seed.group(1), *options], capture_output=True, timeout=300, check=False)
    return bool(done) and done.returncode != 0


def try_to_find(lane, options, seconds):
    """Whether the simulator finds the defect in the sources, and what to print of that."""
    if fault := build(lane):
        return False, f'does not compile: {fault}'
    shown, taken = search(lane, options, seconds)
    if not shown:
        return False, 'NOT FOUND'
    if fails_without_defect(lane, options, shown):
        return False, f'NOT FOUND, since this fails without the defect, too: {shown[:200]}'
    return True, f'found after {taken:.1f} s: {shown[:200]}'


def main():
    arguments = sys.argv[1:]
    if arguments == ['--check']:
        return check()
    seconds = 300
    if arguments[:1] == ['--seconds']:
        seconds, arguments = int(arguments[1]), arguments[2:]
    chosen = patches(arguments)
    copy_sources()
    for lane in {header(path, 'Lane') or 'plain' for _, path in chosen}:
        if fault := build(lane):
            sys.exit(f'mutations.py: the sources do not compile: {fault}')
        shutil.copy(os.path.join(SOURCE, FOLDERS[lane], SIMULATE), unchanged(lane))
    count = 0
    for name, path in chosen:
        if fault := patch(path, SOURCE):
            sys.exit(f'mutations.py: {name}: {fault}')
        lane = header(path, 'Lane') or 'plain'
        try:
            is_found, text = try_to_find(lane, header(path, 'Options').split(), seconds)
        finally:
            patch(path, SOURCE, '-R')
        count += 1 if is_found else 0
        print(f'{name}: {text}', flush=True)
    print(f'{len(chosen)} mutations, {count} found')
    return 0 if count == len(chosen) else 1


if __name__ == '__main__':
    sys.exit(main())
