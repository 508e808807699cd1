// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of MPI for simulated ranks that SMPI lacks, or in which no simulated time passes, so that a rank that polls
// would never let another one run. Macros in meson.build put them in the place of the library's calls.

#include <mpi.h>

/// SMPI does not implement it. Simulated ranks make communicators together, so the blocking call takes its place.
int MPI_Comm_idup(MPI_Comm original, MPI_Comm* copy, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return MPI_Comm_dup(original, copy);
}

int MPI_Testsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
  bool is_any_active = false;
  *completed = 0;
  for (int i = 0; i < count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    is_any_active = true;
    int is_complete = 0;
    MPI_Status* const status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + *completed;
    if (const int error = MPI_Test(&requests[i], &is_complete, status); error != MPI_SUCCESS) return error;
    if (is_complete != 0) indices[(*completed)++] = i;
  }
  if (!is_any_active) *completed = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
