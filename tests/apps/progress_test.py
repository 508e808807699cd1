#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The progress of lockstep-train on a terminal and elsewhere, and the accuracy after each epoch.

progress_test.py TRAIN MPIEXEC [OPTION...]
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import sys
import tempfile
import termios
import threading

from programs import Launcher, expect, expect_in, run_cases

train = sys.argv[1]
launcher = Launcher(sys.argv[2:])
SHORT = ["--data", "synthetic", "--steps", "120"]
BAR = re.compile(r"\r(?:\x1b\[32m)?(#*)(?:\x1b\[0m)?(-*) (\d+)/120  loss \d+\.\d{4}  [^\r]* s left\x1b\[K")


def on_terminal(ranks, arguments, columns, **variables):
    """The output of the program on a terminal of its own."""
    command = [*launcher.command, "-n", str(ranks)] if ranks else []
    command += [train, *SHORT, *arguments]
    env = {**os.environ, "TERM": "xterm", **variables}
    env = {name: value for name, value in env.items() if value is not None}
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.execvpe(command[0], command, env)
    watch = threading.Timer(100, os.kill, (pid, 9))
    watch.start()
    output = b""
    try:
        while data := os.read(terminal, 65536):
            output += data
    except OSError:
        pass  # the other end is closed
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    watch.cancel()
    os.close(terminal)
    text = output.decode()
    expect(status == 0, f"exit code {status}:\n{text}")
    return text


def expect_bar(text, columns):
    bars = list(BAR.finditer(text))
    expect(bars, repr(text))
    for bar in bars:
        done, left, step = len(bar[1]), len(bar[2]), int(bar[3])
        expect(done + left > 0 and done == (done + left) * step // 120, repr(bar[0]))
        expect(len(re.sub(r"\r|\x1b\[\w*", "", bar[0])) < columns, repr(bar[0]))
    expect(re.search(r"\r\x1b\[Kloss \d", text), "the bar is still there:\n" + repr(text))
    expect("\nstep " not in text, repr(text))


def draws_a_bar(ranks):
    def case():
        text = on_terminal(ranks, [], 100, NO_COLOR=None)
        expect_bar(text, 100)
        expect("\x1b[32m" in text, repr(text))

    return case


def draws_without_colour_on_a_narrow_terminal():
    text = on_terminal(0, [], 80, NO_COLOR="1")
    expect_bar(text, 80)
    expect("\x1b[32m" not in text and "\x1b[0m" not in text, repr(text))


def prints_lines_on_a_dumb_terminal():
    for variables in ({"TERM": "dumb"}, {"TERM": None}):
        text = on_terminal(0, [], 80, **variables)
        expect("\x1b" not in text and "\r#" not in text and "\r-" not in text, repr(text))


def prints_lines_into_a_pipe():
    # the first line comes after a second
    result = launcher.run(2, train, "--data", "synthetic", "--steps", "2000", env={**os.environ, "TERM": "xterm"})
    expect(result.returncode == 0 and "\x1b" not in result.stdout, result.stdout + result.stderr)
    expect(re.search(r"^step +\d+ of 2000  loss ", result.stdout, re.MULTILINE), result.stdout)


def draws_or_prints_as_requested():
    expect("\nstep " not in on_terminal(0, ["--progress", "lines", "--quiet"], 80), "--quiet prints no progress")
    result = launcher.run(0, train, *SHORT, "--progress", "bar")
    expect("\x1b[K" in result.stdout and "\nstep " not in result.stdout, repr(result.stdout))
    result = launcher.run(0, train, *SHORT, "--progress", "none")
    expect(result.returncode == 2, result.stdout)
    expect_in(['--progress "none"', "auto, bar, lines"], result.stderr)


def tests_after_each_epoch():
    """An epoch of 60000 images has 15 steps of 4000. The tests change no bit."""
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name, "out.json")
        arguments = ["--data", "synthetic", "--epochs", "3", "--global-batch", "4000", "--json", file]
        result = launcher.run(2, train, *arguments)
        expect(result.returncode == 0, result.stderr)
        tested = re.findall(r"^epoch +(\d) of 3  loss \d\.\d{4}  test accuracy (\d\.\d{4})$", result.stdout, re.MULTILINE)
        expect([epoch for epoch, _ in tested] == ["1", "2"], result.stdout)
        summary = json.loads(file.read_text())
        expect([(each["epoch"], each["step"]) for each in summary["epochs"]] == [(1, 15), (2, 30)], summary["epochs"])
        expect([f"{each['test_accuracy']:.4f}" for each in summary["epochs"]] == [each for _, each in tested], tested)
        expect(summary["ranks"] == 2 and summary["steps"] == 45 and summary["mpi"], summary)
        without = launcher.run(2, train, *arguments, "--no-epoch-tests")
        expect("\nepoch" not in without.stdout, without.stdout)
        expect(json.loads(file.read_text())["parameters"] == summary["parameters"], "the tests have changed the result")


sys.exit(run_cases([
    ("a bar on a terminal", draws_a_bar(0)),
    ("a bar on the terminal of the launcher", draws_a_bar(2)),
    ("no colour if NO_COLOR is set, and as wide as the terminal", draws_without_colour_on_a_narrow_terminal),
    ("lines on a dumb terminal", prints_lines_on_a_dumb_terminal),
    ("lines into a pipe", prints_lines_into_a_pipe),
    ("bar, lines or nothing on request", draws_or_prints_as_requested),
    ("the accuracy after each epoch", tests_after_each_epoch),
]))
