#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses what to check after a change: `sh tests/run.sh --changed BASE` runs it.

  changed.py BASE BUILD     prints the choice and its reasons, and writes lists to BUILD/changed/: tests, targets, tidy, format, headers;
                            the file `plain` exists if the whole plain lane is needed
  changed.py --recent       prints the commit since which CI checks changed files
  changed.py --recent LANE  prints LANE, if a file that it depends on has changed since then, or git cannot tell: a lane of RECENT

A change is the difference between the commit BASE and the working tree, with files that git does not know yet. Files that the compiler reads
affect tests by the dependencies that ninja has recorded: from a file to objects, from objects to programs. Nearly every program is linked
with the library, but it can execute only those objects of it whose symbols it needs, directly or through other objects: the
symbols of objects say which. Other files affect tests by their commands, by what Python files import, and by the table KINDS. A
file that none of these know affects all tests.
"""

import collections
import json
import os
import re
import subprocess
import sys

# Suites that the plain lane leaves out, with the lane that runs them.
LANES = {'slow': 'slow', 'consumers': 'slow', 'gpu': 'slow', 'hosts': 'hosts'}

ALL = 'all'  # the whole plain lane
LINTS = 'lints'  # lints, which always run
DEFINED = 'defined'  # tests of the folder that the file is in

# The first pattern that matches a file that neither ninja nor the command of a test other than a lint knows.
KINDS = [
    (r'tests/(run\.sh|setup\.sh|packages|launch\.env|targets\.py|tally\.py)', ALL, ''),
    (r'(lib|apps|bench|testing|tests|python)/.*\.md|[^/]*\.md|include/.*\.md|docs/.*|packaging/.*\.md|LICENSE', LINTS, ''),
    (r'tests/(lint|compile_fail)/.*', LINTS, ''),
    (r'tests/(changed|lint/changed_test)\.py|apps/demo\.sh|\.clang-format|\.gitignore|\.gitattributes|\.github/.*|\.ci/.*', LINTS, ''),
    (r'\.clang-tidy', LINTS, 'tidy, which checks every source'),
    (r'.*\.cu|.*\.cuh|lib/device/cuda/.*|lib/bindings/(cuda|nccl)/.*', LINTS, 'cuda'),
    (r'tests/sanitizers/.*', LINTS, 'clang and tsan'),
    (r'tests/torch/.*|python/.*', LINTS, 'torch'),
    (r'tests/programs/.*', LINTS, 'programs'),
    (r'tests/fuzz/.*\.(sh|py)', LINTS, 'fuzz'),
    (r'packaging/.*|tests/consumers/.*', LINTS, 'slow, which installs lockstep'),
    (r'tests/(meson\.build|support/.*|[^/]*)', ALL, ''),
    (r'(tests|apps|bench)/.*/.*', DEFINED, ''),
]

# Lanes that CI leaves out if no such file has changed lately: `kernels` tests what plain tests, compiled for other processors and GPUs.
RECENT = {
    'kernels': r'(include/lockstep|lib)/core/.*|lib/(kernels|device/cuda|bindings/(cuda|nccl))/.*|lib/device/meson\.build|'
               r'lib/schedule/canonical_tree\..*|tests/unit/(kernels/.*|device/gpu_.*)|tests/support/fake_kernels.*|'
               r'tests/lint/(registers|architectures|exports|needed)\.py|meson_options\.txt',
}


def lane_of(suites):
    return next((LANES[suite] for suite in LANES if suite in suites), 'plain')


Test = collections.namedtuple('Test', 'name suites words depends')  # words of the command and targets: paths relative to the sources


class Build:
    """What a build knows. Paths are relative to the sources, also those of outputs.

    inputs   {output: inputs that its command reads}
    deps     {object: files that the compiler has read}
    symbols  {object: (symbols that it defines, symbols that it needs)} of the library
    needs    a function: object -> symbols that it needs
    library  a function: output -> whether it is a form of the library, of which a program executes only what it needs
    """

    def __init__(self, inputs, deps, symbols, needs, library):
        self.inputs, self.deps, self.symbols, self.needs, self.library = inputs, deps, symbols, needs, library
        self.read = {}
        self.parts = {}
        self.definers = collections.defaultdict(set)
        for path, (defined, _) in symbols.items():
            for symbol in defined:
                self.definers[symbol].add(path)

    def files(self, path):
        """Every file from which a file is made, without going through objects that are linked: of an object its sources and headers."""
        if path not in self.read:
            self.read[path] = {path}  # ends a cycle
            below = set(self.inputs.get(path, ())) | set(self.deps.get(path, ()))
            self.read[path] = {path}.union(*(self.files(name) for name in below))
        return self.read[path]

    def objects(self, target):
        """The objects and other inputs that a target executes or contains."""
        if target not in self.parts:
            own, from_library = set(), False
            ahead, seen = [target], {target}
            while ahead:
                path = ahead.pop()
                if path != target and self.library(path):
                    from_library = True
                elif path.endswith('.o') or path not in self.inputs:
                    own.add(path)
                else:
                    ahead += [name for name in self.inputs[path] if name not in seen]
                    seen.update(self.inputs[path])
            self.parts[target] = own | (self.reached(own) if from_library else set())
        return self.parts[target]

    def reached(self, own):
        """Objects of the library that define what these objects need, what those need, and so on."""
        found = set()
        needed = set().union(*(self.needs(path) for path in own if path.endswith('.o')), set())
        while needed:
            more = set().union(*(self.definers.get(symbol, ()) for symbol in needed)) - found
            found |= more
            needed = set().union(*(self.symbols[path][1] for path in more), set())
        return found

    def compiled(self, path):
        """Whether the compiler has recorded what an object reads; if not, anything may affect it."""
        return not path.endswith('.o') or path in self.deps

    def known(self):
        return set().union(*self.deps.values(), *self.inputs.values())

    def affected(self, target, changed):
        """Why a change affects a target: one of its files, or None."""
        for path in sorted(self.objects(target)):
            if not self.compiled(path):
                return path + ', which has not been built'
            found = self.files(path) & changed
            if found:
                return sorted(found)[0]
        return None


def imported(source, path, cache):
    """The Python files of tests/ that a Python file imports, directly or not. A module is looked up by its name in any folder."""
    if path not in cache:
        cache[path] = {path}
        try:
            with open(os.path.join(source, path), encoding='utf-8') as file:
                text = file.read()
        except OSError:
            text = ''
        names = set(re.findall(r'^\s*(?:import|from)\s+(\w+)', text, re.MULTILINE))
        for name in names & set(cache['modules']):
            for module in cache['modules'][name]:
                cache[path] |= imported(source, module, cache)
    return cache[path]


def modules(files):
    """{name: Python files of tests/ with this name}"""
    found = collections.defaultdict(list)
    for path in files:
        if path.startswith('tests/') and path.endswith('.py'):
            found[os.path.basename(path)[:-3]].append(path)
    return found


class Choice:
    """What a change affects."""

    def __init__(self):
        self.tests = {}  # Test -> reason
        self.plain = []  # reasons for the whole plain lane
        self.lanes = {}  # lane that is not run -> reason

    def add(self, test, reason):
        self.tests.setdefault(test, reason)


def is_inside(path, folder):
    return path == folder or path.startswith(folder + '/')


def by_commands(tests, path, scripts):
    """Tests that name a file, or a folder around it, in their commands, or whose scripts import it."""
    return [test for test in tests if path in scripts(test) or any(is_inside(path, word) for word in test.words if word != '.')]


def by_folder(tests, path, build_name):
    """Tests whose program or script is in the folder of a file."""
    folder = os.path.dirname(path)
    return [test for test in tests
            if any(is_inside(name, folder) or is_inside(name, f'{build_name}/{folder}') for name in [*test.words, *test.depends])]


def choose(build, tests, changed, new, scripts, build_name='build'):
    """The Choice for changed files, of which BASE does not have the new ones."""
    choice = Choice()
    known = build.known()
    by_ninja = {path for path in changed if path in known}
    for path in sorted(changed - by_ninja):
        found = by_commands(tests, path, scripts)
        for test in found:
            choice.add(test, path)
        if any('lint' not in test.suites for test in found):
            continue
        if os.path.basename(path) == 'meson.build' and re.match(r'(tests|apps|bench)/[^/]+/', path) and not path.startswith('tests/support/'):
            effect, lane = DEFINED, ''
        else:
            effect, lane = next(((effect, lane) for pattern, effect, lane in KINDS if re.fullmatch(pattern, path)), (ALL, ''))
        if path in new and re.fullmatch(r'(lib|include|apps|bench|testing|tests)/.*\.(hpp|h)', path):
            continue  # no source that BASE has includes it, so those that do have changed
        if lane:
            choice.lanes.setdefault(lane, path)
        if effect == DEFINED:
            found = by_folder(tests, path, build_name)
            for test in found:
                choice.add(test, path)
            effect = LINTS if found else ALL
        if effect == ALL:
            choice.plain.append(path)
    for test in tests:
        for target in test.depends if by_ninja else ():
            reason = build.affected(target, by_ninja)
            if reason:
                choice.add(test, reason)
                break
    headers = sorted(path for path in changed if path.startswith('include/') and path.endswith(('.hpp', '.h')))
    misuse = sorted(path for path in changed if is_inside(path, 'tests/compile_fail'))
    for test in tests:
        if 'lint' in test.suites and lane_of(test.suites) == 'plain' and test.name != 'compile-fail':
            choice.add(test, 'a lint')
        elif headers and (test.name == 'compile-fail' or 'consumers' in test.suites):
            choice.add(test, headers[0])
        elif test.name == 'compile-fail' and misuse:
            choice.add(test, misuse[0])
    return choice


# What follows asks git, ninja, meson and nm.

def output_of(words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def git(source, *words):
    return output_of(['git', '-C', source, *words])


def changed_files(source, base):
    """(changed files, those of them that BASE does not have), without symbolic links and submodules."""
    lines = git(source, 'diff', '--no-renames', '--name-status', base, '--').splitlines()
    status = dict(reversed(line.split('\t', 1)) for line in lines)
    untracked = git(source, 'ls-files', '--others', '--exclude-standard').splitlines()
    return set(status) | set(untracked), {path for path, kind in status.items() if kind == 'A'} | set(untracked)


def old_commit(source):
    """The newest commit that is two days older than HEAD or more; empty if there is none. Of a merge, the first parent is looked at."""
    newest = int(git(source, 'show', '--no-patch', '--format=%ct', 'HEAD'))
    return git(source, 'rev-list', '--first-parent', '--max-count=1', f'--before={newest - 2 * 24 * 3600}', 'HEAD').strip()


def recent_base(source):
    """What old_commit returns; HEAD's parent if there is none; None if the clone has no parent."""
    old = old_commit(source)
    parent = subprocess.run(['git', '-C', source, 'rev-parse', '--quiet', '--verify', 'HEAD^'], capture_output=True, text=True).stdout.strip()
    return old or parent or None


def is_needed(source, lane):
    """Whether CI must run a lane of RECENT: also if git does not know, or the history has no commit of two days ago."""
    try:
        old = old_commit(source)
        return not old or any(re.fullmatch(RECENT[lane], path) for path in changed_files(source, old)[0])
    except (OSError, subprocess.CalledProcessError):
        return True


def statements(text):
    """{output: inputs} of the build statements of a build.ninja, without order-only inputs."""
    found = {}
    for line in text.replace('$\n', '').split('\n'):
        if line.startswith('build '):
            words = [word.replace('$ ', ' ').replace('$:', ':') for word in re.findall(r'(?:\$.|[^\s$:|]|(?<=\S):(?=\S))+|\|\||\||:', line[6:])]
            colon = words.index(':')
            inputs = words[colon + 2:]
            inputs = inputs[:inputs.index('||')] if '||' in inputs else inputs
            for output in words[:colon]:
                if output != '|':
                    found[output] = [word for word in inputs if word != '|']
    return found


def recorded(text):
    """{object: files} of what `ninja -t deps` prints."""
    found, files = {}, []
    for line in text.splitlines():
        if line.startswith('    '):
            files.append(line.strip())
        elif ': #deps' in line:
            files = found.setdefault(line.split(': #deps')[0], [])
    return found


def symbols_of(path):
    defined, needed = set(), set()
    for line in output_of(['nm', '--extern-only', '--format=posix', path]).splitlines():
        symbol, kind = line.split()[:2]
        (needed if kind in 'Uwv' else defined).add((symbol, kind))
    # An inline function is in every object that uses it.
    return {symbol for symbol, kind in defined if kind not in 'WVu'}, {symbol for symbol, _ in needed}, {symbol for symbol, _ in defined}


def read_build(source, folder):
    def relative(path):
        return os.path.relpath(os.path.join(folder, path), source)

    with open(os.path.join(folder, 'build.ninja'), encoding='utf-8') as file:
        inputs = {relative(output): [relative(name) for name in names] for output, names in statements(file.read()).items()}
    deps = {relative(name): {relative(file) for file in files} for name, files in recorded(output_of(['ninja', '-C', folder, '-t', 'deps'])).items()}
    inputs.pop(relative('build.ninja'))  # made from the files of Meson, which are in KINDS
    for name in list(inputs):  # sources that a unity file joins, also if it has not been compiled
        for unity in [path for path in inputs[name] if re.fullmatch(r'.*-unity\d+\.cpp', path) and os.path.exists(os.path.join(source, path))]:
            with open(os.path.join(source, unity), encoding='utf-8') as file:
                inputs[name] = inputs[name] + [relative(path) for path in re.findall(r'#include\s*<(.*)>', file.read())]
    cache = {}

    def symbols(path):
        if path not in cache:
            exists = os.path.exists(os.path.join(source, path))
            cache[path] = symbols_of(os.path.join(source, path)) if exists else (set(), set(), set())
        return cache[path]

    build = os.path.relpath(folder, source)
    objects = [path for path in inputs if path.endswith('.o') and re.match(re.escape(build) + r'/lib/', path)]
    strong = set().union(*(symbols(path)[0] for path in objects), set())
    # What only weak symbols define, such as explicit instantiations, all of these may define.
    table = {path: (symbols(path)[0] | (symbols(path)[2] - strong), symbols(path)[1]) for path in objects}
    known_library = re.compile(re.escape(build) + r'/lib/(liblockstep(-internal)?\.(a|so[.\d]*)|liblockstep\.so.*\.symbols)')
    return Build(inputs, deps, table, lambda path: symbols(path)[1], lambda path: known_library.fullmatch(path) is not None)


def read_tests(source, folder):
    def described(what):
        with open(os.path.join(folder, 'meson-info', f'intro-{what}.json'), encoding='utf-8') as file:
            return json.load(file)

    def relative(path):
        return os.path.relpath(os.path.join(folder, path), source)

    outputs = {target['id']: [relative(path) for path in target['filename']] for target in described('targets')}
    tests = []
    for test in described('tests'):
        words = tuple(relative(word) for word in test['cmd'] if '/' in word and os.path.exists(os.path.join(folder, word)))
        depends = tuple(path for target in test['depends'] for path in outputs[target])
        tests.append(Test(test['name'], tuple(suite.split(':')[-1] for suite in test['suite']), words, depends))
    return tests


def report(choice, tests, changed):
    """Lines that say what runs, and what does not."""
    here = [test for test in choice.tests if lane_of(test.suites) == 'plain']
    yield f'{len(changed)} files changed; they affect {len(here)} of {sum(lane_of(test.suites) == "plain" for test in tests)} tests of the plain lane'
    for test in sorted(here):
        if choice.tests[test] != 'a lint':
            yield f'  {test.name}: {choice.tests[test]}'
    yield f'  and {sum(choice.tests[test] == "a lint" for test in here)} lints'
    for path in choice.plain:
        yield f'the whole plain lane, because of {path}'
    left_out = collections.defaultdict(list)
    for test in choice.tests:
        left_out[lane_of(test.suites)].append(test.name)
    for lane in sorted(set(left_out) - {'plain'}):
        yield f'left out, of the lane {lane}: ' + ', '.join(sorted(left_out[lane]))
    for lane, path in choice.lanes.items():
        yield f'left out: lane {lane}, because of {path}'
    if any(path.endswith(('.cpp', '.hpp', '.h', '.c')) for path in changed):
        yield 'left out: the same tests with MPICH and with sanitizers (lanes mpich, clang, tsan)'


def tidy_sources(build, changed):
    """Sources that clang-tidy checks for these files: themselves; for a header, that of its name, or else one that includes it."""
    sources = {path for path in changed if re.fullmatch(r'(lib|apps|bench|testing)/.*\.cpp', path)}
    readers = sorted({path for files in build.deps.values() for path in files if re.fullmatch(r'(lib|apps|bench|testing)/.*\.cpp', path)})
    for header in sorted(changed):
        if re.fullmatch(r'(include/lockstep|lib|apps|bench|testing)/.*\.hpp', header):
            stem = re.sub(r'^include/lockstep/', 'lib/', header)[:-len('hpp')] + 'cpp'
            including = [stem] if stem in readers else []
            for name in sorted(build.deps) if not including else ():
                own = sorted(path for path in build.deps[name] if path in readers)
                if header in build.deps[name] and own:
                    including = own[:1]
                    break
            sources.update(including)
    return sources


def main():
    source = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
    if sys.argv[1:] == ['--recent']:
        print(recent_base(source) or '')
        return
    if sys.argv[1] == '--recent':
        print(sys.argv[2] if is_needed(source, sys.argv[2]) else '')
        return
    base, folder = sys.argv[1], os.path.realpath(sys.argv[2])
    changed, new = changed_files(source, base)
    build, tests = read_build(source, folder), read_tests(source, folder)
    cache = {'modules': modules(git(source, 'ls-files', '--cached', '--others', '--exclude-standard', 'tests').splitlines())}

    def scripts(test):
        return set().union(*(imported(source, word, cache) for word in test.words if word.endswith('.py')), set())

    choice = choose(build, tests, changed, new, scripts, os.path.relpath(folder, source))
    print(*report(choice, tests, changed), sep='\n')
    here = [test for test in choice.tests if lane_of(test.suites) == 'plain']
    there = [path for path in changed if os.path.exists(os.path.join(source, path))]
    written = {
        'tests': sorted({test.name for test in here}),
        # the lints compare symbols of the library and of its objects; tests of other lanes must at least compile and link
        'targets': sorted({os.path.relpath(os.path.join(source, path), folder) for test in choice.tests for path in test.depends}),
        'format': sorted(path for path in there if path.endswith(('.hpp', '.cpp', '.cu', '.cuh'))),
        'tidy': sorted(path for path in tidy_sources(build, set(there)) if os.path.exists(os.path.join(source, path))),
        'headers': sorted(os.path.relpath(path, 'include') for path in there if re.fullmatch(r'include/.*\.hpp', path)),
        'plain': choice.plain,
    }
    os.makedirs(os.path.join(folder, 'changed'), exist_ok=True)
    for name, lines in written.items():
        with open(os.path.join(folder, 'changed', name), 'w', encoding='utf-8') as file:
            file.writelines(line + '\n' for line in lines)


if __name__ == '__main__':
    main()
