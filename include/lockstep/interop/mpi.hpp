// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Use of lockstep together with a program's own MPI calls. Optional: the only public header that includes mpi.h.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

namespace lockstep {

/// A communicator over the ranks of `comm`. `comm` is duplicated, so the program's messages on `comm` are separate from
/// the messages of lockstep. Collective over `comm`, with the timeout of `options`. For MPI_COMM_WORLD, this function
/// is the same as world_communicator. Throws Error(failed_precondition) if MPI is not initialised or already finalised,
/// or if this thread may not call MPI. Throws Error(invalid_argument) for MPI_COMM_NULL and intercommunicators. Throws
/// Error(deadline_exceeded) if ranks are missing; with a lockstep::Environment, the text names the missing ranks.
/// After Error(deadline_exceeded), the ranks may call this function again: the k-th call of one rank matches the k-th
/// call of every other rank, and failed calls count. Until the missing rank has made the failed call, calls for other
/// communicators may fail in the same way, because MPI cannot cancel MPI_Comm_idup.
/// Without an Environment, the nodes are found by MPI_Comm_split_type, which has no timeout; it is called only after
/// all ranks have called this function. The communicator ends with its last copy, or in MPI_Finalize.
/// Without an Environment, the first call opens the files of LOCKSTEP_METRICS, LOCKSTEP_TRACE and LOCKSTEP_HASH_LOG,
/// which MPI_Finalize closes. Throws Error(invalid_argument) if a file cannot be written; then the next operation of
/// the other ranks throws Error(unavailable) with this text.
[[nodiscard]] LOCKSTEP_API Communicator communicator_from(MPI_Comm comm, const CommunicatorOptions& options = {});

/// The blocking collectives of MPI that lockstep itself calls.
struct MpiCollectives {
  int (*allreduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm) = nullptr;
  int (*bcast)(void*, int, MPI_Datatype, int, MPI_Comm) = nullptr;
  int (*allgather)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm) = nullptr;
};

/// From now on, lockstep calls these functions in place of MPI_Allreduce, MPI_Bcast and MPI_Allgather. For a library
/// that defines these names itself and serves them by lockstep: without this call, lockstep would call that library.
/// Local. Call it before the Environment is created; not thread-safe. Throws Error(invalid_argument) if a function is
/// null.
LOCKSTEP_API void set_mpi_collectives(const MpiCollectives& functions);

}  // namespace lockstep
