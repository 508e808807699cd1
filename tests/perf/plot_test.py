#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""lockstep-plot on made result files. Prints TAP.

plot_test.py LOCKSTEP_PLOT
"""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from tap import Skip, expect, run_cases  # noqa: E402

program = sys.argv[1]
folder = tempfile.TemporaryDirectory()
has_matplotlib = b"with matplotlib" in subprocess.run([program, "--version"], capture_output=True, check=False).stdout

ENVIRONMENT = {"version": "0.1.0", "date": "2026-11-25", "cpu": "A & B processor", "ranks": 1, "nodes": 1, "cores_of_node": 8,
               "mpi": "MPICH Version:\t4.0.2", "kernel_target": "AVX2", "gpus": None, "iterations": 20}
TRAINING = {"layout": [2, 1], "replicas": 3, "ranks": 2, "first_step": 0, "loss": [2.0, 1.0, 0.5, 0.25], "test_accuracy": 0.875,
            "epochs": [{"epoch": 1, "step": 2, "test_accuracy": 0.75}], "model": "mlp", "optimizer": "adam", "global_batch": 64,
            "images_per_second": 12345.6, "communication_share": 0.125, "mpi": "Open MPI", "version": "0.1.0", "parameters": "0x1"}


def row(collective, size, op="sum", **other):
    return {"collective": collective, "list": None, "bytes": size, "dtype": "f32", "op": op, "replicas_per_rank": 2, "memory": "arena",
            "mpi_memory": "malloc", "in_place": False, "time_us": size / 8, "p10_us": size / 9, "p90_us": size / 7, "busbw_gbs": 0.008,
            "algbw_gbs": 0.004, "mpi_time_us": size / 4, "mpi_p10_us": size / 5, "mpi_p90_us": size / 3, "ratio": 0.5, "limit_us": None,
            **other}


def run(*arguments, text=None, **variables):
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True, timeout=200, check=False,
                          env={**os.environ, **variables})


def texts_of(content):
    """The texts of the picture of `content`."""
    if not has_matplotlib:
        raise Skip("matplotlib is not installed (Debian package python3-matplotlib)")
    picture = os.path.join(folder.name, "picture.svg")
    done = run("-", "-o", picture, text=json.dumps(content))
    expect(done.returncode == 0 and not done.stderr, done.stderr)
    with open(picture, encoding="utf-8") as file:
        return re.findall(r"<text[^>]*>([^<]*)</text>", file.read())


def shows(content, parts, absent=()):
    def case():
        texts = texts_of(content)
        expect(not [part for part in parts if part not in texts], f"not all of {parts} in {texts}")
        expect(not [part for part in absent if part in texts], f"some of {absent} in {texts}")

    return case


def refuses(code, parts, *arguments, text=None):
    def case():
        if not has_matplotlib and code != 2:
            raise Skip("matplotlib is not installed (Debian package python3-matplotlib)")
        done = run(*arguments, text=text)
        expect(done.returncode == code and done.stderr.startswith(("lockstep-plot: ", "usage: ")), f"{done.returncode}: {done.stderr}")
        expect(not [part for part in parts if part not in done.stderr], f"not all of {parts} in {done.stderr}")

    return case


def says_what_it_is_without_matplotlib():
    with open(os.path.join(folder.name, "matplotlib.py"), "w", encoding="utf-8") as file:
        file.write("raise ImportError\n")
    without = {"PYTHONPATH": folder.name}
    done = run("--help", **without)
    expect(done.returncode == 0 and "PICTURE" in done.stdout, done.stderr)
    done = run("--version", **without)
    expect(done.stdout == "lockstep-plot, without matplotlib\n", done.stdout + done.stderr)
    done = run("-", "-o", os.path.join(folder.name, "none.svg"), text=json.dumps(TRAINING), **without)
    expect(done.returncode == 1 and "python3-matplotlib" in done.stderr, done.stderr)


def names_the_picture_after_the_file():
    name = os.path.join(folder.name, "run.json")
    with open(name, "w", encoding="utf-8") as file:
        json.dump(TRAINING, file)
    if not has_matplotlib:
        raise Skip("matplotlib is not installed (Debian package python3-matplotlib)")
    done = run(name)
    expect(done.returncode == 0, done.stderr)
    with open(os.path.join(folder.name, "run.png"), "rb") as file:
        expect(file.read(8) == b"\x89PNG\r\n\x1a\n", "not a PNG")


def result(*rows):
    return {"environment": ENVIRONMENT, "rows": list(rows)}


sizes = [8 << 3 * k for k in range(9)]
sweep = result(*(row("all_reduce", size) for size in sizes))
several = result(*(row(name, size, op=op, mpi_time_us=None) for name, op in (("all_reduce", "sum"), ("all_gather", None)) for size in sizes))
listed = result(*(row("all_reduce", 4096, list="resnet50", mode=mode, tensors=161, in_place=True, mpi_call="f32 sum, one_by_one")
                  for mode in ("one_plan", "one_by_one", "buckets")))
sys.exit(run_cases([
    ("one call beside MPI", shows(sweep, [
        "all_reduce f32 sum, 1 rank on 1 node, 2 replicas each", "A &amp; B processor, 8 cores, MPICH Version: 4.0.2, kernels AVX2",
        "lockstep", "MPI", "time / MPI's", "bus bandwidth, GB/s", "8", "64", "512", "4 Ki", "32 Ki", "256 Ki", "2 Mi", "16 Mi", "128 Mi"])),
    ("several calls alone", shows(several, ["2 calls of f32, 1 rank on 1 node, 2 replicas each", "all_reduce sum", "all_gather", "lockstep"],
                                  absent=["MPI", "time / MPI's"])),
    ("a list", shows(listed, ["all_reduce f32 sum of resnet50, 161 tensors, 1 rank on 1 node, 2 replicas each", "one plan",
                              "(MPI: one by one)", "buckets", "0"])),
    ("a training", shows(TRAINING, ["mlp with adam, 2 ranks, 3 replicas", "parameters 0x1", "loss", "test accuracy", "0.7500", "0.8750"])),
    ("the picture is named after the file", names_the_picture_after_the_file),
    ("no matplotlib", says_what_it_is_without_matplotlib),
    ("no file", refuses(2, ["--json"])),
    ("standard input without a name", refuses(2, ["-o PICTURE"], "-", text="{}")),
    ("another format", refuses(2, ['"x.gif"', ".png, .svg or .pdf"], "-", "-o", "x.gif", text="{}")),
    ("an unknown option", refuses(2, ["--speed"], "--speed")),
    ("a missing file", refuses(5, ['"/no/such/file"', "No such file"], "/no/such/file")),
    ("a text that is not JSON", refuses(5, ["invalid JSON at byte 0"], "-", "-o", "x.png", text="hello")),
    ("another JSON", refuses(5, ["neither rows nor losses"], "-", "-o", "x.png", text="{}")),
    ("a result without rows", refuses(5, ["no rows"], "-", "-o", "x.png", text='{"rows": []}')),
    ("rows without fields", refuses(5, ["not a result", "KeyError"], "-", "-o", "x.png", text='{"rows": [{"list": null}]}')),
    ("a folder that does not exist", refuses(1, ['"/no/such/folder/x.png"', "cannot be written"], "-", "-o", "/no/such/folder/x.png",
                                             text=json.dumps(TRAINING))),
]))
