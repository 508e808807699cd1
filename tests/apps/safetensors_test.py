#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The safetensors package of Python reads lockstep's files, and lockstep reads that package's.

safetensors_test.py PACKAGES COPY TRAIN MPIEXEC [OPTION...]
COPY reads a safetensors file and writes it anew. Where Python has no safetensors or no numpy, they are installed from PyPI into
the folder PACKAGES; skips where that cannot be.
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

from programs import Launcher, expect, run_cases

packages, copy, train = sys.argv[1:4]
launcher = Launcher(sys.argv[4:])

sys.path.append(packages)
if not (importlib.util.find_spec("numpy") and importlib.util.find_spec("safetensors")):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1", "--target", packages, "safetensors", "numpy"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"1..0 # SKIP safetensors and numpy for Python are neither installed nor available from PyPI: {(done.stderr.strip() or 'pip failed').splitlines()[-1]}")
        sys.exit(0)
    importlib.invalidate_caches()

import numpy  # noqa: E402 (once it is there)
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

TYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


def theirs():
    numbers = numpy.random.default_rng(1)
    tensors = {t: (numbers.random((3, 5)) * 100).astype(t) for t in TYPES}
    tensors.update({"scalar": numpy.array(2.5), "empty": numpy.zeros((0, 7), "float32"), "größe €": numpy.arange(3)})
    return tensors


def same(left, right):
    expect(left.keys() == right.keys(), f"{left.keys()} and {right.keys()}")
    for name, tensor in left.items():
        other = right[name]
        expect(other.dtype == tensor.dtype and other.shape == tensor.shape, f"{name}: {other.dtype}{other.shape}")
        expect(other.tobytes() == tensor.tobytes(), f"{name} has other bytes")


def a_file_of_the_package_is_copied_unchanged():
    with tempfile.TemporaryDirectory() as name:
        before, after = pathlib.Path(name, "before"), pathlib.Path(name, "after")
        save_file(theirs(), before, metadata={"format": "np", "note": "theirs"})
        result = subprocess.run([copy, before, after], capture_output=True, text=True, check=False)
        expect(result.returncode == 0, result.stderr)
        same(theirs(), load_file(after))
        with safe_open(after, "numpy") as file:
            expect(file.metadata() == {"format": "np", "note": "theirs"}, file.metadata())


def the_package_reads_a_checkpoint():
    with tempfile.TemporaryDirectory() as name:
        result = launcher.run(2, train, "--data", "synthetic", "--steps", "3", "--quiet", "--checkpoint-dir", name,
                              "--save-every", "3", "--optimizer", "adam")
        expect(result.returncode == 0, result.stderr)
        tensors = load_file(pathlib.Path(name, "step-000000000003", "state.safetensors"))
    expect(tensors["optimizer/adam/steps"].tolist() == 3, tensors["optimizer/adam/steps"])
    parameters = [t for key, t in tensors.items() if key.startswith("model/")]
    expect(len(parameters) == 4 and all(t.dtype == numpy.float32 for t in parameters), tensors.keys())
    expect(all(numpy.isfinite(t).all() and t.any() for t in parameters), "no parameters")


sys.exit(run_cases([
    ("a file of the package is copied unchanged", a_file_of_the_package_is_copied_unchanged),
    ("the package reads a checkpoint", the_package_reads_a_checkpoint),
]))
