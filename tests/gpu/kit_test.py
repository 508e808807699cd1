#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The test kit for machines with GPUs: made, moved and run: kit_test.py SCRIPT BUILD. Prints TAP."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import tap  # noqa: E402

MOST_MIB = 50
script, build = sys.argv[1:]
checks = tap.Checks()
check = checks.check


def run(*command, seconds, **how):
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **how)
    done.said = done.stdout + done.stderr
    return done


def mib_of(folder):
    return int(run('du', '-sm', folder, seconds=60).stdout.split()[0])


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


def read_report(out):
    """The report, or an empty one that has no step."""
    try:
        with open(f'{out}/report.json', encoding='utf-8') as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        return {'steps': [], 'error': str(error)}


def results(report):
    return {step['name']: step['result'] for step in report['steps']}


def replace(program, text):
    """Replaces a program of the kit by a shell script."""
    os.rename(program, f'{program}.real')
    with open(program, 'w', encoding='utf-8') as file:
        file.write(f'#!/bin/sh\n{text}\n')
    os.chmod(program, 0o755)


def restore(program):
    os.replace(f'{program}.real', program)


def check_making(folder):
    made = run('sh', script, build, f'{folder}/made', seconds=120)
    check('is made', made.returncode == 0, made.said)
    said = re.search(r'/made, (\d+) MiB$', made.stdout.strip())
    mib = mib_of(f'{folder}/made')
    check('says its size', said and int(said[1]) == mib, f'du: {mib} MiB; {made.said}')
    check(f'has at most {MOST_MIB} MiB', 0 < mib <= MOST_MIB, mib)
    check('has no lockstep-train', not os.path.exists(f'{folder}/made/bin/lockstep-train'))
    again = run('sh', script, build, f'{folder}/made', seconds=120)
    check('is not made over another', again.returncode == 2 and 'does not exist yet' in again.stderr, again.said)
    large = run('sh', script, build, f'{folder}/large', seconds=120, env={**os.environ, 'LOCKSTEP_KIT_MIB': str(mib - 1)})
    check('is refused if it is too large', large.returncode == 1 and f'{mib} MiB, but at most {mib - 1} MiB' in large.stderr, large.said)
    check('is removed if it is too large', not os.path.exists(f'{folder}/large'))
    missing = foreign_libraries(f'{folder}/made')
    check('has all libraries that not every machine has', not missing, missing)


def check_choosing(start, folder):
    listed = start('--list')
    names = listed.stdout.split()
    check('lists its steps', listed.returncode == 0 and {'tables', 'kernel-rates', 'gpu-tests', 'perf-canonical-1', 'perf-hosts'} <= {*names},
          listed.said)
    for arguments in (['--only', 'tables,kernel-rats'], ['--only', 'tables', '--only', 'kernel-rats']):
        unknown = start(*arguments, f'{folder}/unknown')
        check('refuses an unknown step, and lists the steps', unknown.returncode == 2 and '"kernel-rats"' in unknown.stderr and
              ' '.join(names) in unknown.stderr, unknown.said)
    for arguments in (['--only'], ['--only', ''], ['--only', '--quick'], ['--minutes', '5m'], ['--minutes'], ['--fast'], ['a', 'b']):
        refused = start(*arguments)
        check(f'refuses {" ".join(arguments)}', refused.returncode == 2 and refused.stderr.startswith('run.sh: '), refused.said)
    check('writes nothing when it refuses', not os.path.exists(f'{folder}/unknown'))
    for arguments in (['--only', 'perf-hosts,tables'], ['--only', 'perf-hosts', '--only', 'tab']):
        ran = start('--quick', *arguments, f'{folder}/some')
        report = read_report(f'{folder}/some')
        check(f'runs only the steps of {" ".join(arguments)}',
              ran.returncode == 0 and results(report) == {'tables': 'passed', 'perf-hosts': 'passed'}, ran.said)
    ran = start('--minutes', '0', '--only', 'perf', f'{folder}/prefix')
    chosen = results(read_report(f'{folder}/prefix'))
    check('runs the steps whose names begin with a word', list(chosen) == [name for name in names if name.startswith('perf-')], chosen)
    check('skips all steps if there is no time', ran.returncode == 0 and chosen['perf-hosts'] == 'skipped: no time left', chosen)


def check_time(start, kit, folder):
    """The steps get 12 s. The first one fails, and the second one would take 60 s; then the first one takes 60 s."""
    replace(f'{kit}/bin/unit-bindings', 'exit 3')
    replace(f'{kit}/bin/lockstep-perf', 'exec sleep 60')
    arguments = ('--minutes', '0.2', '--only', 'tables,perf-hosts')
    out = f'{folder}/cut'
    begin = time.monotonic()
    with subprocess.Popen([f'{kit}/run.sh', *arguments, out], stdout=subprocess.PIPE, text=True, env=bare(folder)) as running:
        while running.poll() is None and not os.path.exists(f'{out}/report.json'):
            time.sleep(0.1)
        first = read_report(out)
        said = running.communicate(timeout=100)[0]
    report = read_report(out)
    check('has a report after each step', [step['name'] for step in first['steps']] == ['tables'], first)
    check('ends in time', 10 < time.monotonic() - begin < 40, said)
    check('stops the step that has no time left',
          re.fullmatch(r'stopped after \d+ s: no time left', results(report).get('perf-hosts', '')), said)
    check('fails if a step failed before the time was over', running.returncode == 1 and report['failed'] == 1 and
          report['incomplete'] == 1 and results(report)['tables'] == 'failed', said)
    restore(f'{kit}/bin/lockstep-perf')
    restore(f'{kit}/bin/unit-bindings')

    replace(f'{kit}/bin/unit-bindings', 'exec sleep 60')
    ran = start(*arguments, out)
    report = read_report(out)
    check('skips steps if no time is left', results(report).get('perf-hosts') == 'skipped: no time left', ran.said)
    check('does not fail if only time was missing', ran.returncode == 0 and report['failed'] == 0 and report['incomplete'] == 2, ran.said)
    restore(f'{kit}/bin/unit-bindings')


def check_everything(start, folder):
    out = f'{folder}/out'
    os.mkdir(out)
    os.mkdir(f'{out}/report.files')  # an interrupted run leaves such a folder
    with open(f'{out}/report.files/old.txt', 'w', encoding='utf-8'):
        pass
    ran = start('--quick', out)
    check('runs from anywhere', ran.returncode == 0, ran.said)
    report = read_report(out)
    if not report['steps']:
        check('writes a report', False, report)
        return
    steps = results(report)
    check('reports all steps', list(steps) == start('--list').stdout.split(), steps)
    check('counts what failed', report['failed'] == 0 and report['incomplete'] == 0, report['steps'])
    check('names its versions', 'lockstep 0.' in report['versions'] and 'Open MPI' in report['versions'], report['versions'])
    rows = report['perf']['perf-hosts']['rows']
    check('measures hosts', rows and all(row['wrong'] == 0 for row in rows), report['perf'])
    check('runs the tests of the tables', report['tables']['failures'] == 0 and report['tables']['tests'] > 0, report['tables'])
    if steps['kernel-rates'].startswith('skipped'):
        check('says that there is no GPU', 'no GPU: ' in ran.stdout and report['gpu_status'].startswith('no GPU: '), ran.said)
        on_gpu = [name for name in steps if name not in ('tables', 'perf-hosts')]
        check('skips the steps for GPUs', all(steps[name] == 'skipped: no GPU' for name in on_gpu), steps)
    else:
        check('runs the tests on a GPU', report['gpu_tests']['failures'] == 0, report['gpu_tests'])
    check('leaves a report and an archive', sorted(os.listdir(out)) == ['report.json', 'report.tar.gz'], os.listdir(out))
    ran_steps = [name for name in steps if not steps[name].startswith('skipped')]
    with tarfile.open(f'{out}/report.tar.gz') as archive:
        files = {os.path.basename(member.name): archive.extractfile(member).read() for member in archive.getmembers() if member.isfile()}
    expected = {f'{name}.{kind}' for name in ran_steps for kind in ('txt', 'json')}
    check('archives output and figures of each step', expected and expected <= files.keys(), sorted(files))
    check('archives nothing of an earlier run', 'old.txt' not in files, sorted(files))
    check('archives the output that it prints', files['tables.txt'].decode() in ran.stdout and b'PASSED' in files['tables.txt'])
    check('archives the figures of the report', json.loads(files['perf-hosts.json']) == report['perf']['perf-hosts'])


def check_training(folder):
    if not os.access(f'{build}/apps/train/lockstep-train', os.X_OK):
        check('has lockstep-train if requested # SKIP it is not built', True)
        return
    made = run('sh', script, '--with-train', build, f'{folder}/with-train', seconds=120)
    check('has lockstep-train if requested', made.returncode == 0 and os.path.exists(f'{folder}/with-train/bin/lockstep-train'), made.said)
    missing = foreign_libraries(f'{folder}/with-train')
    check('has the libraries of lockstep-train', not missing, missing)
    ran = run(f'{folder}/with-train/run.sh', '--only', 'train', f'{folder}/trained', seconds=700, env=bare(folder), cwd='/')
    report = read_report(f'{folder}/trained')
    steps = results(report)
    check('trains', ran.returncode == 0 and list(steps) == ['train-cpu', 'train-gpu', 'train-cublas'] and steps['train-cpu'] == 'passed', ran.said)
    check('reports the training', len((report.get('train_cpu') or {}).get('loss', [])) == 20, report.get('train_cpu'))
    if steps.get('train-cublas') == 'passed':
        check('says where models compute', report['train_cublas']['arithmetic'] in ('cpu', 'gpu'), ran.said)


def bare(folder):
    """An environment without the library path of this build and without its MPI."""
    return {'PATH': '/usr/bin:/bin', 'HOME': folder}


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_making(folder)
        kit = shutil.move(f'{folder}/made', f'{folder}/moved')

        def start(*arguments):
            return run(f'{kit}/run.sh', *arguments, seconds=500, env=bare(folder), cwd=folder)

        check_choosing(start, folder)
        check_everything(start, folder)
        check_time(start, kit, folder)
        check_training(folder)
    return checks.end()


sys.exit(main())
