# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""Cases of the backend "lockstep" of torch.distributed; every rank runs each of them.

  mpirun -n N python backend_cases.py [NAME...]

Rank 0 prints one line of TAP for each case. The ranks exchange their results through torch's store, which is independent of lockstep.
"""

import datetime
import itertools
import os
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import lockstep_torch

Op = dist.ReduceOp
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)


def numbers(rank, shape, dtype, low=-3, high=4):
    """Small whole numbers, which every rank can compute for every other rank; sums of them are exact in every type."""
    generator = torch.Generator().manual_seed(1000 + rank)
    low = 0 if dtype in (torch.uint8, torch.bool) else low
    high = 2 if dtype == torch.bool else high
    values = torch.randint(low, high, shape, generator=generator)
    if dtype in COMPLEX:
        return torch.complex(values.double(), values.flip(0).double()).to(dtype)
    return values.to(dtype)


def of_all(size, shape, dtype):
    return torch.stack([numbers(r, shape, dtype) for r in range(size)])


def mark(name):
    dist.distributed_c10d._get_default_store().add(f"mark/{name}", 1)


def wait_for_mark(name, count):
    """Until so many ranks have made the mark."""
    end = time.monotonic() + 200
    while dist.distributed_c10d._get_default_store().add(f"mark/{name}", 0) < count:
        assert time.monotonic() < end, f"the other ranks do not come to {name}"
        time.sleep(0.01)


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), f"{a} is not {b}"


def reduced(values, op):
    """The reduction of values[r] over r. Integers wrap; 16-bit floats are reduced in f32."""
    dtype = values.dtype
    if dtype in COMPLEX:
        return torch.view_as_complex(reduced(torch.view_as_real(values), op))
    wide = values.float() if dtype in (torch.float16, torch.bfloat16) else values
    if op == Op.SUM:
        return wide.any(0) if dtype == torch.bool else wide.sum(0, dtype=wide.dtype).to(dtype)
    if op == Op.AVG:
        return (wide.sum(0, dtype=wide.dtype) / len(values)).to(dtype)
    if op == Op.PRODUCT:
        return wide.all(0) if dtype == torch.bool else wide.prod(0, dtype=wide.dtype).to(dtype)
    if op == Op.MIN:
        return wide.amin(0).to(dtype)
    if op == Op.MAX:
        return wide.amax(0).to(dtype)
    fold = {Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor}[op]
    result = values[0]
    for one in values[1:]:
        result = fold(result, one)
    return result


def fails(call, *parts):
    try:
        call()
    except dist.DistBackendError as error:
        text = str(error)
        missing = [part for part in parts if part not in text]
        assert not missing, f"{missing} is missing in: {text}"
        return text
    raise AssertionError(f"no DistBackendError; expected one with {parts}")


# ---- reductions

def all_reduce_by_every_op_for_every_type(rank, size):
    ops = [(op, dtype) for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX) for dtype in FLOATS + INTEGERS + (torch.bool,)]
    ops += [(Op.AVG, dtype) for dtype in FLOATS + COMPLEX] + [(Op.SUM, dtype) for dtype in COMPLEX]
    ops += [(op, dtype) for op in (Op.BAND, Op.BOR, Op.BXOR) for dtype in INTEGERS + (torch.bool,)]
    for op, dtype in ops:
        for shape in ((5,), (3, 700)):
            tensor = numbers(rank, shape, dtype)
            dist.all_reduce(tensor, op)
            same(tensor, reduced(of_all(size, shape, dtype), op))


def integers_wrap(rank, size):
    tensor = torch.tensor([127, 100], dtype=torch.int8)
    dist.all_reduce(tensor)
    same(tensor, torch.tensor([127, 100], dtype=torch.int64).mul(size).to(torch.int8))


def sixteen_bit_floats_are_summed_in_f32(rank, size):
    values = [256.0] + [1.0] * (size - 1)  # in bf16, 256 + 1 is 256
    tensor = torch.full((9,), values[rank], dtype=torch.bfloat16)
    dist.all_reduce(tensor)
    same(tensor, torch.full((9,), sum(values)).to(torch.bfloat16))


def all_reduce_of_a_large_tensor_and_of_odd_ones(rank, size):
    large = numbers(rank, (1 << 20,), torch.float32)
    dist.all_reduce(large)
    same(large, reduced(of_all(size, (1 << 20,), torch.float32), Op.SUM))
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    same(scalar, torch.tensor(size * (size - 1) / 2))
    empty = torch.empty(0)
    dist.all_reduce(empty)
    matrix = numbers(rank, (7, 5), torch.float32)
    transposed, column = matrix.clone().t(), matrix.clone()[:, 1]
    dist.all_reduce(transposed)
    dist.all_reduce(column)
    total = reduced(of_all(size, (7, 5), torch.float32), Op.SUM)
    same(transposed, total.t())
    same(column, total[:, 1])
    conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
    dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([conjugate]).wait()
    same(conjugate.resolve_conj(), torch.tensor([1 - 2j, 3 + 1j]) * size)
    parameter = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(parameter)
    same(parameter.detach(), torch.full((3,), float(size)))


def reduce_to_every_root(rank, size):
    for root, dtype in itertools.product(range(size), (torch.float32, torch.int64, torch.complex64)):
        tensor = numbers(rank, (33,), dtype)
        dist.reduce(tensor, root)
        same(tensor, reduced(of_all(size, (33,), dtype), Op.SUM) if rank == root else numbers(rank, (33,), dtype))


def coalesced_calls(rank, size):
    shapes = ((3,), (4, 5), (1000,))
    tensors = [numbers(rank, shape, torch.float32) for shape in shapes]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor, shape in zip(tensors, shapes):
        same(tensor, reduced(of_all(size, shape, torch.float32), Op.SUM))

    inputs = [numbers(rank, (n,), torch.float32) for n in (2, 300)]
    outputs = [torch.empty(n * size) for n in (2, 300)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, one in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, one)
    manager.wait()
    for output, n in zip(outputs, (2, 300)):
        same(output, of_all(size, (n,), torch.float32).flatten())

    inputs = [numbers(rank, (n * size,), torch.float32) for n in (2, 300)]
    outputs = [torch.empty(n) for n in (2, 300)]
    with dist._coalescing_manager():
        for output, one in zip(outputs, inputs):
            dist.reduce_scatter_tensor(output, one)
    for output, n in zip(outputs, (2, 300)):
        same(output, reduced(of_all(size, (n * size,), torch.float32), Op.SUM)[rank * n:(rank + 1) * n])

    first, second = torch.ones(3), torch.full((2,), float(rank))  # calls of different kinds
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend._start_coalescing()
    dist.all_reduce(first, async_op=True)
    dist.broadcast(second, size - 1, async_op=True)
    backend._end_coalescing().wait()
    same(first, torch.full((3,), float(size)))
    same(second, torch.full((2,), float(size - 1)))


# ---- copies

def broadcast_of_every_type_from_every_root(rank, size):
    for root, dtype in itertools.product(range(size), FLOATS + INTEGERS + COMPLEX + (torch.bool, torch.float8_e4m3fn)):
        values = numbers(root, (4, 9), torch.float32 if dtype == torch.float8_e4m3fn else dtype).to(dtype)
        tensor = values.clone() if rank == root else torch.zeros(4, 9).to(dtype)
        dist.broadcast(tensor, root)
        same(tensor.to(torch.complex128), values.to(torch.complex128))
    strided = torch.zeros(6, 2)
    dist.broadcast(strided[:, 0] if rank else torch.arange(6.0), 0)
    if rank:
        same(strided, torch.stack([torch.arange(6.0), torch.zeros(6)], 1))


def all_gather_into_lists_and_tensors(rank, size):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        expected = of_all(size, (2, 3), dtype)
        outputs = [torch.empty(2, 3, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, numbers(rank, (2, 3), dtype))
        same(torch.stack(outputs), expected)
        neighbours = torch.empty(size, 2, 3, dtype=dtype)
        dist.all_gather(list(neighbours.unbind()), numbers(rank, (2, 3), dtype))
        same(neighbours, expected)
        tensor = torch.empty(2 * size, 3, dtype=dtype)
        dist.all_gather_into_tensor(tensor, numbers(rank, (2, 3), dtype))
        same(tensor, expected.flatten(0, 1))
        tensor = torch.empty(2 * size, 3, dtype=dtype)
        tensor[2 * rank:2 * rank + 2] = numbers(rank, (2, 3), dtype)
        dist.all_gather_into_tensor(tensor, tensor[2 * rank:2 * rank + 2])  # in place, as FSDP2 does
        same(tensor, expected.flatten(0, 1))
    outputs = [torch.empty(3, 2).t() for _ in range(size)]
    dist.all_gather(outputs, numbers(rank, (2, 3), torch.float32).t().contiguous().t())
    same(torch.stack(outputs), of_all(size, (2, 3), torch.float32))


def all_gather_of_different_sizes(rank, size):
    for dtype in (torch.float32, torch.complex64):
        outputs = [torch.empty(r + 1, 2, dtype=dtype) for r in range(size)]
        dist.all_gather(outputs, numbers(rank, (rank + 1, 2), dtype))
        for r, output in enumerate(outputs):
            same(output, numbers(r, (r + 1, 2), dtype))


def gather_and_scatter_for_every_root(rank, size):
    for root, dtype in itertools.product(range(size), (torch.float32, torch.complex64)):
        expected = of_all(size, (5,), dtype)
        outputs = [torch.empty(5, dtype=dtype) for _ in range(size)] if rank == root else None
        dist.gather(numbers(rank, (5,), dtype), outputs, root)
        if rank == root:
            same(torch.stack(outputs), expected)
        output = torch.empty(5, dtype=dtype)
        dist.scatter(output, list(expected.unbind()) if rank == root else None, root)
        same(output, expected[rank])
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if hasattr(backend, "gather_single"):
        options = dist.GatherOptions()
        options.rootRank = 1
        output = torch.empty(size, 5)
        backend.gather_single(output, numbers(rank, (5,), torch.float32), options).wait()
        if rank == 1:
            same(output, of_all(size, (5,), torch.float32))


def reduce_scatter_of_lists_and_tensors(rank, size):
    for op, dtype in ((Op.SUM, torch.float32), (Op.AVG, torch.bfloat16), (Op.MAX, torch.int64), (Op.SUM, torch.complex64)):
        total = reduced(of_all(size, (size, 7), dtype), op)
        output = torch.empty(7, dtype=dtype)
        dist.reduce_scatter(output, list(numbers(rank, (size, 7), dtype).unbind()), op)
        same(output, total[rank])
        output = torch.empty(1, 7, dtype=dtype)
        dist.reduce_scatter_tensor(output, numbers(rank, (size, 7), dtype), op)
        same(output[0], total[rank])
    parts = [numbers(rank, (r + 1,), torch.float32) for r in range(size)]  # different sizes
    output = torch.empty(rank + 1)
    dist.reduce_scatter(output, parts)
    same(output, reduced(of_all(size, (rank + 1,), torch.float32), Op.SUM))


def all_to_all_with_and_without_sizes(rank, size):
    for dtype in (torch.float32, torch.int64, torch.complex64):
        output = torch.empty(2 * size, 3, dtype=dtype)
        dist.all_to_all_single(output, numbers(rank, (2 * size, 3), dtype))
        same(output, torch.cat([numbers(r, (2 * size, 3), dtype)[2 * rank:2 * rank + 2] for r in range(size)]))

        def part(source, target, dtype=dtype):
            return numbers(10 * source + target, (source + 2 * target, 3), dtype)  # rank 0 sends itself nothing

        output = torch.empty(sum(len(part(r, rank)) for r in range(size)), 3, dtype=dtype)
        dist.all_to_all_single(output, torch.cat([part(rank, r) for r in range(size)]),
                               [len(part(r, rank)) for r in range(size)], [len(part(rank, r)) for r in range(size)])
        same(output, torch.cat([part(r, rank) for r in range(size)]))
        outputs = [torch.empty_like(part(r, rank)) for r in range(size)]
        dist.all_to_all(outputs, [part(rank, r) for r in range(size)])
        for r in range(size):
            same(outputs[r], part(r, rank))


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for dtype in (torch.float32, torch.complex64, torch.bool):
        received = torch.empty(8, dtype=dtype)
        request = dist.isend(numbers(rank, (8,), dtype), right)
        dist.recv(received, left)
        request.wait()
        same(received, numbers(left, (8,), dtype))
    received = torch.empty(4, 2).t()
    work = dist.batch_isend_irecv([dist.P2POp(dist.isend, numbers(rank, (2, 4), torch.float32), right, tag=3),
                                   dist.P2POp(dist.irecv, received, left, tag=3)])
    for one in work:
        one.wait()
    same(received, numbers(left, (2, 4), torch.float32))
    if rank == 0:
        fails(lambda: dist.send(torch.ones(2), 1, tag=1), "mismatch", "tag 1", "tag 2")
    elif rank == 1:
        fails(lambda: dist.recv(torch.ones(2), 0, tag=2), "mismatch", "tag 1", "tag 2")


def barriers(rank, size):
    key = "barriers"
    time.sleep(0.2 * rank)
    dist.distributed_c10d._get_default_store().add(key, 1)
    dist.barrier()
    assert dist.distributed_c10d._get_default_store().add(key, 0) == size
    dist.monitored_barrier()


# ---- asynchronous calls

def many_asynchronous_calls_and_their_futures(rank, size):
    for seconds in (0, 0.001):
        lockstep_torch.set_time_in_call(seconds)
        tensors = [numbers(rank, (10 + 1000 * (k % 3),), torch.float32) for k in range(60)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works[30:]):
            work.wait()
        for k, work in enumerate(works[:30]):
            value = work.get_future().wait()
            same(value[0], tensors[k])
        for tensor, work in zip(tensors, works):
            assert work.is_completed() and work.is_success()
            same(tensor, reduced(of_all(size, tensor.shape, torch.float32), Op.SUM))


def an_asynchronous_call_does_not_wait_for_other_ranks(rank, size):
    tensor = torch.ones(4)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        assert not work.is_completed()
        dist.send(torch.ones(1), 1)  # the other rank makes the collective call after this message
    elif rank == 1:
        dist.recv(torch.ones(1), 0)
        work = dist.all_reduce(tensor, async_op=True)
    else:
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    same(tensor, torch.full((4,), float(size)))


def callbacks_make_further_calls_and_wait_for_them(rank, size):
    lockstep_torch.set_time_in_call(0)
    second, third = torch.ones(2), torch.ones(2)
    store = dist.distributed_c10d._get_default_store()

    def after_the_first(future):
        dist.all_reduce(second)
        dist.all_reduce(third, async_op=True).get_future().wait()
        return future.value()[0] + second + third

    first = torch.ones(2)
    if rank == 0:
        store.wait(["callbacks"])  # the other ranks' callbacks are called by the progress thread
    future = dist.all_reduce(first, async_op=True).get_future().then(after_the_first)
    if rank == 1:
        store.set("callbacks", "")
    same(future.wait(), torch.full((2,), 3.0 * size))
    lockstep_torch.set_time_in_call(0.001)


def functional_collectives(rank, size):
    group = dist.group.WORLD
    total = reduced(of_all(size, (size, 4), torch.float32), Op.SUM)
    same(functional.all_reduce(numbers(rank, (size, 4), torch.float32), "sum", group) + 0, total)
    gathered = functional.all_gather_tensor(numbers(rank, (2, 3), torch.float32), 0, group) + 0
    same(gathered, of_all(size, (2, 3), torch.float32).flatten(0, 1))
    same(functional.reduce_scatter_tensor(numbers(rank, (size, 4), torch.float32), "sum", 0, group) + 0, total[rank:rank + 1])
    results = functional.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "sum", group)
    for one, n in zip(results, (2, 3)):
        same(one + 0, torch.full((n,), float(size)))
    results = functional.all_gather_into_tensor_coalesced([torch.full((2,), float(rank)), torch.ones(1)], group)
    same(results[0] + 0, torch.arange(size).float().repeat_interleave(2))
    exchanged = functional.all_to_all_single(torch.arange(size).float() + 10 * rank, None, None, group) + 0
    same(exchanged, 10 * torch.arange(size).float() + rank)


# ---- objects, groups

def object_collectives(rank, size):
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (rank * 100)})
    assert objects == [{"rank": r, "text": "x" * (r * 100)} for r in range(size)], objects
    objects = [f"from {rank}", rank]
    dist.broadcast_object_list(objects, size - 1)
    assert objects == [f"from {size - 1}", size - 1], objects
    gathered = [None] * size if rank == 1 else None
    dist.gather_object((rank, "y"), gathered, 1)
    assert rank != 1 or gathered == [(r, "y") for r in range(size)], gathered
    received = [None]
    dist.scatter_object_list(received, [{"to": r} for r in range(size)] if rank == 0 else [None] * size, 0)
    assert received == [{"to": rank}], received
    if rank == 0:
        dist.send_object_list([1, "two"], 1)
    elif rank == 1:
        objects = [None, None]
        dist.recv_object_list(objects, 0)
        assert objects == [1, "two"], objects


def groups_of_some_ranks(rank, size):
    members = [[r] for r in range(size)] + [[0, size - 1], list(range(size))]
    groups = [dist.new_group(ranks) for ranks in members]
    for ranks, group in zip(members, groups):
        if rank not in ranks:
            continue
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor, group=group)
        same(tensor, torch.full((3,), float(sum(ranks))))
        tensor = torch.full((3,), float(rank))
        dist.broadcast(tensor, ranks[-1], group=group)
        same(tensor, torch.full((3,), float(ranks[-1])))
    for ranks, group in zip(members, groups):
        if rank in ranks:
            dist.destroy_process_group(group)
    mesh = init_device_mesh("cpu", (size, 1), mesh_dim_names=("rows", "columns"))
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=mesh.get_group("rows"))
    dist.all_reduce(tensor, group=mesh.get_group("columns"))
    same(tensor, torch.full((1,), float(size)))


def a_group_that_a_member_creates_too_late_is_an_error_of_all_members(rank, size):
    if rank == size - 1:
        wait_for_mark("too late", size - 1)  # the others have failed
    fails(lambda: dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=2)),
          f"deadline_exceeded: waited 0:00:02 for rank {size - 1}, which did not create the process group of ranks 0, 1")
    mark("too late")


# ---- errors

def a_mismatch_names_the_ranks_and_their_calls(rank, size):
    parts = ("mismatch: ", "rank 0 calls all_reduce sum of f32 [2]", "calls all_reduce sum of f32 [3]", "the default group")
    wrong = torch.ones(3 if rank == size - 1 else 2)
    fails(lambda: dist.all_reduce(wrong), *parts, f"rank {size - 1} calls")
    work = dist.all_reduce(wrong, async_op=True)
    fails(work.wait, *parts)
    assert work.is_completed() and not work.is_success()
    future = dist.all_reduce(wrong, async_op=True).get_future()
    fails(future.wait, *parts)
    fails(lambda: dist.barrier() if rank == 0 else dist.all_reduce(torch.ones(2)), "mismatch: ", "barrier", "all_reduce")
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    same(tensor, torch.full((2,), float(size)))


def a_missing_rank_is_an_error_that_names_it(rank, size):
    dist.barrier()
    group = dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=4))
    if rank != size - 1:
        fails(lambda: dist.all_reduce(torch.ones(2), group=group), "deadline_exceeded", f"rank {size - 1}")
        mark("missing")
    else:
        wait_for_mark("missing", size - 1)
        fails(lambda: dist.all_reduce(torch.ones(2), group=group), "deadline_exceeded", f"rank {size - 1}")
    if rank == 0:
        fails(lambda: group.monitored_barrier(datetime.timedelta(0)), "deadline_exceeded", "rank")
        mark("monitored")
    else:
        wait_for_mark("monitored", 1)
        fails(lambda: dist.all_reduce(torch.ones(2), group=group), "deadline_exceeded", "rank")
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=group)
    same(tensor, torch.full((2,), float(size)))


def wrong_arguments_are_errors_and_the_group_can_be_used_again(rank, size):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    scaled = dist._make_nccl_premul_sum(2.0)
    for call, parts in (
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), Op.AVG), ("AVG of Int", "not an integer")),
            (lambda: dist.all_reduce(torch.ones(2), Op.BAND), ("BAND of Float", "not supported")),
            (lambda: dist.all_reduce(torch.ones(2), scaled), ("PREMUL_SUM", "multiply")),
            (lambda: backend.allreduce([torch.ones(2, dtype=torch.complex64)], Op.MAX), ("MAX of ComplexFloat", "SUM and AVG")),
            (lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)), ("Float8_e4m3fn", "not supported")),
            (lambda: backend.allreduce([torch.ones(2, device="meta")]), ("on meta", "host memory", "cuda:nccl")),
            (lambda: backend.allgather([[torch.ones(2)]], [torch.ones(2)]), (f"a group of {size} ranks",)),
            (lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size + 1)), ("all_to_all",)),
    ):
        fails(call, "invalid_argument: ", *parts)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        same(tensor, torch.full((1,), float(size)))
    if rank == 0:  # an error of one rank fails the call of the others
        fails(lambda: dist.all_reduce(torch.ones(2), scaled), "invalid_argument", "PREMUL_SUM")
    else:
        fails(lambda: dist.all_reduce(torch.ones(2)), "unavailable", "rank 0 failed", "PREMUL_SUM")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1,), float(size)))


def an_abort_ends_the_calls_of_all_ranks(rank, size):
    group = dist.new_group(list(range(size)))
    if rank == 0:
        time.sleep(0.2)
        group._get_backend(torch.device("cpu")).abort()
    else:
        fails(lambda: dist.all_reduce(torch.ones(2), group=group), "unavailable", "rank 0 failed", "abort() of the process group")
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=group)
    same(tensor, torch.full((1,), float(size)))
    dist.destroy_process_group(group)


# ---- training

def net(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def rows(step, size):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(size, 8, 16, generator=generator), torch.randint(0, 4, (size, 8), generator=generator)


def trained_alone(size, steps, accumulate=1):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(steps):
        x, y = rows(step, size)
        torch.nn.functional.cross_entropy(model(x.flatten(0, 1)), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def train(model, rank, size, steps):
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(steps):
        x, y = rows(step, size)
        torch.nn.functional.cross_entropy(model(x[rank]), y[rank]).backward()
        optimizer.step()
        optimizer.zero_grad()


def close(a, b, tolerance=1e-5):
    for one, other in zip(a.parameters(), b.parameters()):
        one = one.full_tensor() if isinstance(one, DTensor) else one
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def equal_on_all_ranks(model, size):
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    copies = [torch.empty_like(flat) for _ in range(size)]
    dist.all_gather(copies, flat)
    for copy in copies:
        same(copy, flat)


def distributed_data_parallel(rank, size):
    for seconds, cap in itertools.product((0, 0.001), (25, 0.001)):  # one bucket; a bucket for each layer
        lockstep_torch.set_time_in_call(seconds)
        model = torch.nn.parallel.DistributedDataParallel(net(seed=rank), bucket_cap_mb=cap)  # starts with rank 0's parameters
        with torch.no_grad():
            for mine, first in zip(model.parameters(), net(seed=0).parameters()):
                same(mine, first)
        model = torch.nn.parallel.DistributedDataParallel(net(), bucket_cap_mb=cap)
        train(model, rank, size, 5)
        close(model, trained_alone(size, 5))
        equal_on_all_ranks(model, size)


def distributed_data_parallel_with_no_sync_unused_parameters_and_hooks(rank, size):
    model = torch.nn.parallel.DistributedDataParallel(net(), find_unused_parameters=True)
    x, y = rows(0, size)
    with model.no_sync():
        torch.nn.functional.cross_entropy(model(x[rank][:4]), y[rank][:4]).backward()
    torch.nn.functional.cross_entropy(model(x[rank][4:]), y[rank][4:]).backward()
    alone = net()
    (torch.nn.functional.cross_entropy(alone(x.flatten(0, 1)), y.flatten()) * 2).backward()
    for one, other in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(one.grad, other.grad)

    model = torch.nn.parallel.DistributedDataParallel(net())
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    train(model, rank, size, 3)
    close(model, trained_alone(size, 3), 0.02)
    equal_on_all_ranks(model, size)

    lockstep_torch.set_time_in_call(0)  # the hook waits inside of callbacks
    model = torch.nn.parallel.DistributedDataParallel(net())
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2),
                             powerSGD_hook.powerSGD_hook)
    train(model, rank, size, 4)
    equal_on_all_ranks(model, size)
    lockstep_torch.set_time_in_call(0.001)


def fully_sharded_data_parallel(rank, size):
    for from_group in (False, True):
        mesh = init_device_mesh("cpu", (size,))
        model = net()
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if from_group:
            model.set_allocate_memory_from_process_group_for_comm(True)
        train(model, rank, size, 5)
        assert all(isinstance(p, DTensor) for p in model.parameters())
        close(model, trained_alone(size, 5))


def distributed_tensors(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    full = torch.arange(4.0 * size * 6).view(4 * size, 6)
    rows_sharded = distribute_tensor(full, mesh, [Shard(0)])
    same(rows_sharded.to_local(), full[4 * rank:4 * rank + 4])
    same(rows_sharded.redistribute(mesh, [Replicate()]).to_local(), full)
    columns = rows_sharded.redistribute(mesh, [Shard(1)])
    same(columns.full_tensor(), full)
    partial = DTensor.from_local(torch.full((2 * size,), float(rank + 1)), mesh, [Partial()])
    same(partial.full_tensor(), torch.full((2 * size,), size * (size + 1) / 2))
    same(partial.redistribute(mesh, [Shard(0)]).to_local(), torch.full((2,), size * (size + 1) / 2))
    product = distribute_tensor(full.t().contiguous(), mesh, [Shard(1)]) @ rows_sharded
    torch.testing.assert_close(product.full_tensor(), full.t() @ full)
    uneven = distribute_tensor(torch.arange(4.0 * size + 1), mesh, [Shard(0)])
    same(uneven.full_tensor(), torch.arange(4.0 * size + 1))


def distributed_checkpoints(rank, size):
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    mesh = init_device_mesh("cpu", (size,))

    def sharded(seed):
        model = net(seed)
        fully_shard(model, mesh=mesh)
        return model

    saved, loaded = sharded(1), sharded(2)
    train(saved, rank, size, 2)
    checkpoint.save({"model": saved.state_dict(), "step": 2}, checkpoint_id=folder[0])
    state = {"model": loaded.state_dict(), "step": 0}
    checkpoint.load(state, checkpoint_id=folder[0])
    loaded.load_state_dict(state["model"])
    assert state["step"] == 2
    for one, other in zip(loaded.parameters(), saved.parameters()):
        same(one.full_tensor(), other.full_tensor())


def tensors_in_the_arena(rank, size):
    assert not lockstep_torch.in_arena(torch.ones(100_000))
    lockstep_torch.use_arena(least_bytes=1000)
    try:
        large, small = torch.ones(100_000), torch.ones(10)
        assert lockstep_torch.in_arena(large) and not lockstep_torch.in_arena(small)
        dist.all_reduce(large)
        dist.all_reduce(small)
        same(large, torch.full((100_000,), float(size)))
        same(small, torch.full((10,), float(size)))
        model = torch.nn.parallel.DistributedDataParallel(net())
        train(model, rank, size, 5)
        close(model, trained_alone(size, 5))
        grown = torch.ones(10)
        grown.resize_(5000)
        assert lockstep_torch.in_arena(grown)
    finally:
        lockstep_torch.use_arena(False)
    assert not lockstep_torch.in_arena(torch.ones(100_000))
    same(large + 1, torch.full((100_000,), size + 1.0))
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    allocated = backend.allocate_tensor(5000, dtype=torch.float32, device=torch.device("cpu"))
    assert lockstep_torch.in_arena(allocated) and allocated.numel() == 5000


CASES = [case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__code__", None) is not None and case.__code__.co_varnames[:2] == ("rank", "size")
         and case.__code__.co_argcount == 2]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("lockstep", timeout=datetime.timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    store = dist.distributed_c10d._get_default_store()
    chosen = [case for case in CASES if len(sys.argv) == 1 or case.__name__ in sys.argv[1:]]
    failures = 0
    if rank == 0:
        print(f"1..{len(chosen)}", flush=True)
    for number, case in enumerate(chosen, 1):
        try:
            case(rank, size)
            outcome = ""
        except Exception:  # a failed case is a result
            outcome = f"rank {rank}: {traceback.format_exc()}"
        store.set(f"{case.__name__}/{rank}", outcome)
        outcomes = [store.get(f"{case.__name__}/{r}").decode() for r in range(size)]
        failures += any(outcomes)
        if rank == 0:
            print(f"{'not ok' if any(outcomes) else 'ok'} {number} - {case.__name__.replace('_', ' ')} on {size} ranks", flush=True)
            for line in "\n".join(filter(None, outcomes)).splitlines():
                print(f"# {line}", flush=True)
    dist.destroy_process_group()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
