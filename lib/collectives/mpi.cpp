// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators over MPI.

#include <lockstep/interop/mpi.hpp>

#include "base/check.hpp"
#include "bindings/mpi/mpi.hpp"
#include "cluster/settings.hpp"
#include "collectives/make_communicator.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace lockstep {

Communicator communicator_from(MPI_Comm comm, const CommunicatorOptions& options) {
  namespace mpi = detail::mpi;
  if (!mpi::is_initialized()) {
    detail::throw_error(
        Code::failed_precondition,
        "communicator_from: MPI is not initialized; create a lockstep::Environment first, or call MPI_Init_thread");
  }
  if (mpi::is_finalized()) detail::throw_error(Code::failed_precondition, "communicator_from: MPI is finalized");
  if (comm == MPI_COMM_NULL) detail::throw_error(Code::invalid_argument, "communicator_from: comm is MPI_COMM_NULL");
  int is_inter = 0;
  mpi::check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0) {
    detail::throw_error(Code::invalid_argument,
                        "communicator_from: comm is an intercommunicator; give an intracommunicator");
  }
  const bool share_memory = detail::settings_from_environment().share_memory;
  return CommunicatorAccess::make(detail::make_mpi_transport(comm, share_memory), options);
}

Communicator world_communicator(const CommunicatorOptions& options) {
  return communicator_from(MPI_COMM_WORLD, options);
}

}  // namespace lockstep
