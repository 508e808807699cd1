// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Use of lockstep together with a program's own MPI calls. The only public header that includes mpi.h; optional.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

namespace lockstep {

/// A communicator over the ranks of `comm`, which is duplicated, so the program's own messages are separate from
/// lockstep's. Collective over `comm`. Throws Error(failed_precondition) if MPI is not initialised or already
/// finalised, and Error(invalid_argument) for MPI_COMM_NULL and intercommunicators. Destroy the last copy before
/// MPI_Finalize.
[[nodiscard]] LOCKSTEP_API Communicator communicator_from(MPI_Comm comm, const CommunicatorOptions& options = {});

}  // namespace lockstep
