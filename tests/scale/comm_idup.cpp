// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// SMPI has no MPI_Comm_idup. Simulated ranks make communicators together, so the blocking call takes its place; see
// meson.build.

#include <mpi.h>

// SMPI's header declares it by the name that the macro has replaced
int MPI_Comm_idup(MPI_Comm original, MPI_Comm* copy, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return MPI_Comm_dup(original, copy);
}
