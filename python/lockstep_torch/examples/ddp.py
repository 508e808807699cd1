# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""A program for DistributedDataParallel.

  mpirun -n 2 python ddp.py                                        with lockstep
  torchrun --nproc-per-node 2 ddp.py gloo                          the same program with another backend
"""

import sys

import torch
import torch.distributed as dist

backend = sys.argv[1] if len(sys.argv) > 1 else "lockstep"
if backend == "lockstep":
    import lockstep_torch  # noqa: F401 (registers the backend, and starts MPI)

torch.set_num_threads(1)  # ranks share the cores
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
x = torch.arange(960.0 * 8).mul(0.37).sin().view(960, 8)
y = x.square().sum(1, keepdim=True)
for epoch in range(10):
    total = torch.zeros(1)
    for first in range(0, 960, 96):
        mine = slice(first + rank * 96 // size, first + (rank + 1) * 96 // size)
        loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.detach() / 10
    dist.all_reduce(total, dist.ReduceOp.SUM)
    if rank == 0:
        print(f"epoch {epoch + 1}, loss {total.item() / size:.6f}")
dist.destroy_process_group()
