# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Allreduce of NumPy arrays by mpi4py. Prints, for each size in bytes, the median time of a call in microseconds."""

import statistics
import time

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
for size in (8, 2048, 65536, 1 << 20, 16 << 20):
    values = numpy.full(size // 8, comm.rank + 1.0)
    result = numpy.empty_like(values)
    times = []
    for _ in range(max(7, min(500, (16 << 20) // size))):
        comm.Barrier()
        begin = time.perf_counter()
        comm.Allreduce(values, result, MPI.SUM)
        times.append(time.perf_counter() - begin)
    assert (result == comm.size * (comm.size + 1) / 2).all()
    objects = comm.allgather({'rank': comm.rank})
    assert [entry['rank'] for entry in objects] == list(range(comm.size))
    if comm.rank == 0:
        print(size, f'{statistics.median(times) * 1e6:.2f}')
