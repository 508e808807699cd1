# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Training of 4 replicas: the same bits with 1, 2 and 4 processes.

  mpirun -n 1 python replicas.py
  mpirun -n 2 python replicas.py
  mpirun -n 4 python replicas.py
"""

import hashlib

import torch
import torch.distributed as dist

import lockstep_torch

torch.set_num_threads(1)  # a matrix product has other bits with another number of threads
dist.init_process_group("lockstep")
replicas = lockstep_torch.Replicas(4)

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
x = torch.arange(960.0 * 8).mul(0.37).sin().view(960, 8)
y = x.square().sum(1, keepdim=True)
for epoch in range(5):
    for first in range(0, 960, 96):
        for replica in replicas.local:  # this process computes the gradients of these replicas, one after another
            mine = slice(first + replica * 24, first + (replica + 1) * 24)
            torch.nn.functional.mse_loss(model(x[mine]), y[mine]).backward()
            replicas.take(model)
        replicas.average(model)
        optimizer.step()
        optimizer.zero_grad()

bits = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
if dist.get_rank() == 0:
    print(f"{replicas.count} replicas, parameters {bits[:16]}")
dist.destroy_process_group()
