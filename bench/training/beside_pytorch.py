#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compares lockstep-train with PyTorch on the same model, alternating in one run: images per second, medians, ratios.

  beside_pytorch.py LOCKSTEP_TRAIN [--rounds N] [--python PYTHON_WITH_TORCH] [--bind-to core|none] [--data DIR|synthetic]
                    [--device cpu|cuda] [--tf32] [--epochs N]

Measured: lockstep-train on 1 and 2 ranks (global batch 256; one core per rank, also for the thread that prepares its input, unless
--bind-to none), PyTorch in 1 process (batch 256, one thread), and PyTorch DDP over
Gloo in 2 processes (batch 128 each, global batch 256 like ours). With --device cuda both compute on GPUs, in fp32, or PyTorch in TF32 with
--tf32; PyTorch uses NCCL if there are 2 GPUs. Exit 77 without torch or, with --device cuda, without a GPU.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

SKIPPED = 77


def ours(arguments, ranks):
    command = ["mpirun", "--bind-to", arguments.bind_to, "-n", str(ranks), arguments.train, "--epochs", str(arguments.epochs), "--quiet"]
    if arguments.data:
        command += ["--data", arguments.data]
    with tempfile.TemporaryDirectory() as folder:
        if arguments.device == "cuda":
            command += ["--device", "gpu", "--json", f"{folder}/train.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        if arguments.device == "cuda":
            report = json.loads(pathlib.Path(folder, "train.json").read_text(encoding="utf-8"))
            if (report["device"], report["arithmetic"]) != ("gpu", "gpu"):
                sys.exit(f"lockstep-train did not compute on GPUs:\n{done.stderr}")
    output = done.stdout
    share = {what: float(re.search(what + r" ([0-9.]+) %", output)[1]) for what in ("communication", "waiting for input")}
    return float(re.search(r"(\d+) images/s", output)[1]), share["communication"], share["waiting for input"]


def pytorch(arguments, processes):
    script = pathlib.Path(__file__).with_name("pytorch_mlp.py")
    command = [arguments.python, script, "--processes", str(processes), "--batch", str(256 // processes), "--device", arguments.device]
    result = subprocess.run(command + ["--tf32"] * arguments.tf32, capture_output=True, text=True, check=False)
    if result.returncode == SKIPPED:
        print(result.stdout.strip() or result.stderr.strip())
        sys.exit(SKIPPED)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bind-to", choices=("core", "none"), default="core")
    parser.add_argument("--data", help="data of lockstep-train (default: its own)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--tf32", action="store_true", help="PyTorch multiplies in TF32; lockstep-train always in fp32")
    parser.add_argument("--epochs", type=int, help="epochs of lockstep-train (default: 3, with --device cuda 30)")
    arguments = parser.parse_args()
    if arguments.tf32 and arguments.device != "cuda":
        parser.error("--tf32 needs --device cuda")
    if arguments.epochs is None:
        arguments.epochs = 30 if arguments.device == "cuda" else 3
    first = pytorch(arguments, 2)  # ends the program if torch is missing; says which backend it uses
    backend = {"gloo": "Gloo", "nccl": "NCCL"}[first["backend"]]
    ddp = f"PyTorch DDP/{backend} 2 processes"
    speeds = {"lockstep 1 rank": [], "lockstep 2 ranks": [], "PyTorch 1 process": [], ddp: []}
    waits = []
    communication = []
    for _ in range(arguments.rounds):
        for ranks, name in ((1, "lockstep 1 rank"), (2, "lockstep 2 ranks")):
            speed, share, wait = ours(arguments, ranks)
            speeds[name].append(speed)
            waits.append(wait)
            if ranks == 2:
                communication.append(share)
        speeds["PyTorch 1 process"].append(pytorch(arguments, 1)["images_per_s"])
        speeds[ddp].append(pytorch(arguments, 2)["images_per_s"])
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name, median in medians.items():
        print(f"{name:30} {median:>9,.0f} images/s   ({min(speeds[name]):,.0f} to {max(speeds[name]):,.0f})")
    print(f"1 rank / PyTorch               {medians['lockstep 1 rank'] / medians['PyTorch 1 process']:.2f}")
    print(f"2 ranks / 1 rank               {medians['lockstep 2 ranks'] / medians['lockstep 1 rank']:.2f}")
    print(f"2 ranks / DDP 2 processes      {medians['lockstep 2 ranks'] / medians[ddp]:.2f}")
    print(f"communication, 2 ranks         {statistics.median(communication):.1f} %")
    print(f"waiting for input, worst       {max(waits):.2f} %")


main()
