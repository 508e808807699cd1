#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compares lockstep-train with PyTorch on the same model, alternating in one run: images per second, medians, ratios.

  beside_pytorch.py LOCKSTEP_TRAIN [--rounds N] [--python PYTHON_WITH_TORCH] [--bind-to core|none]

Measured: lockstep-train on 1 and 2 ranks (global batch 256; one core per rank, also for the thread that prepares its input, unless
--bind-to none), PyTorch in 1 process (batch 256, one thread), and PyTorch DDP over
Gloo in 2 processes (batch 128 each, global batch 256 like ours). Exit 77 without torch.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

SKIPPED = 77


def ours(program, ranks, binding):
    command = ["mpirun", "--bind-to", binding, "-n", str(ranks), program, "--epochs", "3", "--quiet"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    share = {what: float(re.search(what + r" ([0-9.]+) %", output)[1]) for what in ("communication", "waiting for input")}
    return float(re.search(r"(\d+) images/s", output)[1]), share["communication"], share["waiting for input"]


def pytorch(python, processes):
    script = pathlib.Path(__file__).with_name("pytorch_mlp.py")
    result = subprocess.run([python, script, "--processes", str(processes), "--batch", str(256 // processes)], capture_output=True, text=True,
                            check=False)
    if result.returncode == SKIPPED:
        print(result.stdout.strip() or result.stderr.strip())
        sys.exit(SKIPPED)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout.strip().splitlines()[-1])["images_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bind-to", choices=("core", "none"), default="core")
    arguments = parser.parse_args()
    speeds = {"lockstep 1 rank": [], "lockstep 2 ranks": [], "PyTorch 1 process": [], "PyTorch DDP/Gloo 2 processes": []}
    waits = []
    communication = []
    for _ in range(arguments.rounds):
        for ranks, name in ((1, "lockstep 1 rank"), (2, "lockstep 2 ranks")):
            speed, share, wait = ours(arguments.train, ranks, arguments.bind_to)
            speeds[name].append(speed)
            waits.append(wait)
            if ranks == 2:
                communication.append(share)
        speeds["PyTorch 1 process"].append(pytorch(arguments.python, 1))
        speeds["PyTorch DDP/Gloo 2 processes"].append(pytorch(arguments.python, 2))
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name, median in medians.items():
        print(f"{name:30} {median:>9,.0f} images/s   ({min(speeds[name]):,.0f} to {max(speeds[name]):,.0f})")
    print(f"1 rank / PyTorch               {medians['lockstep 1 rank'] / medians['PyTorch 1 process']:.2f}")
    print(f"2 ranks / 1 rank               {medians['lockstep 2 ranks'] / medians['lockstep 1 rank']:.2f}")
    print(f"2 ranks / DDP 2 processes      {medians['lockstep 2 ranks'] / medians['PyTorch DDP/Gloo 2 processes']:.2f}")
    print(f"communication, 2 ranks         {statistics.median(communication):.1f} %")
    print(f"waiting for input, worst       {max(waits):.2f} %")


main()
