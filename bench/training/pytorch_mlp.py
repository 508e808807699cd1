#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Baseline for the mlp of lockstep-train: the same model in PyTorch, one thread per process, trained on synthetic images.

    python3 bench/training/pytorch_mlp.py [--processes N] [--batch B] [--seconds S]

With N > 1 it uses DistributedDataParallel over Gloo; --batch is per process, and images_per_s is the sum over all processes. Exits with 77
if PyTorch is absent. The last line of the output is JSON.
"""

import argparse
import json
import os
import sys
import tempfile
import time

NUM_IMAGES = 60000  # as many as in Fashion-MNIST, so that the data does not fit into the caches here either


def train(rank, processes, batch, seconds, store, results):
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    if processes > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=processes)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(100 + rank)
    images = torch.rand(NUM_IMAGES, 784, generator=generator)
    labels = torch.randint(0, 10, (NUM_IMAGES,), generator=generator)

    def run(steps, start):
        for step in range(start, start + steps):
            begin = step * batch % (NUM_IMAGES - batch + 1)
            optimizer.zero_grad()
            loss = loss_of(model(images[begin : begin + batch]), labels[begin : begin + batch])
            loss.backward()
            optimizer.step()
        return loss.item()

    # All processes make the same number of steps, chosen by the speed of process 0 after a warm-up.
    run(30, 0)
    begin = time.perf_counter()
    run(50, 30)
    steps = max(1, int(seconds * 50 / (time.perf_counter() - begin)))
    if processes > 1:
        agreed = torch.tensor([steps])
        dist.broadcast(agreed, 0)
        steps = int(agreed)
        dist.barrier()
    begin = time.perf_counter()
    loss = run(steps, 80)
    if processes > 1:
        dist.barrier()
    elapsed = time.perf_counter() - begin
    if not loss == loss:
        raise RuntimeError("the loss is NaN: the speed means nothing")
    if rank == 0:
        with open(results, "w", encoding="utf-8") as file:
            json.dump({"images_per_s": round(processes * batch * steps / elapsed), "steps": steps, "loss": round(loss, 4)}, file)
    if processes > 1:
        dist.destroy_process_group()


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256, help="rows per process and step (default 256)")
    parser.add_argument("--seconds", type=float, default=3.0, help="approximate length of the measured part (default 3)")
    options = parser.parse_args()
    if options.processes < 1 or not 1 <= options.batch <= NUM_IMAGES:
        parser.error(f"--processes is at least 1, --batch is 1 to {NUM_IMAGES}")
    try:
        import torch
    except ImportError as error:
        print(f"skipped: PyTorch is not installed for {sys.executable} ({error}); pip install torch", file=sys.stderr)
        return 77

    print(f"{cpu_name()}, {os.cpu_count()} CPUs, PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    print(f"{options.processes} process(es) of one thread, batch {options.batch} each, SGD with momentum, loopback")
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "results.json")
        arguments = (options.processes, options.batch, options.seconds, os.path.join(folder, "store"), results)
        if options.processes == 1:
            train(0, *arguments)
        else:
            # Gloo otherwise looks up the host name, which may not resolve.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            torch.multiprocessing.spawn(train, args=arguments, nprocs=options.processes)
        with open(results, encoding="utf-8") as file:
            result = json.load(file)
    print(json.dumps({"benchmark": "pytorch_mlp", "processes": options.processes, "batch": options.batch, "torch": torch.__version__, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
