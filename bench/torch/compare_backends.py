# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the backends lockstep and gloo of torch.distributed in one job, alternately.

  mpirun --bind-to core -n 2 python compare_backends.py [--rounds 7] [--steps 60] [--arena]

Training: DistributedDataParallel, layers 784-256-10 (one bucket of 0.8 MB), 256 rows per rank, SGD, one thread per rank. Each round
trains one after another with gloo, with lockstep, and with three loops that show what a backend can reach at most: the model without
DistributedDataParallel ("alone"), DistributedDataParallel with a hook that exchanges nothing ("nothing"), and the same with an all_reduce of
4 bytes per step ("4 bytes"). Each round gives one ratio of each pair; the medians of these ratios are printed with the smallest and the
largest. all_reduce: f32 in place, the same buffer each time. The parameters after all steps and the sums are checked.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist

import lockstep_torch

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--arena", action="store_true", help="store tensors in memory that all ranks of the node map")
parser.add_argument("--time-in-call", type=float, help="seconds, as for lockstep_torch.set_time_in_call")
options = parser.parse_args()

torch.set_num_threads(1)
if options.time_in_call is not None:
    lockstep_torch.set_time_in_call(options.time_in_call)
dist.init_process_group("lockstep")
rank, size = dist.get_rank(), dist.get_world_size()
groups = {"gloo": dist.new_group(backend="gloo"), "lockstep": dist.new_group(backend="lockstep")}
if options.arena:
    lockstep_torch.use_arena()

x = torch.randn(8, 256, 784, generator=torch.Generator().manual_seed(rank))
y = torch.randint(0, 10, (8, 256), generator=torch.Generator().manual_seed(100 + rank))


def exchange_nothing(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


class Training:
    def __init__(self, group, *, has_hook=False, meets=False):
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        self.model = torch.nn.parallel.DistributedDataParallel(self.net, process_group=group) if group else self.net
        if has_hook:
            self.model.register_comm_hook(None, exchange_nothing)
        self.number = torch.zeros(1) if meets else None
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.05)

    def seconds_per_step(self, steps):
        dist.barrier()
        begin = time.perf_counter()
        for k in range(steps):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.model(x[k % 8]), y[k % 8]).backward()
            if self.number is not None:
                dist.all_reduce(self.number, group=groups["lockstep"])
            self.optimizer.step()
        dist.barrier()
        return (time.perf_counter() - begin) / steps


def seconds_per_all_reduce(group, tensor, calls):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    seconds = (time.perf_counter() - begin) / calls
    assert tensor[-1].item() == 0
    return seconds


def summary(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def show(text):
    if rank == 0:
        print(text, flush=True)


load = "/".join(f"{one:.2f}" for one in os.getloadavg())
show(f"torch {torch.__version__}, {size} ranks, {os.cpu_count()} processors, load {load}, "
     f"tensors in {'the arena' if options.arena else 'ordinary memory'}, {options.rounds} rounds of {options.steps} steps")
runs = {"gloo": Training(groups["gloo"]), "lockstep": Training(groups["lockstep"]), "alone": Training(None),
        "nothing": Training(groups["lockstep"], has_hook=True), "4 bytes": Training(groups["lockstep"], has_hook=True, meets=True)}
for run in runs.values():
    run.seconds_per_step(10)
rounds = [{name: run.seconds_per_step(options.steps) for name, run in runs.items()} for _ in range(options.rounds)]
for name in runs:
    show(f"{name:10}{statistics.median(one[name] for one in rounds) * 1e3:8.3f} ms per step")
for other in ("gloo", "alone", "nothing", "4 bytes"):
    show(f"speed of lockstep / {other + ':':9}{summary([one[other] / one['lockstep'] for one in rounds])}")
for one, other in zip(runs["gloo"].net.parameters(), runs["lockstep"].net.parameters()):
    torch.testing.assert_close(one, other)

for nbytes in (8, 4096, 65536, 1 << 20, 16 << 20):
    tensor = torch.zeros(nbytes // 4)
    calls = max(5, min(300, (32 << 20) // nbytes))
    for group in groups.values():
        seconds_per_all_reduce(group, tensor, 3)
    times = [{name: seconds_per_all_reduce(group, tensor, calls) for name, group in groups.items()} for _ in range(options.rounds)]
    show(f"all_reduce {nbytes:9} B: gloo {statistics.median(one['gloo'] for one in times) * 1e6:9.1f} us, "
         f"lockstep {statistics.median(one['lockstep'] for one in times) * 1e6:9.1f} us, "
         f"time of lockstep / gloo {summary([one['lockstep'] / one['gloo'] for one in times])}")
dist.destroy_process_group()
