// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The communicators of lockstep for the communicators of the program.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

namespace lockstep::drop_in {

/// A communicator of the program whose collectives are taken over.
struct Group {
  Communicator communicator;
  int rank = 0;
  int size = 0;
  bool misses_rank = false;  ///< the last call has failed because a rank did not make it
};

/// The group of `comm`. At the first call for `comm`, makes the group: this is collective, and has the errors of
/// communicator_from. Null, on all ranks, if MPI keeps the collectives of `comm`: an intercommunicator, a single rank,
/// ranks of other worlds, or after MPI_Finalize has begun. The group exists until MPI frees `comm`, or until
/// MPI_Finalize. Thread-safe if each thread uses other communicators, as MPI requires.
[[nodiscard]] Group* group_of(MPI_Comm comm);

/// At the beginning of MPI_Finalize, calls `at_end`, destroys all groups, and then calls `after`. From then on,
/// group_of returns null. Called once.
void watch_finalize(void (*at_end)(), void (*after)());
/// Number of ranks of `comm`; 0 for MPI_COMM_NULL and intercommunicators. Local.
[[nodiscard]] int ranks_of(MPI_Comm comm);
/// Whether a rank is missing from a group, so that MPI_Finalize may wait for ever.
[[nodiscard]] bool misses_rank();
/// Number of groups that have been made.
[[nodiscard]] int groups_made() noexcept;

}  // namespace lockstep::drop_in
