#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Flight records of programs under mpiexec, and what lockstep-explain says of them.

explain_test.py SOURCE EXPLAIN RECORDED EXAMPLE RECOVERY_OPTION MPIEXEC [OPTION...]

RECOVERY_OPTION makes mpiexec keep the other ranks when one has died; "" if there is none.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from programs import Launcher, expect, expect_in, marked_line, run_cases  # noqa: E402
from tap import Skip  # noqa: E402

source, explain, recorded, example = (os.path.abspath(argument) for argument in sys.argv[1:5])
recovery = sys.argv[5]
LIMIT_S = 100
WRITTEN = "SIGQUIT: the flight record of this rank is"
launcher = Launcher(sys.argv[6:])
recovering_launcher = Launcher(sys.argv[6:] + [recovery])


def line_of(comment):
    return marked_line(source, "apps/recorded.cpp", comment)


REDUCE = f"all_reduce sum of f32 [4] at {line_of('the forgotten call')}"
BROADCAST = f"broadcast of f32 [8] with root 0 at {line_of('the next call')}"


def variables(directory, **others):
    others.setdefault("LOCKSTEP_RECORDER", f"512,{directory}")
    return dict(os.environ, **others)


def explained(*arguments):
    result = subprocess.run([explain, *arguments], capture_output=True, text=True, timeout=100, check=False)
    expect(result.returncode == 0 and result.stderr == "", result.stderr)
    return result.stdout


def explains(mistake, lines, pattern=""):
    """All ranks see the mistake themselves."""

    def case():
        with tempfile.TemporaryDirectory() as directory:
            result = launcher.run(3, recorded, mistake, env=variables(directory))
            expect(len(os.listdir(directory)) == 3, str(os.listdir(directory)) + result.stderr)
            text = explained(directory)
            expect("job " in text and ": 3 files of 3 ranks, written " in text, text)
            expect_in([line + "\n" for line in lines], text)
            expect(re.search(pattern, text), f"{pattern!r} is not in:\n{text}")

    return case


def a_dead_rank():
    if not recovery:
        raise Skip("the launcher of these tests may end the job when one rank ends")
    with tempfile.TemporaryDirectory() as directory:
        result = recovering_launcher.run(3, "sh", "-c", '"$@" || true', "sh", recorded, "dies", env=variables(directory))
        expect(len(os.listdir(directory)) == 2, str(os.listdir(directory)) + result.stdout + result.stderr)
        expect_in(["no file of rank 1\n", "world, operation #4: rank 1 is missing\n", f"  ranks 0, 2: failed in {REDUCE}\n",
                   "  rank 1: no file: it has ended, was killed or is stopped", "  error: "], explained(directory))


def until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        expect(time.monotonic() < end, f"not within {LIMIT_S} s: {what()}")
        time.sleep(0.02)


def sigquit_writes(directory, folder):
    """Sends SIGQUIT to all ranks while two of them wait; returns what the ranks log."""
    log, go_on = os.path.join(folder, "stderr"), os.path.join(folder, "go-on")

    def handle_sigquit():  # a shell ignores it in the programs that it starts in the background
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)

    command = launcher.command + ["-n", "3", "sh", "-c", 'exec "$@" 2>>"$0"', log, recorded, "waits-for-signal", go_on]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=handle_sigquit,
                           env=variables(directory))
    try:
        ranks = {}
        while len(ranks) < 3:
            line = job.stdout.readline()
            expect(line, "the job has ended")
            found = re.search(r"pid (\d+) of rank (\d)", line)
            ranks[int(found.group(2))] = int(found.group(1))
        for rank in sorted(ranks):
            os.kill(ranks[rank], signal.SIGQUIT)
        until(lambda: content_of(log).count(WRITTEN) == 3, lambda: content_of(log))
        with open(go_on, "w", encoding="utf-8"):
            pass
        errors = job.communicate(timeout=LIMIT_S)[1]
    finally:
        job.kill()
    logged = content_of(log)
    expect(job.returncode == 0, errors + logged)
    return logged


def content_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sigquit_writes_and_the_program_goes_on():
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as logs:
        logged = sigquit_writes(directory, logs)
        expect(logged.count(f"{WRITTEN} {directory}/") == 3, logged)
        text = explained(directory)
        expect_in(["3 files of 3 ranks", "(SIGQUIT)", "world, operation #1: rank 1 is missing\n",
                   "  ranks 0, 2: waits in barrier at apps/recorded.cpp:", "  rank 1: made no call after operation #0, barrier"], text)


def on_request():
    with tempfile.TemporaryDirectory() as directory:
        result = launcher.run(3, recorded, "requests", env=variables(directory))
        expect(result.returncode == 0, result.stderr)
        expect(sorted(result.stdout.split()) == sorted(os.path.join(directory, name) for name in os.listdir(directory)), result.stdout)
        expect_in(["no difference: all ranks with files made the same calls, and none waits\n",
                   f"  ranks 0-2: completed operation #5, {BROADCAST}\n"], explained(directory))


def files_are_temporary_by_default():
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, tempfile.TemporaryDirectory() as work:
        environment = variables(directory, LOCKSTEP_RECORDER="512", TMPDIR=directory)
        result = subprocess.run(launcher.command + ["-n", "3", recorded, "forgets"], capture_output=True, text=True, timeout=100,
                                env=environment, cwd=work, check=False)
        files = [name for name in os.listdir(directory) if name.startswith("lockstep-") and name.endswith(".json")]
        expect(len(files) == 3 and os.listdir(work) == [], f"{files} {os.listdir(work)}")
        said = re.findall(r"\[rank 0\] flight records of the ranks are in (\S+); to see what happened: (lockstep-explain .*)", result.stderr)
        expect(len(said) == 1 and said[0][0] == directory, result.stderr)
        expect_in([REDUCE], explained(*said[0][1].split()[1:]))


def no_recorder():
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        result = launcher.run(3, recorded, "forgets", env=variables(directory, LOCKSTEP_RECORDER="0", TMPDIR=directory))
        expect("ranks disagree" in result.stderr and "flight record" not in result.stderr, result.stderr)
        expect(not [name for name in os.listdir(directory) if name.endswith(".json")], os.listdir(directory))


def a_directory_that_cannot_be_written_to():
    result = launcher.run(3, recorded, "forgets", env=variables("/proc/none"))
    expect_in(["cannot write the flight record /proc/none/lockstep-", "ranks disagree on operation #4"], result.stderr)
    warning = 'LOCKSTEP_RECORDER: flight records cannot be written to the directory "/proc/none": No such file or directory'
    expect(result.stderr.count(warning) == 1, "not one warning:\n" + result.stderr)


def readme_shows_the_output():
    """The page shows the program's command, the line that leads to the files, and the explanation; job and time vary."""
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        shown = re.search(r"```\n\$ mpirun -n 3 ./forgotten_call\n(.*?)\n\$ lockstep-explain ([^\n]*)\n(.*?)```\n", file.read(), re.DOTALL)
    expect(shown, "no such block in README.md")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        result = launcher.run(3, example, env=variables(directory))
        expect(result.returncode != 0, "exit code 0")
        text = explained(directory)
    job = re.match(r"job (\S+): ", text).group(1)
    said = [line for line in result.stderr.splitlines() if "flight records" in line]

    def plain(words, name, place):
        words = re.sub(r"written \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "written DATE", words)
        return words.replace(name, "JOB").replace(place, "DIRECTORY")

    shown_job = re.search(r"--job (\S+)", shown.group(2)).group(1)
    expect(plain(said[0], job, directory) in plain(shown.group(1), shown_job, "/tmp"), said[0] + "\n" + shown.group(1))
    expect(shown.group(2) == f"--job {shown_job} /tmp", shown.group(2))
    expect(plain(text, job, directory) == plain(shown.group(3), shown_job, "/tmp"), text + "\nREADME.md has\n" + shown.group(3))


def refuses(arguments, code, parts):
    def case():
        result = subprocess.run([explain, *arguments], capture_output=True, text=True, timeout=100, check=False)
        expect(result.returncode == code and result.stdout == "", f"exit code {result.returncode}: {result.stdout}{result.stderr}")
        expect_in(["lockstep-explain: ", *parts], result.stderr)

    return case


def a_damaged_file_of_another_job():
    with tempfile.TemporaryDirectory() as folder:
        launcher.run(3, recorded, "forgets", env=variables(folder))
        damaged = os.path.join(folder, "lockstep-5-rank0.json")
        with open(damaged, "w") as file:
            file.write("{")
        result = subprocess.run([explain, folder], capture_output=True, text=True, timeout=100, check=True)
        expect_in([f"skipped {damaged}: not a flight record"], result.stderr)
        expect_in([": 3 files of 3 ranks"], result.stdout)


def damaged_files_of_ranks():
    """Each damaged file is skipped with its place and rule, and the others are compared."""
    with tempfile.TemporaryDirectory() as folder:
        launcher.run(4, recorded, "forgets", env=variables(folder))
        of_ranks = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        expect(len(of_ranks) == 4, str(of_ranks))
        deep = "[" * 200000 + "]" * 200000
        edits = [("reason", f': {deep}, "x"', "more than 64 levels of nesting at byte "),
                 ("written_us", ': 1e999, "x"', "the number 1e999 at byte ")]
        for path, (key, value, _) in zip(of_ranks[2:], edits):
            text = content_of(path)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(f'"{key}":', f'"{key}"{value}:', 1))
        # a name that clears the screen
        hostile = os.path.join(folder, "lockstep-\x1b[2J.json")
        with open(hostile, "w", encoding="utf-8") as file:
            file.write("{")
        # a pipe would block the reader
        os.mkfifo(os.path.join(folder, "lockstep-pipe.json"))
        text = content_of(of_ranks[1])
        with open(of_ranks[1], "w", encoding="utf-8") as file:
            file.write(text.replace('"call": "broadcast', '"call": "\\u001b[31mbroadcast'))
        result = subprocess.run([explain, folder], capture_output=True, text=True, timeout=100, check=False)
        expect(result.returncode == 0, f"exit code {result.returncode}: {result.stdout}{result.stderr}")
        expect_in([f"skipped {path}: not a flight record of lockstep: {rule}" for path, (_, _, rule) in zip(of_ranks[2:], edits)],
                  result.stderr)
        expect_in(["lockstep-\\x1b[2J.json: not a flight record"], result.stderr)
        expect_in([": 2 files of 4 ranks, written ", "no file of ranks 2, 3\n", f"  rank 0: {REDUCE}\n", f"  rank 1: \\x1b[31m{BROADCAST}\n"],
                  result.stdout)
        expect("\x1b" not in result.stdout + result.stderr, "an escape sequence")


def helps():
    expect_in(["usage: lockstep-explain [--job NAME] DIRECTORY|FILE...", "Exit code"], explained("--help"))


sys.exit(run_cases([
    ("a forgotten call is found, with both lines", explains("forgets", [
        "world, operation #4: rank 1 called something else than the others", f"  rank 1: {BROADCAST}", f"  ranks 0, 2: {REDUCE}",
        f"  likely: rank 1 left out {REDUCE}"])),
    # a rank may see the difference before all ranks have made their second calls
    ("two calls in the opposite order are found", explains("swaps", [
        "world, operation #0: rank 1 called something else than the others"],
        r"\n  likely: rank 1 made the two calls in the opposite order\n|\n  likely: the line is the same, but the arguments differ\n")),
    ("a send that no rank receives is found", explains("sends", [
        "world, operation #5: rank 1 is missing",
        f"  rank 1: failed in message #0 to rank 0, send of f32 [4] at {line_of('the lonely send')}; rank 0 has not called the recv"])),
    ("a rank that comes after the deadline is late", explains("is-late", [
        "world, operation #4: all ranks made the same call, but it did not complete on all", f"  ranks 0-2: failed in {REDUCE}"],
        r"\n  rank 1: called \d+ s after rank [02]\n")),
    ("a dead rank is missing", a_dead_rank),
    ("SIGQUIT writes the record, and the program goes on", sigquit_writes_and_the_program_goes_on),
    ("a program writes the record when it wants", on_request),
    ("files are written to TMPDIR by default, and one rank says so", files_are_temporary_by_default),
    ("LOCKSTEP_RECORDER=0 switches it off", no_recorder),
    ("a directory that cannot be written to changes nothing else", a_directory_that_cannot_be_written_to),
    ("the README shows the output for a forgotten call", readme_shows_the_output),
    ("a damaged file of another job is skipped", a_damaged_file_of_another_job),
    ("damaged files of ranks are skipped, and texts are escaped", damaged_files_of_ranks),
    ("lockstep-explain has a help text", helps),
    ("no argument is refused", refuses([], 2, ["expected a directory or files", "--help"])),
    ("an unknown option is refused", refuses(["--jop", "3"], 2, ["--jop: unknown option"])),
    ("a missing job name is refused", refuses(["/tmp", "--job"], 2, ["--job: expected the name of a job"])),
    ("a missing directory is refused", refuses(["/nonexistent"], 1, ["/nonexistent: there is no such file or directory"])),
    ("a directory without records is refused", refuses(["/proc/self/fdinfo"], 1, ["/proc/self/fdinfo: no flight record"])),
    ("a file that is not a record is refused", refuses([os.path.join(source, "README.md")], 1, ["README.md: not a flight record of lockstep: invalid JSON at byte 1"])),
]))
