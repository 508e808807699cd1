#!/usr/bin/env python3
# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Baseline for the mlp of lockstep-train: the same model in PyTorch, one thread per process, trained on synthetic images.

    python3 bench/training/pytorch_mlp.py [--processes N] [--batch B] [--seconds S] [--device cpu|cuda] [--tf32]

With N > 1 it uses DistributedDataParallel over Gloo; --batch is per process, and images_per_s is the sum over all processes.

With --device cuda the model and its arithmetic are on GPUs, in fp32 unless --tf32 is given. As in lockstep-train --device gpu, the data is in
host memory, and each batch is copied to the GPU; unlike there, a step does not wait for its loss. Process i uses GPU i modulo the number of
GPUs. DistributedDataParallel uses NCCL if there is a GPU for each process, otherwise Gloo.

Exits with 77 if PyTorch, or with --device cuda a GPU, is absent. The last line of the output is JSON.
"""

import argparse
import json
import os
import sys
import tempfile
import time

NUM_IMAGES = 60000  # as many as in Fashion-MNIST, so that the data does not fit into the caches here either


def train(rank, options, store, results):
    import torch
    from torch import nn

    processes, batch = options.processes, options.batch
    on_gpu = options.device == "cuda"
    device = torch.device("cuda", rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high" if options.tf32 else "highest")  # high: TF32
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    if processes > 1:
        import torch.distributed as dist

        dist.init_process_group(backend_of(options, torch), init_method="file://" + store, rank=rank, world_size=processes)
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if on_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(100 + rank)
    images = torch.rand(NUM_IMAGES, 784, generator=generator)
    labels = torch.randint(0, 10, (NUM_IMAGES,), generator=generator)
    if on_gpu:  # copies from pinned memory do not block the host
        images, labels = images.pin_memory(), labels.pin_memory()

    def run(steps, start):
        for step in range(start, start + steps):
            begin = step * batch % (NUM_IMAGES - batch + 1)
            rows, classes = (data[begin : begin + batch].to(device, non_blocking=True) for data in (images, labels))
            optimizer.zero_grad()
            loss = loss_of(model(rows), classes)
            loss.backward()
            optimizer.step()
        return loss

    def now():
        if on_gpu:
            torch.cuda.synchronize(device)  # otherwise the GPU still works on steps that the host has started
        return time.perf_counter()

    # All processes make the same number of steps, chosen by the speed of process 0 after a warm-up.
    warm_up = 300 if on_gpu else 30
    run(warm_up, 0)
    begin = now()
    run(50, warm_up)
    steps = max(1, int(options.seconds * 50 / (now() - begin)))
    if processes > 1:
        agreed = torch.tensor([steps], device=device)
        dist.broadcast(agreed, 0)
        steps = int(agreed)
        dist.barrier()
    begin = now()
    loss = run(steps, warm_up + 50)
    now()  # waits for the GPU
    if processes > 1:
        dist.barrier()
    elapsed = now() - begin
    loss = loss.item()
    if not loss == loss:
        raise RuntimeError("the loss is NaN: the speed means nothing")
    if rank == 0:
        with open(results, "w", encoding="utf-8") as file:
            json.dump({"images_per_s": round(processes * batch * steps / elapsed), "steps": steps, "loss": round(loss, 4)}, file)
    if processes > 1:
        dist.destroy_process_group()


def backend_of(options, torch):
    """The library of DistributedDataParallel: NCCL cannot serve two processes on one GPU."""
    return "nccl" if options.device == "cuda" and options.processes <= torch.cuda.device_count() else "gloo"


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256, help="rows per process and step (default 256)")
    parser.add_argument("--seconds", type=float, default=3.0, help="approximate length of the measured part (default 3)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device of the model (default cpu)")
    parser.add_argument("--tf32", action="store_true", help="let GPUs multiply in TF32 instead of fp32")
    options = parser.parse_args()
    if options.processes < 1 or not 1 <= options.batch <= NUM_IMAGES:
        parser.error(f"--processes is at least 1, --batch is 1 to {NUM_IMAGES}")
    if options.tf32 and options.device != "cuda":
        parser.error("--tf32 needs --device cuda")
    try:
        import torch
    except ImportError as error:
        print(f"skipped: PyTorch is not installed for {sys.executable} ({error}); pip install torch", file=sys.stderr)
        return 77
    if options.device == "cuda" and not torch.cuda.is_available():
        built = f"was built for CUDA {torch.version.cuda}" if torch.version.cuda else "was built without CUDA"
        print(f"skipped: PyTorch {torch.__version__} finds no GPU; it {built}", file=sys.stderr)
        return 77

    print(f"{cpu_name()}, {os.cpu_count()} CPUs, PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    where = {"device": options.device}
    if options.device == "cuda":
        where.update(gpu=torch.cuda.get_device_name(0), cuda=torch.version.cuda, tf32=options.tf32)
        print(f"{torch.cuda.device_count()} GPU(s): {where['gpu']}, CUDA {where['cuda']}, {'TF32' if options.tf32 else 'fp32'}")
    if options.processes > 1:
        where.update(backend=backend_of(options, torch))
    print(f"{options.processes} process(es) of one thread, batch {options.batch} each, SGD with momentum, loopback")
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "results.json")
        arguments = (options, os.path.join(folder, "store"), results)
        if options.processes == 1:
            train(0, *arguments)
        else:
            # Gloo otherwise looks up the host name, which may not resolve.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            torch.multiprocessing.spawn(train, args=arguments, nprocs=options.processes)
        with open(results, encoding="utf-8") as file:
            result = json.load(file)
    print(json.dumps({"benchmark": "pytorch_mlp", "processes": options.processes, "batch": options.batch, "torch": torch.__version__, **where,
                      **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
