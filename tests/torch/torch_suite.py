#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Runs torch's own tests of torch.distributed (torch/testing/_internal/distributed/distributed_test.py, part of its wheels) with the backend lockstep.

  torch_suite.py gloo|mpi [NAME...] -- mpirun [OPTION...] -n 3 python

The words after -- start an interpreter on each rank; lockstep_torch must be importable. Prints the outcome of each test that is not
skipped, and the numbers of tests that passed, failed and were skipped. After a failure, the rest is run in a new job, because the ranks may
have made different numbers of calls. The tests know no other backends than those of torch: the first argument is the backend whose tests are
run (of all tests of a CPU backend, mpi alone has those of all_to_all, and gloo alone those of timeouts). Tests whose name says that they
need a GPU are omitted.
"""

import datetime
import os
import re
import select
import signal
import subprocess
import sys
import time
import traceback
import unittest

DEADLINE = 150  # seconds for one test, with the start of the job


def load(backend):
    os.environ.update(BACKEND=backend, INIT_METHOD="env://")
    os.environ.setdefault("TEMP_DIR", "/tmp")
    os.makedirs(os.path.join(os.environ["TEMP_DIR"], "test_dir"), exist_ok=True)
    from torch.testing._internal.distributed import distributed_test

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        pass

    return distributed_test, Suite


def outcome_of(suite, name, rank):
    import torch
    test = suite(name)
    test.rank = rank
    test.file_name = "unused"
    torch.manual_seed(1)  # the tests expect that all ranks draw the same numbers
    try:
        getattr(test, name)()
        return "passed"
    except unittest.SkipTest as reason:
        return f"skipped: {reason}"
    except SystemExit as end:  # how torch's decorators skip a test in a process
        return f"skipped: exit code {end.code}"
    except BaseException:
        return f"failed on rank {rank}: {traceback.format_exc()}"


def run_on_rank(backend, names):
    import torch.distributed as dist
    import lockstep_torch  # noqa: F401 (registers the backend, and starts MPI)

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)
    module, suite = load(backend)
    names = names or sorted(name for name in dir(suite) if name.startswith("test_") and not re.search("cuda|gpu|nccl|hpu", name))
    if rank == 0:
        print("tests:", *names, flush=True)
    counts = {}

    def sync(wait_for=None, timeout=10):
        """In place of a barrier through files."""
        counts["barriers"] = counts.get("barriers", 0) + 1
        key = f"barrier/{name}/{counts['barriers']}"
        store.add(key, 1)
        until = time.monotonic() + 60
        while store.add(key, 0) < (wait_for or size):
            if time.monotonic() > until:
                raise RuntimeError("the ranks do not meet at a barrier of the test")
            time.sleep(0.01)

    module.Barrier.sync = staticmethod(sync)
    for name in names:
        counts["barriers"] = 0
        dist.init_process_group("lockstep", store=dist.PrefixStore(name, store), rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=30))
        store.set(f"outcome/{name}/{rank}", outcome_of(suite, name, rank))
        outcomes = [store.get(f"outcome/{name}/{r}").decode() for r in range(size)]
        failures = [one for one in outcomes if one.startswith("failed")]
        if rank == 0:
            print(f"outcome {name}: {(failures or outcomes)[0]}", flush=True)
        if failures:
            store.add("ended", 1)
            while rank == 0 and store.add("ended", 0) < size:
                time.sleep(0.01)
            os._exit(1)
        if dist.is_initialized():
            dist.destroy_process_group()


def run_job(launcher, backend, names):
    """Returns the names of all tests, and the outcomes of those that have ended."""
    process = subprocess.Popen([*launcher, os.path.abspath(__file__), "--rank", backend, *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    output, last = b"", time.monotonic()
    while time.monotonic() - last < DEADLINE:
        if select.select([process.stdout], [], [], 1)[0]:
            more = os.read(process.stdout.fileno(), 65536)
            if not more:
                break
            output, last = output + more, time.monotonic()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    text = output.decode()
    found = re.search(r"(?m)^tests: (.*)\n", text)
    outcomes = dict(re.findall(r"(?ms)^outcome (\w+): (.*?)(?=^outcome |\Z)", text))
    return found[1].split() if found else [], outcomes


def main(words):
    split = words.index("--")
    backend, rest, launcher = words[0], words[1:split], words[split + 1:]
    results = {}
    while True:
        names, outcomes = run_job(launcher, backend, rest)
        if not names:
            sys.exit("the job does not start")
        rest = [name for name in names if name not in outcomes]
        if not any(one.startswith("failed") for one in outcomes.values()) and rest:
            outcomes[rest[0]] = "failed: the job has ended, or the test has not"
            rest = rest[1:]
        for name, outcome in outcomes.items():
            if not outcome.startswith("skipped"):
                print(name, outcome.strip(), flush=True)
        results.update(outcomes)
        if not rest:
            break
    kinds = [one.split()[0].rstrip(":") for one in results.values()]
    print(f"{kinds.count('passed')} passed, {kinds.count('failed')} failed, {kinds.count('skipped')} skipped")
    return 1 if "failed" in kinds else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        run_on_rank(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main(sys.argv[1:]))
