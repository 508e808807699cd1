#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Hash logs of programs under mpiexec, and what lockstep-diff says of them.

diff_test.py SOURCE DIFF HASHED WORKERS MPIEXEC [OPTION...]
"""

import atexit
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from programs import Launcher, expect, expect_in, marked_line, run_cases  # noqa: E402

source, diff, hashed, workers = (os.path.abspath(argument) for argument in sys.argv[1:5])
launcher = Launcher(sys.argv[5:])
work = tempfile.mkdtemp()
atexit.register(shutil.rmtree, work)
runs = {}
HASH = "[0-9a-f]{16}"


def line_of(comment):
    return marked_line(source, "apps/hashed.cpp", comment)


def logged(ranks, *arguments, program=hashed):
    """The directory with the logs of a run, which is made once."""
    key = (program, ranks, arguments)
    if key not in runs:
        directory = os.path.join(tempfile.mkdtemp(dir=work), "made by the ranks")
        result = launcher.run(ranks, program, *arguments, env=dict(os.environ, LOCKSTEP_HASH_LOG=directory))
        expect(result.returncode == 0, result.stderr)
        expect(len(os.listdir(directory)) == ranks, str(os.listdir(directory)))
        runs[key] = directory
    return runs[key]


def compared(a, b):
    result = subprocess.run([diff, a, b], capture_output=True, text=True, timeout=100, check=False)
    return result.returncode, result.stdout, result.stderr


def are_equal(a, b, pattern):
    def case():
        code, text, errors = compared(a(), b())
        expect(code == 0 and errors == "" and re.search(pattern, text), f"{code}: {text}{errors}")
    return case


def differ(a, b, *patterns):
    def case():
        code, text, errors = compared(a(), b())
        expect(code == 1 and errors == "", f"{code}: {text}{errors}")
        for pattern in patterns:
            expect(re.search(pattern, text), f"{pattern!r} is not in:\n{text}")
    return case


def cannot_be_compared(a, b, part):
    def case():
        code, text, errors = compared(a(), b())
        expect(code == 2 and text == "" and errors.startswith("lockstep-diff: ") and part in errors, f"{code}: {text}{errors}")
    return case


def run(ranks, *arguments, program=hashed):
    return lambda: logged(ranks, *arguments, program=program)


def edited(directory, edit):
    """A copy of the logs in which `edit` has changed the files; it gets their paths, by rank."""
    def copy():
        target = tempfile.mkdtemp(dir=work)
        paths = [shutil.copy(path, target) for path in sorted(glob.glob(directory() + "/*"))]
        edit(paths)
        return target
    return copy


def changes_an_output(paths):
    """Rank 1 gets another result of the last operation of world that has one: all_to_all, item 0."""
    with open(paths[1], encoding="utf-8") as file:
        lines = file.read().splitlines()
    calls = [json.loads(line) for line in lines if '"kind":"all_to_all"' in line]
    at = next(k for k, line in enumerate(lines) if line.startswith('{"c"') and json.loads(line)["of"] == calls[0]["call"])
    operation = json.loads(lines[at])
    operation["out"][1] = "0123456789abcdef"
    lines[at] = json.dumps(operation)
    with open(paths[1], "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def cuts_the_last_line(paths):
    """As if the disk had been full: the last operation is missing."""
    with open(paths[0], "r+", encoding="utf-8") as file:
        text = file.read()
        file.truncate(len(text) - 5)


def damages_a_line(paths):
    with open(paths[0], "a", encoding="utf-8") as file:
        file.write('{"c": 1, "of": 99, "n": 1, "in": [], "out": []}\n')


def nests_lists(paths):
    with open(paths[0], "a", encoding="utf-8") as file:
        file.write('{"call": ' + "[" * 200000 + "]" * 200000 + "}\n")


def renames_a_call(paths):
    """The name of a call in B clears the screen."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"name":"gradients"', '"name":"\\u001b[2J"').replace('named \\"gradients\\"', 'named \\"\\u001b[2J\\"'))


def texts_are_escaped():
    code, text, errors = compared(run(2, 4)(), edited(run(2, 4), renames_a_call)())
    expect(code == 1 and r'named "\x1b[2J" at' in text and "\x1b" not in text + errors, f"{code}: {text}{errors}")


def several_jobs_are_told_apart():
    directory = tempfile.mkdtemp(dir=work)
    for job, change in (("one", ()), ("two", ("element",))):
        for path in glob.glob(logged(2, 4, *change) + "/*"):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r'"job":"?[^",]*"?', f'"job":"{job}"', file.read(), count=1)
            with open(re.sub(r".*/lockstep-.*-rank", f"{directory}/lockstep-{job}-rank", path), "w", encoding="utf-8") as file:
                file.write(text)
    cannot_be_compared(lambda: directory, run(2, 4), f"there are logs of several jobs (one, two); give one of them as {directory}/lockstep-one")()
    differ(lambda: directory + "/lockstep-one", lambda: directory + "/lockstep-two", "A: job one, 2 ranks", "replica 2 differs")()
    are_equal(lambda: directory + "/lockstep-one", run(2, 4), "\nequal: ")()


def no_variable_no_file():
    directory = tempfile.mkdtemp(dir=work)
    result = subprocess.run(launcher.command + ["-n", "2", hashed, "4"], capture_output=True, text=True, timeout=100, cwd=directory, check=False)
    expect(result.returncode == 0 and os.listdir(directory) == [], result.stderr + str(os.listdir(directory)))


def refuses(text, value):
    def case():
        result = launcher.run(2, hashed, "4", env=dict(os.environ, LOCKSTEP_HASH_LOG=value))
        expect(result.returncode == 2 and text in result.stderr, f"exit code {result.returncode}: {result.stderr}")
    return case


def the_log_has_what_is_documented():
    with open(glob.glob(logged(2, 4) + "/*rank1*")[0], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    expect(lines[0]["lockstep_hash_log"] == 1 and (lines[0]["rank"], lines[0]["size"]) == (1, 2), str(lines[0]))
    world = next(line for line in lines if line.get("name") == "world")
    expect(world["replicas"] == [2, 2] and world["job_ranks"] == [0, 1] and world["rank"] == 1, str(world))
    call = next(line for line in lines if line.get("name") == "gradients")
    expect_in(["all_reduce sum of 2 tensors"], call["text"])
    expect(f'{call["file"]}:{call["line"]}' == line_of("the gradients") and call["items"][1]["inputs"] == ["f32 [1000]"] * 2, str(call))
    operations = [line for line in lines if line.get("of") == call["call"]]
    expect(len(operations) == 3 and all(len(each["in"]) == len(each["out"]) == 4 for each in operations), str(operations))
    for each in operations:
        # both outputs of the same item have the same sum, and the inputs of the replicas differ
        expect(each["out"][0] == each["out"][1] and each["in"][0] != each["in"][1] and re.fullmatch(HASH, each["in"][0]), str(each))
    expect([each["n"] for each in operations] == sorted(each["n"] for each in operations), str(operations))


GRADIENTS = rf'all_reduce sum of 2 tensors \(first f32 \[10\], 1010 elements in all\) named "gradients" at {line_of("the gradients")}'
WEIGHTS = rf"broadcast of f32 \[8\] with root 0 at {line_of('the weights')}"
OPERATIONS = 3 * 4 + 8

sys.exit(run_cases([
    ("two equal runs", are_equal(run(2, 4), edited(run(2, 4), lambda paths: None), rf"\nequal: {OPERATIONS + 2} operations of \d communicators, \d+ hashes\n$")),
    ("runs on 1 and 2 ranks with the same replicas", are_equal(run(1, 4), run(2, 4), rf"\nequal: {OPERATIONS} operations of \d communicators?, \d+ hashes\n")),
    ("runs on 4 and 2 ranks with the same replicas", are_equal(run(4, 4), run(2, 4), rf"\nequal: {OPERATIONS} operations of ")),
    ("a strategy on 4 and 2 ranks", are_equal(run(4, 1, program=workers), run(2, 2, program=workers), r"\nequal: [1-9]\d* operations? of ")),
    ("one element of one replica", differ(
        run(2, 4), run(2, 4, "element"), rf"\ndifferent: operation #\d+ of world, {GRADIENTS}\n",
        rf"\n  the input of item 1 of replica 2 differs: f32 \[1000\] with hash {HASH} on rank 1 in A, {HASH} on rank 1 in B\n",
        rf"\n  before: 4 operations of world are equal; the last one is #\d+, all_reduce max of 2 tensors")),
    ("one element of one replica on another layout", differ(
        run(4, 4), run(2, 4, "element"), rf"\ndifferent: operation #\d+( in A, #\d+ in B)? of world, {GRADIENTS}\n",
        rf"\n  the input of item 1 of replica 2 differs: f32 \[1000\] with hash {HASH} on rank 2 in A, {HASH} on rank 1 in B\n")),
    ("the input of a root", differ(
        run(2, 4), run(2, 4, "root"), rf"\ndifferent: operation #\d+ of world, {WEIGHTS}\n",
        rf"\n  the input of the root differs: f32 \[8\] with hash {HASH} on rank 0 in A, {HASH} on rank 0 in B\n")),
    ("a call that one run leaves out", differ(
        run(2, 4), run(2, 4, "skips"), rf"\ndifferent: operation #\d+ of world, {GRADIENTS}\n", rf"\n  in B at {line_of('the plan')}\n",
        rf"\n  rank 0 in A calls {GRADIENTS}\n  rank 0 in B calls all_reduce mean of f32 \[3\] at {line_of('the plan')}\n")),
    ("a run that ends early", differ(
        run(2, 4), run(2, 4, "ends"), rf"\ndifferent: operation #\d+ of world, {GRADIENTS}\n",
        r"\n  rank 0 of A made this call, but rank 0 of B made none\n  before: 8 operations of world are equal; ")),
    ("a communicator of some ranks", differ(
        run(2, 4), run(2, 4, "half"), rf"\ndifferent: operation #\d+ of half, all_reduce sum of f64 \[5\] at {line_of('the half')}\n",
        r"\n  the input of replica 0 differs: f64 \[5\] .* on rank 0 in A", r"\n  it is the first operation of the communicator in the logs\n")),
    ("an output with equal inputs", differ(
        run(2, 4), edited(run(2, 4), changes_an_output), r"\ndifferent: operation #\d+ of world, all_to_all of f32 \[16\]",
        rf"\n  the output of replica 3 differs: f32 \[16\] with hash {HASH} on rank 1 in A, 0123456789abcdef on rank 1 in B\n",
        r"\n  all inputs of this operation are equal, so the operation itself gave another result\n")),
    ("a log whose last line is incomplete", differ(
        run(2, 4), edited(run(2, 4), cuts_the_last_line), r"\ndifferent: only A has operations of half \(ranks 0\), a communicator that the other run has not\n")),
    ("other numbers of replicas", cannot_be_compared(run(2, 4), run(2, 2), "world has 4 replicas in A but 2 in B")),
    ("a missing rank", cannot_be_compared(run(2, 4), edited(run(2, 4), lambda paths: os.remove(paths[1])), "the log of rank 1 is missing; job ")),
    ("a damaged log", cannot_be_compared(run(2, 4), edited(run(2, 4), damages_a_line), "the call is not described")),
    ("a log with lists inside each other", cannot_be_compared(run(2, 4), edited(run(2, 4), nests_lists), "not a line of a hash log of lockstep: more than 64 levels of nesting at byte 73")),
    ("texts of a log are escaped", texts_are_escaped),
    ("a directory without logs", cannot_be_compared(run(2, 4), lambda: "/proc/self/task", "/proc/self/task: there are no hash logs; run the program with")),
    ("logs of several jobs", several_jobs_are_told_apart),
    ("the log has what is documented", the_log_has_what_is_documented),
    ("without the variable there is no file", no_variable_no_file),
    ("LOCKSTEP_HASH_LOG that cannot be written", refuses('LOCKSTEP_HASH_LOG="/proc/none": the file /proc/none/lockstep-', "/proc/none")),
    ("LOCKSTEP_HASH_LOG that is empty", refuses('LOCKSTEP_HASH_LOG="": expected the name of a directory', "")),
]))
