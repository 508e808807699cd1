#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The test kit for machines with GPUs: made, moved and run: kit_test.py SCRIPT BUILD. Prints TAP."""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import tap  # noqa: E402

script, build = sys.argv[1:]
checks = tap.Checks()
check = checks.check


def foreign_libraries(kit):
    """Libraries from outside of the kit that it needs, except those that a machine with a GPU has."""
    of_machine = re.compile(r'(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|cuda|nccl))\.so')
    found = set()
    for at, _, names in os.walk(kit):
        files = [os.path.join(at, name) for name in names if at.endswith('/bin') or '.so' in name]
        if not files:
            continue
        said = run('ldd', *files, seconds=60, env={**os.environ, 'LD_LIBRARY_PATH': f'{kit}/lib:{kit}/lib/compiler'}).stdout
        for name, path in re.findall(r'^\s+(\S+) => (.+?)(?: \(0x.*\))?$', said, re.MULTILINE):
            if not path.startswith(kit) and not of_machine.match(name):
                found.add(f'{name} => {path}')
    return sorted(found)


def run(*command, seconds, **how):
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **how)
    done.said = done.stdout + done.stderr
    return done


with tempfile.TemporaryDirectory() as folder:
    made = run('sh', script, build, f'{folder}/made', seconds=120)
    check('is made', made.returncode == 0, made.said)
    again = run('sh', script, build, f'{folder}/made', seconds=120)
    check('is not made over another', again.returncode == 2 and 'does not exist yet' in again.stderr, again.said)
    os.rename(f'{folder}/made', f'{folder}/moved')
    size = sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(f'{folder}/moved') for name in names)
    check('has less than 60 MiB', size < 60 << 20, size)
    missing = foreign_libraries(f'{folder}/moved')
    check('has all libraries that not every machine has', not missing, missing)
    # without the library path of this build and without its MPI
    bare = {'PATH': '/usr/bin:/bin', 'HOME': folder}
    ran = run(f'{folder}/moved/run.sh', '--quick', f'{folder}/out', seconds=500, env=bare, cwd='/')
    check('runs from anywhere', ran.returncode == 0, ran.said)
    try:
        with open(f'{folder}/out/report.json', encoding='utf-8') as file:
            report = json.load(file)
    except (OSError, ValueError) as error:
        report = None
        check('writes a report', False, error)
    if report:
        steps = {step['name']: step['result'] for step in report['steps']}
        check('counts what failed', report['failed'] == 0, report['steps'])
        check('names its versions', 'lockstep 0.' in report['versions'] and 'Open MPI' in report['versions'], report['versions'])
        check('measures hosts', all(row['wrong'] == 0 for row in report['perf']['perf-hosts']['rows']), report['perf'])
        check('runs the tests of the tables', report['tables']['failures'] == 0 and report['tables']['tests'] > 0, report['tables'])
        if steps['kernel-rates'] == 'skipped':
            check('says that there is no GPU', 'no GPU: ' in ran.stdout and 'no GPU' in report['kernel_rates']['gpu'], ran.said)
        else:
            check('runs the tests on a GPU', report['gpu_tests']['failures'] == 0, report['gpu_tests'])
            check('says where models compute', not report['train'] or report['train_cublas']['arithmetic'] in ('cpu', 'gpu'), ran.said)

sys.exit(checks.end())
