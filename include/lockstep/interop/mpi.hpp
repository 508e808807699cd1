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
[[nodiscard]] LOCKSTEP_API Communicator communicator_from(MPI_Comm comm, const CommunicatorOptions& options = {});

}  // namespace lockstep
