#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy 19 on every source of the library, the programs, the benchmarks and testing/. Prints TAP, one case per source.

  tidy.py SOURCE BUILD [PART...]    only sources whose path contains a PART
  tidy.py SOURCE BUILD --recent     only sources that have changed in the last commits, and one for each header that has: what CI checks

clang-tidy spends most of its time on the standard library's headers, so many sources are checked as one source that includes them, with the
include paths and macros of all. If that fails, perhaps only because two sources use one name, each half is checked, down to single sources,
whose results count. -Wshadow is evaluated here, since the lanes compile several sources at once.
"""

import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import changed  # noqa: E402
from headers import options_of  # noqa: E402

MOST = 128  # sources per call, so that all processors are busy
EXAMPLES = 'apps/examples'


def sources_of(entry):
    """The sources of a compile command: a file, or the files that one of Meson's unity sources includes."""
    path = os.path.join(entry['directory'], entry['file'])
    if not re.fullmatch(r'.*-unity\d+\.cpp', path):
        return [path]
    with open(path, encoding='utf-8') as file:
        return [os.path.join(entry['directory'], name) for name in re.findall(r'#include\s*<(.*)>', file.read())]


def compile_commands(source, build):
    """{path: (directory, words)} of all sources, without words that name inputs, outputs, the own (empty) folder of a target, or warnings.

    If several targets compile a source, the first counts, for sources of the library the library: tests/scale compiles some for a simulator.
    """
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        entries = json.load(file)
    commands = {}
    for entry in entries:
        kept = tuple(word for word in options_of(entry) if not re.match(r'-W|-I.*\.p$', word))
        for path in sources_of(entry):
            commands.setdefault(os.path.relpath(path, source), (entry['directory'], kept))
    return commands


def text_of(source, path):
    with open(os.path.join(source, path), encoding='utf-8') as file:
        return file.read()


def is_alone(source, path):
    """Whether a source must be checked alone: Highway includes such a source several times under its own name."""
    return 'HWY_TARGET_INCLUDE' in text_of(source, path)


def groups_of(source, paths, commands):
    """Lists of paths: those of the library, those of each program, the programs of one source, and those that must be checked alone."""
    sizes = collections.Counter(os.path.dirname(path) for path in paths)
    together = {}
    for path in paths:
        directory = os.path.dirname(path)
        is_program = directory == EXAMPLES or sizes[directory] == 1 and directory.startswith('apps/')
        key = path if is_alone(source, path) else 'lib' if path.startswith('lib/') else EXAMPLES if is_program else directory
        together.setdefault(key, []).append(path)
    for group in together.values():
        parts = -(-len(group) // MOST)
        size = -(-len(group) // parts)
        for first in range(0, len(group), size):
            yield group[first:first + size]


def joined(source, group):
    """The text of a source that includes those of the group. Programs of one source use the same names, so each gets a namespace."""
    are_programs = not group[0].startswith('lib/') and (group[0].startswith(EXAMPLES) or len(set(map(os.path.dirname, group))) > 1)
    texts = [text_of(source, path) for path in group] if are_programs else []
    lines = list(dict.fromkeys(line for text in texts for line in re.findall(r'^#include .*$', text, re.MULTILINE)))
    for number, path in enumerate(group):
        include = f'#include "{os.path.join(source, path)}"'
        lines += ([f'namespace source_{number} {{', include, '}'] if are_programs else [f'#define main main_of_{number}', include, '#undef main'])
    return '\n'.join(lines) + '\n'


def words_for(group, commands):
    """The words of the first source's command, with the include paths and macros that only other sources of the group have."""
    first = commands[group[0]][1]
    more = dict.fromkeys(word for path in group for word in commands[path][1] if re.match(r'-[DI]|-isystem', word) and word not in first)
    return [first[0], *more, *first[1:]]


# A diagnostic about a name that hides another one, with both places.
SHADOW = re.compile(r'^(\S+?):\d+:\d+: error: declaration shadows .*\n(?:.*\n)*?(\S+?):\d+:\d+: note: previous declaration is here$',
                    re.MULTILINE)


def is_of_joining(output):
    """Whether the only diagnostics are about names of one source that hide names of another source."""
    shadows = SHADOW.findall(output)
    return len(shadows) == len(re.findall(r'^\S+:\d+:\d+: (?:error|warning): ', output, re.MULTILINE)) and \
        all(hidden.endswith('.cpp') and hidden != place for place, hidden in shadows)


def checks_of(configuration):
    """What .clang-tidy checks, without the folders whose headers it checks."""
    return [line for line in configuration.splitlines() if not line.startswith('HeaderFilterRegex')]


def recent_sources(source, build):
    """The sources to check, as parts of paths. All, if git does not know what has changed: without a repository, and in one of one commit."""
    try:
        base = changed.recent_base(source)
        files = changed.changed_files(source, base)[0] if base else None
        if files is None or '.clang-tidy' in files and \
                checks_of(changed.git(source, 'show', f'{base}:.clang-tidy')) != checks_of(text_of(source, '.clang-tidy')):
            return ['']
    except (OSError, subprocess.CalledProcessError):
        return ['']
    return changed.tidy_sources(changed.read_build(source, build), files)


class Tidy:
    def __init__(self, source, commands, scratch):
        self.source, self.commands, self.scratch = source, commands, scratch

    def run(self, group):
        """The groups still to be checked, if this one failed and has several sources, and [(path, output or None)]."""
        directory = self.commands[group[0]][0]
        words = words_for(group, self.commands)
        folder = tempfile.mkdtemp(dir=self.scratch)
        name = os.path.join(folder, 'sources.cpp')
        with open(name, 'w', encoding='utf-8') as file:
            file.write(joined(self.source, group))
        target = os.path.join(self.source, group[0]) if len(group) == 1 else name
        with open(os.path.join(folder, 'compile_commands.json'), 'w', encoding='utf-8') as file:
            json.dump([{'directory': directory, 'arguments': [*words, '-Wshadow', '-c', target], 'file': target}], file)
        done = subprocess.run(['clang-tidy-19', '--quiet', '-p', folder, '--config-file=' + os.path.join(self.source, '.clang-tidy'),
                               '--checks=clang-diagnostic-shadow,-bugprone-suspicious-include', target], capture_output=True, text=True)
        if done.returncode == 0 or len(group) > 1 and is_of_joining(done.stdout):
            return [], [(path, None) for path in group]
        if len(group) == 1:
            return [], [(group[0], done.stdout + done.stderr)]
        middle = len(group) // 2
        return [group[:middle], group[middle:]], []


def main():
    source, build = (os.path.abspath(argument) for argument in sys.argv[1:3])
    parts = sys.argv[3:] or ['']
    if parts == ['--recent']:
        parts = recent_sources(source, build)
    commands = compile_commands(source, build)
    paths = sorted(path for path in commands if path.startswith(('lib/', 'apps/', 'bench/', 'testing/')) and path.endswith('.cpp') and any(part in path for part in parts))
    print(f'1..{len(paths)}' if paths else '1..1\nok 1 - no source has changed', flush=True)
    number = failed = 0
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        tidy = Tidy(source, commands, scratch)
        running = {pool.submit(tidy.run, group) for group in sorted(groups_of(source, paths, commands), key=len, reverse=True)}
        while running:
            ended, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for groups, results in (future.result() for future in ended):
                running |= {pool.submit(tidy.run, group) for group in groups}
                for path, output in results:
                    number += 1
                    failed += output is not None
                    print(f'{"ok" if output is None else "not ok"} {number} - {path}', flush=True)
                    if output is not None:
                        print(*(f'# {line}' for line in output.splitlines()), sep='\n', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
