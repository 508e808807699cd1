#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The backend "lockstep" of torch.distributed, built against the lockstep of BUILD.

  backend_test.py SOURCES BUILD TORCH -- MPIEXEC [OPTION...]

The interpreter is the one that the variable LOCKSTEP_TORCH_PYTHON names, or that of the virtual environment in which the folder TORCH is, or
else the one that runs this script. Skipped if it cannot import torch with torch.distributed.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "apps"))
from programs import Launcher, expect, expect_in  # noqa: E402
from tap import Checks  # noqa: E402

sources, build, torch = (os.path.abspath(argument) for argument in sys.argv[1:4])
launcher = Launcher(sys.argv[sys.argv.index("--") + 1:])
beside_torch = os.path.normpath(os.path.join(torch, *[os.pardir] * 4, "bin", "python"))
python = os.environ.get("LOCKSTEP_TORCH_PYTHON") or (beside_torch if os.path.exists(beside_torch) else sys.executable)
package = os.path.join(sources, "python", "lockstep_torch")
here = os.path.dirname(os.path.abspath(__file__))
folder = os.path.join(build, "tests", "torch", "python")
environment = dict(os.environ, PYTHONPATH=folder + ":" + os.path.dirname(torch), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
environment.pop("LOCKSTEP_TIMEOUT", None)  # the cases pass timeouts of their own


def require_torch():
    probe = "import torch, torch.distributed as d; assert d.is_available(); print(torch.__version__)"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"1..0 # SKIP {python} has no torch with torch.distributed ({reason}); LOCKSTEP_TORCH_PYTHON names an interpreter with it")
        sys.exit(0)


def build_extension():
    """Against the library in BUILD and the headers in SOURCES, as if they were installed."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(build, "meson-private", "lockstep.pc"), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"(?m)^includedir=.*", f"includedir={sources}/include", text)
    text = re.sub(r"(?m)^libdir=.*", f"libdir={build}/lib", text)
    with open(os.path.join(folder, "lockstep.pc"), "w", encoding="utf-8") as file:
        file.write(text)
    path = folder + ":" + environment.get("PKG_CONFIG_PATH", "")
    command = [python, "setup.py", "--quiet", "egg_info", "--egg-base", folder,
               "build", "--build-lib", folder, "--build-temp", os.path.join(folder, "temporary")]
    return subprocess.run(command, cwd=package, env=dict(environment, PKG_CONFIG_PATH=path, MAX_JOBS="1"), capture_output=True, text=True,
                          timeout=1500, check=False)


def example(name, ranks, *arguments):
    result = launcher.run(ranks, python, os.path.join(package, "examples", name), *arguments, env=environment, timeout=200)
    expect(result.returncode == 0, result.stdout + result.stderr)
    return result.stdout


def ddp_runs_unchanged_with_both_backends():
    losses = [re.findall(r"epoch \d+, loss ([\d.]+)", example("ddp.py", ranks)) for ranks in (1, 2, 3)]
    expect(all(len(one) == 10 for one in losses), losses)
    torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", os.path.join(package, "examples", "ddp.py"), "gloo"]
    done = subprocess.run(torchrun, env=environment, capture_output=True, text=True, timeout=200, check=False)
    expect(done.returncode == 0, done.stderr)
    losses.append(re.findall(r"epoch \d+, loss ([\d.]+)", done.stdout))
    for one in losses[1:]:
        expect(all(abs(float(a) - float(b)) <= 1e-3 * float(a) for a, b in zip(losses[0], one)), losses)
    expect(float(losses[0][-1]) < 0.2 * float(losses[0][0]), losses)


def the_bits_of_four_replicas_do_not_depend_on_the_number_of_processes():
    lines = [example("replicas.py", ranks) for ranks in (1, 2, 4)]
    expect(re.fullmatch(r"4 replicas, parameters [0-9a-f]{16}\n", lines[0]) and len(set(lines)) == 1, lines)


def torchrun_is_refused_with_an_error_that_names_mpirun():
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", "1", os.path.join(package, "examples", "ddp.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    expect(done.returncode != 0, done.stdout)
    expect_in(["DistBackendError: the backend lockstep needs MPI", "torchrun", "mpirun -n N python PROGRAM"], done.stderr)


def a_program_without_a_launcher_is_a_job_of_one_rank():
    result = launcher.run(0, python, os.path.join(package, "examples", "replicas.py"), env=environment, timeout=200)
    expect(result.returncode == 0 and result.stdout.startswith("4 replicas"), result.stdout + result.stderr)


def an_exception_on_one_rank_is_reported_by_the_others():
    program = ("import torch, lockstep_torch, torch.distributed as dist\n"
               "dist.init_process_group('lockstep')\n"
               "dist.barrier()\n"
               "if dist.get_rank() == 1: raise ValueError('no rows left')\n"
               "try: dist.all_reduce(torch.ones(2))\n"
               "except dist.DistBackendError as error: print('caught:', str(error).splitlines()[0])\n")
    result = launcher.run(2, python, "-c", program, env=environment, timeout=200)
    expect(result.returncode != 0, result.stderr)
    expect_in(["caught: unavailable: rank 1 failed", "ValueError: no rows left"], result.stdout)
    expect_in(["ValueError: no rows left"], result.stderr)


def a_process_that_ends_without_destroying_the_group_ends():
    program = ("import torch, lockstep_torch, torch.distributed as dist\n"
               "dist.init_process_group('lockstep')\n"
               "dist.all_reduce(torch.ones(2))\n"
               "work = dist.all_reduce(torch.ones(2), async_op=True) if dist.get_rank() == 0 else None\n")
    result = launcher.run(2, python, "-c", program, env=environment, timeout=200)
    expect(result.returncode == 0, f"{result.returncode}, {result.stderr}")


def workers_of_a_data_loader_do_not_start_mpi():
    program = os.path.join(folder, "workers.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write("import torch, lockstep_torch, torch.distributed as dist\n"
                   "class Rows(torch.utils.data.Dataset):\n"
                   "  def __len__(self): return 8\n"
                   "  def __getitem__(self, k): return torch.full((3,), float(k))\n"
                   "if __name__ == '__main__':\n"
                   "  dist.init_process_group('lockstep')\n"
                   "  lockstep_torch.use_arena(least_bytes=0)\n"
                   "  for context in ('fork', 'spawn'):\n"
                   "    loader = torch.utils.data.DataLoader(Rows(), 2, num_workers=1, multiprocessing_context=context)\n"
                   "    total = sum(batch.sum() for batch in loader)\n"
                   "    dist.all_reduce(total)\n"
                   "    assert total.item() == 84 * dist.get_world_size(), total\n"
                   "  dist.destroy_process_group()\n")
    result = launcher.run(2, python, program, env=environment, timeout=200)
    expect(result.returncode == 0, result.stderr)


def a_library_in_cpp_uses_lockstep_beside_the_backend():
    """Each has an Environment of its own; either may be the first, and either the last."""
    program = os.path.join(folder, "beside.py")
    with open(program, "w", encoding="utf-8") as file:
        file.write("import ctypes, sys, torch, lockstep_torch, torch.distributed as dist\n"
                   "step_of_a = ctypes.CDLL(sys.argv[1]).step_of_a\n"
                   "step_of_a.argtypes, step_of_a.restype = [ctypes.c_char], ctypes.c_bool\n"
                   "def library(steps): assert all(step_of_a(step.encode()) for step in steps)\n"
                   "if sys.argv[2] == 'library': library('+s')\n"
                   "dist.init_process_group('lockstep')\n"
                   "if sys.argv[2] == 'torch': library('+s')\n"
                   "total = torch.ones(2)\n"
                   "dist.all_reduce(total)\n"
                   "assert total[0].item() == dist.get_world_size(), total\n"
                   "if sys.argv[3] == 'torch': library('s-')\n"
                   "dist.all_reduce(total)\n"
                   "dist.destroy_process_group()\n"
                   "if sys.argv[3] == 'library': library('s-')\n")
    library = os.path.join(build, "tests", "apps", "libenvironments-a.so")
    for first in ("library", "torch"):
        for last in ("library", "torch"):
            result = launcher.run(2, python, program, library, first, last, env=environment, timeout=200)
            expect(result.returncode == 0, f"first {first}, last {last}: {result.returncode}, {result.stderr}")
            expect(result.stdout.count("a: sum 3 of 2 ranks") == 2, f"first {first}, last {last}: {result.stdout}")


def the_page_shows_the_examples():
    with open(os.path.join(sources, "python/lockstep_torch/README.md"), encoding="utf-8") as file:
        page = file.read()
    with open(os.path.join(package, "examples", "replicas.py"), encoding="utf-8") as file:
        loop = file.read().split("replicas = ", 1)[1].split("\nbits", 1)[0]
    expect("replicas = " + loop.rstrip("\n") in page, "README.md has another loop than examples/replicas.py")


PROGRAMS = (ddp_runs_unchanged_with_both_backends, the_bits_of_four_replicas_do_not_depend_on_the_number_of_processes,
            torchrun_is_refused_with_an_error_that_names_mpirun, a_program_without_a_launcher_is_a_job_of_one_rank,
            an_exception_on_one_rank_is_reported_by_the_others, a_process_that_ends_without_destroying_the_group_ends,
            workers_of_a_data_loader_do_not_start_mpi, a_library_in_cpp_uses_lockstep_beside_the_backend, the_page_shows_the_examples)


def main():
    require_torch()
    built = build_extension()
    checks = Checks()
    checks.check("the extension is built", built.returncode == 0, built.stdout + built.stderr)
    if built.returncode:
        return checks.end()
    for ranks in (2, 3):
        result = launcher.run(ranks, python, os.path.join(here, "backend_cases.py"), env=environment, timeout=600)
        cases = re.findall(r"(?m)^(ok|not ok) \d+ - (.*)\n((?:#.*\n)*)", result.stdout)
        for state, name, text in cases:
            checks.check(name, state == "ok", text)
        checks.check(f"all cases were run on {ranks} ranks", result.stdout.startswith(f"1..{len(cases)}\n") and result.returncode == 0,
                     f"exit code {result.returncode}\n{result.stderr}")
    for program in PROGRAMS:
        try:
            program()
            checks.check(program.__name__.replace("_", " "), True)
        except Exception as error:  # a failed case is a result
            checks.check(program.__name__.replace("_", " "), False, error)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
