#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Signals to lockstep-train at random moments: after the guard exists the job saves and ends with its documented code.

signals_test.py COUNT TRAIN MPIEXEC [OPTION...]

COUNT signals after the guard exists, and a third as many before. SIGNALS_SEED repeats a run.
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from programs import Launcher, descendants_of, expect, expect_in, kill, ranks_under, run_cases

count, train = int(sys.argv[1]), sys.argv[2]
launcher = Launcher(sys.argv[3:])
seed = int(os.environ.get("SIGNALS_SEED", random.randrange(1 << 30)))
chance = random.Random(seed)
SIGNALS = [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT]
SAVED = 75
LOST = 69
LIMIT_S = 200
# Open MPI's mpirun answers TERM and INT itself: it ends the ranks by SIGTERM, and exits with 1
IS_OPEN_MPI = "Open MPI" in subprocess.run([*sys.argv[3:4], "--version"], capture_output=True, text=True, check=False).stdout
# a shell that starts this test in the background ignores SIGINT, and so would its children
signal.signal(signal.SIGINT, signal.default_int_handler)


def start(ranks, folder, mpirun_options=()):
    command = [train, "--data", "synthetic", "--global-batch", "64", "--steps", "10000000", "--quiet",
               "--replicas-per-rank", "2", "--checkpoint-dir", str(folder)]
    if ranks:
        command = [*launcher.command, *mpirun_options, "-n", str(ranks), *command]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def pids_of(process, ranks):
    return ranks_under(process, train) if ranks else [process.pid]


def is_guarded(pid):
    """Whether the guard exists: the process has handlers of the signals, and its main thread blocks them."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    masks = [int(mask, 16) for mask in re.findall(r"^Sig(?:Blk|Cgt):\s*(\w+)$", status, re.MULTILINE)]
    return all(mask >> (number - 1) & 1 for mask in masks for number in SIGNALS)


def wait_for_ranks(process, ranks, accept=lambda pid: True):
    """Returns the ranks' process ids once all have started and are accepted."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        pids = pids_of(process, ranks)
        try:
            if len(pids) == max(ranks, 1) and all(accept(pid) for pid in pids):
                return pids
        except OSError:
            pass  # a rank has just ended
        time.sleep(0.01)
    kill([*descendants_of(process), process.pid], signal.SIGKILL)
    raise AssertionError("the ranks did not start:\n" + process.communicate()[0])


def end(process):
    """Returns the output of the job, which must end soon."""
    try:
        return process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        kill([*descendants_of(process), process.pid], signal.SIGKILL)
        raise AssertionError("the job did not end:\n" + process.communicate()[0]) from None


def expect_no_crash(text):
    # a rank that a signal has ended before it had a guard is an error of the others
    others = re.sub(r"uncaught exception: unavailable: .*rank \d+ has died of signal (2|10|15) ", "", text)
    for part in ("Segmentation fault", "Signal code", "uncaught exception", "signal 11", "signal 6"):
        expect(part not in others, text)


def describe(number, ranks, target):
    return f"{number.name} to {target} of {ranks or 'a job without mpirun, one'} rank{'s' if ranks > 1 else ''}"


def saves(number, ranks, target, delay):
    def case():
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name, "checkpoints")
            own = target == "mpirun" and number != signal.SIGUSR1
            # mpirun waits that long before SIGTERM, and again before SIGKILL; its default, 1 s, is short
            process = start(ranks, folder, ["--mca", "odls_base_sigkill_timeout", "100"] if own else [])
            pids = wait_for_ranks(process, ranks, is_guarded)
            time.sleep(delay)
            os.kill(process.pid if target == "mpirun" else pids[-1], number)
            text = end(process)
            expect_no_crash(text)
            expect(process.returncode == (1 if own else SAVED), f"seed {seed}: exit code {process.returncode}:\n{text}")
            steps = sorted(folder.glob("step-*"))
            expect(len(steps) == 1 and (steps[0] / "manifest.json").exists(), f"{steps}:\n{text}")
            if not own:  # mpirun stops forwarding the output when it ends the job
                expect(re.findall(r"^preempted: saved after step \d+ to (.*)$", text, re.MULTILINE) == [str(steps[0])], text)

    return case


def ends(number, ranks, delay):
    """Before the guard exists the signal has its default action; the guard may come to exist in the meantime."""

    def case():
        with tempfile.TemporaryDirectory() as name:
            process = start(ranks, pathlib.Path(name, "checkpoints"))
            pids = wait_for_ranks(process, ranks)
            time.sleep(delay)
            kill(pids[-1:], number)
            text = end(process)
            expect_no_crash(text)
            expected = (SAVED, 128 + number, LOST) if ranks > 1 else (SAVED, 128 + number if ranks else -number)
            expect(process.returncode in expected, f"seed {seed}: exit code {process.returncode}, not {expected}:\n{text}")

    return case


def ends_at_the_second_interrupt():
    """The other rank is stopped, so that the first rank cannot save."""
    with tempfile.TemporaryDirectory() as name:
        process = start(2, pathlib.Path(name, "checkpoints"))
        pids = wait_for_ranks(process, 2, is_guarded)
        os.kill(pids[1], signal.SIGSTOP)
        os.kill(pids[0], signal.SIGINT)
        time.sleep(0.5)
        expect(process.poll() is None and is_guarded(pids[0]), "ended by the first one")
        os.kill(pids[0], signal.SIGINT)
        deadline = time.monotonic() + LIMIT_S
        while pathlib.Path(f"/proc/{pids[0]}/stat").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        kill(pids[1:], signal.SIGCONT)
        text = end(process)
        expect(process.returncode == 128 + signal.SIGINT, f"exit code {process.returncode}:\n{text}")


def sent(k):
    """The k-th signal: every combination comes, the moment is random."""
    combinations = [(0, "a rank"), (2, "a rank")] + ([(2, "mpirun")] if IS_OPEN_MPI else [])
    ranks, target = combinations[k // len(SIGNALS) % len(combinations)]
    number, delay = SIGNALS[k % len(SIGNALS)], chance.uniform(0, 0.5)
    return f"{describe(number, ranks, target)}, {delay:.3f} s after the guard exists", saves(number, ranks, target, delay)


def sent_before(k):
    ranks, number, delay = (0, 2)[k // len(SIGNALS) % 2], SIGNALS[k % len(SIGNALS)], chance.uniform(0, 0.5)
    return f"{describe(number, ranks, 'a rank')}, {delay:.3f} s after it has started", ends(number, ranks, delay)


print(f"SIGNALS_SEED={seed}", file=sys.stderr)
first = chance.randrange(9) if count < 9 else 0
cases = [sent(first + 2 * k if count < 9 else k) for k in range(count)]
cases += [sent_before(k) for k in range(max(1, count // 3))]
cases.append(("the second interrupt ends a rank at once", ends_at_the_second_interrupt))
sys.exit(run_cases(cases))
