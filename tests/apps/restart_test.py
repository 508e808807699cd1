#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-train killed at random moments, also inside saves, and resumed on other layouts: one hash, each time.

restart_test.py MOMENTS TRAIN MPIEXEC [OPTION...]
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

moments, train = int(sys.argv[1]), sys.argv[2]
launcher = Launcher(sys.argv[3:])
STEPS = 40
LIMIT_S = 200
WORK = ["--data", "synthetic", "--global-batch", "64", "--quiet"]
# always four replicas
LAYOUTS = ["1,1,1,1", "4", "2,2", "2,1,1", "1,3", "1,1,2"]
PREEMPTED = 75
seed = int(os.environ.get("RESTART_SEED", random.randrange(1 << 30)))
chance = random.Random(seed)


def arguments(layout, folder, *more, steps=STEPS):
    return [train, *WORK, "--steps", str(steps), "--replicas-per-rank", layout, "--checkpoint-dir", folder, *more]


def ranks_of(layout):
    return len(layout.split(","))


def hash_in(text):
    found = re.findall(r"^parameters (0x[0-9a-f]{16})$", text, re.MULTILINE)
    expect(len(found) == 1, "one rank prints the hash:\n" + text)
    return found[0]


def uninterrupted():
    if not hasattr(uninterrupted, "hash"):
        result = launcher.run(2, train, *WORK, "--steps", str(STEPS), "--replicas-per-rank", "2,2")
        expect(result.returncode == 0, result.stderr)
        uninterrupted.hash = hash_in(result.stdout)
    return uninterrupted.hash


def start(layout, folder, *more, steps=STEPS):
    command = launcher.command + ["-n", str(ranks_of(layout))]
    command += [str(a) for a in arguments(layout, folder, *more, steps=steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_checkpoint(process, folder):
    """Waits for the first checkpoint: from then on every moment is inside or between saves."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if list(folder.glob("step-*")):
            return
        time.sleep(0.005)
    kill(descendants_of(process), signal.SIGKILL)
    expect(False, f"no checkpoint in {folder}: {process.communicate()[0]}")


def kill_once(layout, folder):
    """Whether it was killed before its end, and the last checkpoint."""
    process = start(layout, folder, "--save-every", "1", "--resume", "--keep-last", "2")
    wait_for_checkpoint(process, folder)
    time.sleep(chance.uniform(0, 0.4))
    pids = ranks_under(process, train)
    # all at once, as after the failure of a node; or one, and mpirun ends the others
    kill(pids if chance.random() < 0.5 else pids[:1], signal.SIGKILL)
    process.communicate(timeout=LIMIT_S)
    return process.returncode != 0


def killed_and_resumed(layout):
    def case():
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name, "checkpoints")
            killed = kill_once("1,1,1,1", folder)
            left = sorted(p.name for p in folder.iterdir())
            result = launcher.run(ranks_of(layout), *arguments(layout, folder, "--resume"))
            expect(result.returncode == 0, f"{left}\n{result.stdout}{result.stderr}")
            expect(hash_in(result.stdout) == uninterrupted(), f"seed {seed}, killed {killed}, {left}: another hash")
            print(f"# {layout}: {'killed' if killed else 'was done'} with {left}")

    return case


def preempted(number):
    def case():
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name, "checkpoints")
            process = start("1,1,1,1", folder, "--save-every", "1", steps=100_000)
            wait_for_checkpoint(process, folder)
            kill(ranks_under(process, train)[-1:], number)
            text = process.communicate(timeout=LIMIT_S)[0]
            expect(process.returncode == PREEMPTED, f"exit code {process.returncode}:\n{text}")
            found = re.findall(r"^preempted: saved after step (\d+) to (.*)$", text, re.MULTILINE)
            expect(len(found) == 1, text)
            last = sorted(p.name for p in folder.glob("step-*"))[-1]
            expect(found[0][1].endswith(last) and int(last[5:]) == int(found[0][0]), f"{found}, but last is {last}")

    return case


def goes_on_after_a_preemption():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "checkpoints")
        process = start("2,2", folder, "--save-every", "1")
        wait_for_checkpoint(process, folder)
        kill(ranks_under(process, train)[:1], signal.SIGUSR1)
        text = process.communicate(timeout=LIMIT_S)[0]
        expect(process.returncode in (0, PREEMPTED), text)
        result = launcher.run(3, *arguments("1,2,1", folder, "--resume"))
        expect(result.returncode == 0, result.stderr)
        expect(hash_in(result.stdout) == uninterrupted(), "another hash")


def names_a_damaged_checkpoint():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "checkpoints")
        result = launcher.run(2, *arguments("2,2", folder, "--save-every", str(STEPS)))
        expect(result.returncode == 0, result.stderr)
        file = next(folder.glob("step-*")) / "state.safetensors"
        content = bytearray(file.read_bytes())
        content[-5] ^= 16
        file.write_bytes(content)
        result = launcher.run(2, *arguments("2,2", folder, "--resume"))
        expect(result.returncode == 5, f"exit code {result.returncode}:\n{result.stderr}")
        expect_in(["data_loss", str(file), "checksum of tensor"], result.stderr)
        expect(result.stderr.count("lockstep-train: ") == 1, "printed more than once:\n" + result.stderr)


def skips_a_checkpoint_without_a_manifest():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "checkpoints")
        result = launcher.run(2, *arguments("2,2", folder, "--save-every", "20"))
        expect(result.returncode == 0, result.stderr)
        last = folder / f"step-{STEPS:012}"
        (last / "manifest.json").unlink()
        result = launcher.run(2, *arguments("2,2", folder, "--resume"))
        expect(result.returncode == 0, result.stderr)
        expect(result.stderr.count("lockstep: ") == 1, "not one warning:\n" + result.stderr)
        expect_in([f"skipping step {STEPS} without manifest.json", "restoring step 20 instead"], result.stderr)
        expect(hash_in(result.stdout) == uninterrupted(), "another hash")


def refuses_the_checkpoint_of_another_model():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "checkpoints")
        result = launcher.run(2, *arguments("2,2", folder, "--save-every", "3", steps=3))
        expect(result.returncode == 0, result.stderr)
        saved = next(folder.glob("step-*"))
        for option, value, part in (("--model", "cnn", "no tensor"), ("--optimizer", "sgd", 'has "optimizer/')):
            result = launcher.run(2, *arguments("2,2", folder, "--resume", option, value))
            expect(result.returncode == 5, f"exit code {result.returncode}:\n{result.stderr}")
            expect_in([f"lockstep-train: --resume: {saved} was saved with another --model or --optimizer (", part,
                       "); give those of the saved run, or another --checkpoint-dir"], result.stderr)
            expect("track" not in result.stderr, result.stderr)


def refuses_a_folder_of_other_things():
    result = launcher.run(2, *arguments("2,2", os.path.dirname(os.path.abspath(__file__)), "--resume"))
    expect(result.returncode == 5, f"exit code {result.returncode}:\n{result.stderr}")
    expect_in(["lockstep-train: invalid_argument: restore_latest: " + os.path.dirname(os.path.abspath(__file__)),
               "has no checkpoints, but it has other entries, such as"], result.stderr)


def names_the_file_that_is_too_large():
    """ulimit -f would otherwise end the ranks by SIGXFSZ without a word."""
    with tempfile.TemporaryDirectory() as name:
        # one rank: MPI's own files are larger than the checkpoint if there are several
        command = arguments("1", pathlib.Path(name, "checkpoints"), "--save-every", "3", steps=6)
        result = launcher.run(1, "sh", "-c", 'ulimit -f 1000 && exec "$@"', "sh", *command)
        expect(result.returncode == 5, f"exit code {result.returncode}:\n{result.stdout}{result.stderr}")
        expect_in(["lockstep-train: unavailable: cannot write " + name, "state.safetensors", "File too large"], result.stderr)


def refuses_to_resume_from_nowhere():
    result = launcher.run(2, train, *WORK, "--resume")
    expect(result.returncode == 2, result.stderr)
    expect_in(["--resume", "--checkpoint-dir"], result.stderr)


print(f"RESTART_SEED={seed}", file=sys.stderr)
cases = [(f"killed at random moment {k + 1} and resumed as {layout}", killed_and_resumed(layout))
         for k, layout in ((k, LAYOUTS[(k + 3) % len(LAYOUTS)]) for k in range(moments))]
cases += [
    ("a signal to one rank makes all save the same step and exit", preempted(signal.SIGUSR1)),
    ("a preempted run resumes where it stopped", goes_on_after_a_preemption),
    ("a damaged checkpoint is named", names_a_damaged_checkpoint),
    ("a checkpoint without a manifest is skipped with a warning", skips_a_checkpoint_without_a_manifest),
    ("the checkpoint of another model or optimizer is refused", refuses_the_checkpoint_of_another_model),
    ("a folder of other things is refused", refuses_a_folder_of_other_things),
    ("a file beyond ulimit -f is named", names_the_file_that_is_too_large),
    ("resuming needs a directory", refuses_to_resume_from_nowhere),
]
sys.exit(run_cases(cases))
