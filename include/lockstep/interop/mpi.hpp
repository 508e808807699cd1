// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Use of lockstep together with a program's own MPI calls. The only public header that includes mpi.h; optional.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

namespace lockstep {

/// A communicator over the ranks of `comm`, which is duplicated, so the program's own messages are separate from
/// lockstep's. Collective over `comm`, with the timeout of `options`. For MPI_COMM_WORLD, the same as
/// world_communicator. Throws Error(failed_precondition) if MPI is not initialised or already finalised, or on a thread
/// that may not enter MPI; Error(invalid_argument) for MPI_COMM_NULL and intercommunicators; Error(deadline_exceeded),
/// which names the missing ranks if there is a lockstep::Environment. After Error(deadline_exceeded) the ranks may try
/// again: the k-th call of one rank belongs to the k-th call of every other, failed calls included. Until the missing
/// rank has made the failed call, calls for other communicators may fail in the same way, because MPI cannot cancel
/// MPI_Comm_idup. Without an Environment the nodes are found by MPI_Comm_split_type, which has no timeout; it is called
/// only after all ranks have called this function. Destroy the last copy before MPI_Finalize.
[[nodiscard]] LOCKSTEP_API Communicator communicator_from(MPI_Comm comm, const CommunicatorOptions& options = {});

}  // namespace lockstep
