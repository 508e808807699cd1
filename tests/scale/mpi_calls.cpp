// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of MPI for simulated ranks that SMPI lacks, or in which no simulated time passes, so that a rank that polls
// would never let another one run. Macros in meson.build put them in the place of the library's calls. SMPI itself is
// set to charge no time for polls: it would charge MPI_Testsome for each request, but MPI looks at all of them in one
// poll.

#include "base/check.hpp"
#include "scale/simulated_time.hpp"

#include <mpi.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

extern "C" int PMPI_Test(MPI_Request*, int*, MPI_Status*);  // the macro changes its name in mpi.h, too

namespace {

/// Requests that a test has found incomplete. Every rank has its own.
std::unordered_set<MPI_Request>& incomplete_requests() {
  static auto& requests = *new std::unordered_set<MPI_Request>;
  return requests;
}

int test_at_once(MPI_Request* request, int* is_complete, MPI_Status* status) {
  const MPI_Request tested = *request;
  const int error = PMPI_Test(request, is_complete, status);
  if (*is_complete != 0) {
    incomplete_requests().erase(tested);
  } else {
    incomplete_requests().insert(tested);
  }
  return error;
}

}  // namespace

/// SMPI does not implement it. Simulated ranks make communicators together, so the blocking call takes its place.
int MPI_Comm_idup(MPI_Comm original, MPI_Comm* copy, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return MPI_Comm_dup(original, copy);
}

/// SMPI sends a message from each rank to each other one, which takes minutes of real time for hundreds of ranks.
int MPI_Iallgather(const void* input, int input_count, MPI_Datatype input_type, void* output, int output_count,
                   MPI_Datatype output_type, MPI_Comm comm, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return MPI_Allgather(input, input_count, input_type, output, output_count, output_type, comm);
}

int MPI_Test(MPI_Request* request, int* is_complete, MPI_Status* status) {
  lockstep::detail::pass_time(lockstep::detail::poll_seconds);
  return test_at_once(request, is_complete, status);
}

/// PMPI_Testany tests many requests in the time of one (of the simulation, and of the processor that runs it). But it
/// overlooks requests that are complete from the start, as those of small sends are, so each request is first tested
/// alone.
int MPI_Testsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
  LOCKSTEP_CHECK(statuses == MPI_STATUSES_IGNORE);
  lockstep::detail::pass_time(lockstep::detail::poll_seconds);
  std::vector<MPI_Request> incomplete;
  std::vector<int> positions;  // of these requests in `requests`
  bool is_any_active = false;
  *completed = 0;
  for (int i = 0; i < count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    is_any_active = true;
    if (incomplete_requests().contains(requests[i])) {
      incomplete.push_back(requests[i]);
      positions.push_back(i);
      continue;
    }
    int is_complete = 0;
    if (const int error = test_at_once(&requests[i], &is_complete, MPI_STATUS_IGNORE); error != MPI_SUCCESS)
      return error;
    if (is_complete != 0) indices[(*completed)++] = i;
  }
  for (std::size_t left = incomplete.size(); left > 0; --left) {
    const std::vector<MPI_Request> tested = incomplete;
    int index = MPI_UNDEFINED;
    int is_complete = 0;
    const int error =
        MPI_Testany(static_cast<int>(incomplete.size()), incomplete.data(), &index, &is_complete, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) return error;
    if (is_complete == 0 || index == MPI_UNDEFINED) break;
    const auto at = static_cast<std::size_t>(index);
    incomplete_requests().erase(tested[at]);
    incomplete[at] = MPI_REQUEST_NULL;
    requests[positions[at]] = MPI_REQUEST_NULL;
    indices[(*completed)++] = positions[at];
  }
  std::sort(indices, indices + *completed);
  if (!is_any_active) *completed = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
