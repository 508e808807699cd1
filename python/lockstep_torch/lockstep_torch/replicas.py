# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Training whose bits depend on the number of replicas, and not on the number of processes."""

import torch

from . import _c


class Replicas:
    """A fixed number of replicas, which the processes of the job share evenly.

    Each replica has its own rows of a batch. A process computes the gradients of its replicas one after another, and `average`
    reduces those of all replicas along lockstep's tree over replica ids. So 1, 2 and 4 processes compute the same bits for 4
    replicas, if each replica computes the same rows and the computation of a replica does not depend on the number of threads
    (torch.set_num_threads(1)).

        replicas = lockstep_torch.Replicas(4)
        for x, y in batches:
            for r in replicas.local:
                loss(model(x[r::4]), y[r::4]).backward()
                replicas.take(model)
            replicas.average(model)
            optimizer.step()
            optimizer.zero_grad()
    """

    def __init__(self, count, timeout=None):
        """`count`: number of replicas; the number of processes divides it. `timeout`: seconds after which `average` fails on
        all ranks if a rank is missing. Collective over the job."""
        _, size, *_ = _c.start()
        if count < 1 or count % size:
            raise ValueError(f"Replicas: {count} replicas cannot be shared evenly by {size} processes")
        self._ours = _c.Replicas(count // size, timeout)
        self._taken = []
        self.count = count
        self.local = range(self._ours.first, self._ours.first + count // size)

    def take(self, model):
        """Keeps the gradients of one replica, in the order of `local`, and removes them from `model`. Local.

        A parameter without a gradient has a gradient of zeros."""
        if len(self._taken) == len(self.local):
            raise RuntimeError(f"Replicas.take: this process has {len(self.local)} replicas, whose gradients are taken already; "
                               "call average")
        gradients = []
        for parameter in self._parameters(model):
            gradients.append(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
            parameter.grad = None
        self._taken.append(gradients)

    def average(self, model, op="mean"):
        """Sets the gradients of `model` to the mean (or, with op="sum", the sum) over all replicas. Collective over the job."""
        if op not in ("mean", "sum"):
            raise ValueError(f'Replicas.average: op is "{op}"; it must be "mean" or "sum"')
        if len(self._taken) != len(self.local):
            raise RuntimeError(f"Replicas.average: take was called for {len(self._taken)} of the {len(self.local)} replicas of "
                               "this process")
        taken, self._taken = self._taken, []
        self._ours.all_reduce(taken, taken[0], op == "mean")
        for parameter, gradient in zip(self._parameters(model), taken[0]):
            parameter.grad = gradient

    @staticmethod
    def _parameters(model):
        return [parameter for parameter in model.parameters() if parameter.requires_grad]
