#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy 19 on every source of the library, the programs and the benchmarks. Prints TAP, one case per source.

  tidy.py SOURCE BUILD [PART]   only sources whose path contains PART
"""

import concurrent.futures
import json
import os
import subprocess
import sys


def main():
    source, build = (os.path.abspath(argument) for argument in sys.argv[1:3])
    part = sys.argv[3] if len(sys.argv) > 3 else ''
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        paths = {os.path.relpath(os.path.join(e['directory'], e['file']), source) for e in json.load(file)}
    paths = sorted(path for path in paths if path.startswith(('lib/', 'apps/', 'bench/')) and part in path)

    def check(path):
        return subprocess.run(['clang-tidy-19', '--quiet', '-p', build, os.path.join(source, path)],
                              capture_output=True, text=True)

    print(f'1..{len(paths)}', flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (path, done) in enumerate(zip(paths, pool.map(check, paths)), 1):
            failed += done.returncode != 0
            print(f'{"not ok" if done.returncode else "ok"} {number} - {path}', flush=True)
            if done.returncode:
                print(*(f'# {line}' for line in (done.stdout + done.stderr).splitlines()), sep='\n', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
