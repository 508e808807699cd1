# SPDX-FileCopyrightText: The lockstep authors
# SPDX-License-Identifier: Apache-2.0
"""The backend "lockstep" of torch.distributed, for tensors in host memory.

    import torch.distributed as dist
    import lockstep_torch

    dist.init_process_group("lockstep")        # mpirun -n 4 python train.py

The import starts MPI, and sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, so that the program needs
neither torchrun nor an address. A process that multiprocessing has started, such as a worker of a DataLoader, does not start MPI.
"""

import atexit
import multiprocessing
import os
import socket
import sys
import traceback
import zlib

import torch  # loads the libraries that the extension is linked with
import torch.distributed as dist

from . import _c
from .replicas import Replicas

__all__ = ["Replicas", "in_arena", "set_time_in_call", "use_arena"]


def use_arena(enable=True, *, least_bytes=65536):
    """Decides where new CPU tensors of this process are stored.

    With `enable`, tensors of at least `least_bytes` bytes are stored in memory that all ranks of the node map, and collectives use
    them in place. Call it before the model is made; gradients and the buckets of DistributedDataParallel follow. Memory of freed tensors
    stays reserved, so the memory of the process grows to the largest sum of tensors that ever existed. Off by default.
    """
    if enable:
        _c.put_tensors_in_arena(least_bytes)
    else:
        _c.put_tensors_in_ordinary_memory()


def in_arena(tensor):
    """Whether `tensor` is stored in memory that all ranks of the node map."""
    return _c.is_in_arena(tensor)


def set_time_in_call(seconds):
    """Sets how long an asynchronous call runs in the calling thread before a thread of the library continues it.

    Default: 0.001. A longer time saves a switch of threads if the other ranks come late; 0 gives the most overlap of communication with
    computation if there are idle cores.
    """
    _c.set_time_in_call(seconds)


def _unlaunched_reason():
    """Why this process cannot be a rank of an MPI job; None if it can."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return ("the backend lockstep needs MPI, but this process was started by torchrun; "
                "start the program by mpirun -n N python PROGRAM (or srun), without torchrun")
    is_importing_main = getattr(multiprocessing.current_process(), "_inheriting", False)  # a new process has no parent_process() yet
    if multiprocessing.parent_process() is not None or is_importing_main:
        return ("the backend lockstep needs MPI, but this process was started by multiprocessing; "
                "start the program by mpirun -n N python PROGRAM (or srun)")
    return None


def _free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _start():
    rank, size, local_rank, local_size, nodes = _c.start()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(local_rank), LOCAL_WORLD_SIZE=str(local_size))
    if "MASTER_ADDR" not in os.environ or "MASTER_PORT" not in os.environ:
        address = "127.0.0.1" if nodes == 1 else socket.gethostname()
        address, port = _c.text_of_rank_0(f"{address} {_free_port()}" if rank == 0 else "").split()
        os.environ.update(MASTER_ADDR=address, MASTER_PORT=port)
    atexit.register(_c.finish)
    sys.excepthook = _report_to_other_ranks(sys.excepthook)


def _report_to_other_ranks(hook):
    """A hook for exceptions that end this process: the operations of the other ranks fail with the text of the exception."""

    def report(kind, error, trace):
        _c.abort_all("".join(traceback.format_exception_only(kind, error)).strip())
        hook(kind, error, trace)

    return report


def _tag_of(group_id):
    return zlib.crc32(group_id.encode()) & 0x7FFF  # MPI permits at least 32767


def _await_members(options):
    """Waits until all members of a group create it, or raises the same error on all of them: MPI_Comm_create_group has no timeout.

    The last member to arrive, or the first one whose timeout ends, decides."""
    store, prefix = options.store, f"lockstep/{options.group_id}/"
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    store.set(f"{prefix}{options.group_rank}", "")
    if store.add(prefix + "arrived", 1) == len(members):
        store.compare_set(prefix + "decision", "", "complete")
    try:
        store.wait([prefix + "decision"], options.timeout)
    except dist.DistStoreError:
        missing = [str(member) for k, member in enumerate(members) if not store.check([f"{prefix}{k}"])]
        store.compare_set(prefix + "decision", "", f"waited {options.timeout} for rank{'s' * (len(missing) > 1)} {', '.join(missing)}, "
                          f"which did not create the process group of ranks {', '.join(map(str, members))}")
    decision = store.get(prefix + "decision").decode()
    if decision != "complete":
        raise dist.DistBackendError("deadline_exceeded: " + decision)


def _timeout(options):
    """LOCKSTEP_TIMEOUT applies unless the program passes a timeout of its own."""
    if "LOCKSTEP_TIMEOUT" in os.environ and options.timeout == dist.default_pg_timeout:
        return None
    return options.timeout.total_seconds()


def _create(options, _):
    reason = _unlaunched_reason()
    if reason:
        raise dist.DistBackendError(reason)
    _await_members(options)
    members = list(options.global_ranks_in_group)
    name = "the default group"
    if members and len(members) < int(os.environ["WORLD_SIZE"]):
        name = "the group of ranks " + ", ".join(map(str, members[:8])) + (", ..." if len(members) > 8 else "")
    else:
        members = []  # all ranks of the job
        if options.group_id not in ("", "0"):
            name = f"group {options.group_id}"
    return _c.create(options.group_rank, options.group_size, members, _tag_of(options.group_id), name, _timeout(options))


# Tensors on GPUs arrive here, too, unless the program chooses another backend for them; they get an error that says so.
dist.Backend.register_backend("lockstep", _create, extended_api=True, devices=["cpu", "cuda"])
if _unlaunched_reason() is None:
    _start()
